//! Cross-encoders: a model that reads a query and a document together, and gives a score.

use std::path::Path;

use quarry_embed::{EmbedError, PairModel};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{PostProcessor, Tokenizer};
use xxhash_rust::xxh3::Xxh3;

use super::config::Directory;
use super::encoder::{About, Encoder};
use super::options::Options;
use super::pooling::{Head, Pooling};
use super::reader::{Reader, guarded, parse};
use super::trainable::{MATCHER_FILE, truncate_pair};
use super::weights::Weights;
use super::{batches, check_numbers, check_tokens};

/// A model with a classifier of one or two labels, as transformers saves it (`…ForSequenceClassification`).
pub struct CrossEncoder {
    id: String,
    path: String,
    encoder: Encoder,
    /// Without truncation.
    tokenizer: Tokenizer,
    max_tokens: usize,
    /// Maximum number of tokens of the query, if the model was trained with one.
    max_query_tokens: Option<usize>,
    head: Head,
}

#[derive(Deserialize)]
struct Config {
    /// As `quarry train encoder` writes it ([`MAX_QUERY_TOKENS`](super::trainable::MAX_QUERY_TOKENS)).
    max_query_tokens: Option<usize>,
    #[serde(default)]
    architectures: Vec<String>,
    id2label: Option<Map<String, Value>>,
    num_labels: Option<usize>,
}

impl Config {
    fn classifies(&self) -> bool {
        self.architectures.iter().any(|name| name.ends_with("ForSequenceClassification"))
    }
}

impl CrossEncoder {
    /// Returns whether the configuration in a directory is that of such a model.
    pub fn is_at(path: &Path) -> bool {
        let file = path.join("config.json");
        let config =
            quarry_embed::read_file(&file).ok().and_then(|bytes| parse::<Config>(&file, &bytes).ok());
        config.is_some_and(|config| config.classifies()) && !path.join("modules.json").exists()
    }

    /// Loads a directory.
    ///
    /// # Errors
    /// When a file is missing, damaged, or asks for something unsupported; the error names it and what to do.
    pub fn load(path: &Path) -> Result<CrossEncoder, EmbedError> {
        if !path.is_dir() {
            return Err(EmbedError::model(path, "is not a directory; expected that of a cross-encoder"));
        }
        let matcher = path.join(MATCHER_FILE);
        if matcher.is_file() {
            let problem = format!("is a siamese matcher, not a cross-encoder; {}", super::matcher::USE);
            return Err(EmbedError::model(&matcher, problem));
        }
        let file = path.join("config.json");
        let config: Config = Reader { hash: &mut Xxh3::new() }.required(&file)?;
        if !config.classifies() || path.join("modules.json").exists() {
            let problem = "is not a cross-encoder; expected a config.json that lists an architecture ending in \
                           ForSequenceClassification, and no modules.json";
            return Err(EmbedError::model(path, problem));
        }
        let mut hash = Xxh3::new();
        let options = Options { pooling: Some(Pooling::Cls), ..Options::default() };
        let mut directory = Directory::read(path, &options, &mut hash)?;
        // Without an entry, there are two.
        let n_labels = config.num_labels.or(config.id2label.map(|labels| labels.len())).unwrap_or(2);
        if !(1..=2).contains(&n_labels) {
            let problem = format!("has {n_labels} labels; expected a cross-encoder with one or two");
            return Err(EmbedError::model(&file, problem));
        }
        let processor = directory.tokenizer.get_post_processor();
        let n_special = processor.map_or(0, |processor| processor.added_tokens(true));
        let max_tokens = directory.tokenizer.get_truncation().map_or(0, |truncation| truncation.max_length);
        if max_tokens <= n_special {
            let problem = format!(
                "truncates pairs of texts at {max_tokens} tokens; expected more than their {n_special} special tokens"
            );
            return Err(EmbedError::model(path, problem));
        }
        let problem = "has a tokenizer that cannot read whole texts; save the model's tokenizer again";
        guarded(path, problem, || directory.tokenizer.with_truncation(None).map(drop))?;
        let mut weights = Weights::open(&directory.weights, &mut hash)?;
        let encoder = directory.architecture.encoder(&mut weights)?.packed();
        let classifier = directory.architecture.classifier(&mut weights, n_labels)?;
        let hidden = encoder.shape.hidden;
        let mut head = Head::new(hidden, vec![classifier.pooling]);
        head.steps = classifier.steps;
        head.normalize = false;
        Ok(CrossEncoder {
            id: format!("cross-{}x{hidden}-{:016x}", encoder.shape.n_layers, hash.digest()),
            path: path.display().to_string(),
            encoder,
            tokenizer: directory.tokenizer,
            max_tokens,
            max_query_tokens: config.max_query_tokens,
            head,
        })
    }

    /// Maximum number of tokens of a pair, special ones included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The tokens of a pair, and where its second text begins.
    fn tokenize(&self, pair: (&str, &str)) -> Result<(Vec<u32>, usize), EmbedError> {
        let path = Path::new(&self.path);
        let problem = "has a tokenizer that fails on a pair of texts; save the model's tokenizer again";
        let encoding = guarded(path, problem, || self.tokenizer.encode_fast(pair, true))?;
        let mut rest = [0, 0];
        let text_of = |token: usize| encoding.token_to_sequence(token).filter(|text| *text < 2);
        let texts: Vec<Option<usize>> = (0..encoding.len()).map(text_of).collect();
        texts.iter().flatten().for_each(|text| rest[*text] += 1);
        let n_special = encoding.len() - rest[0] - rest[1];
        let room = self.max_tokens.saturating_sub(n_special);
        rest = match self.max_query_tokens {
            Some(limit) => truncate_pair([rest[0].min(limit), rest[1]], room),
            None => cut(rest, room),
        };
        let (mut ids, mut second) = (Vec::new(), None);
        for ((id, kind), text) in encoding.get_ids().iter().zip(encoding.get_type_ids()).zip(texts) {
            if let Some(text) = text {
                if rest[text] == 0 {
                    continue;
                }
                rest[text] -= 1;
            }
            if *kind > 0 && second.is_none() {
                second = Some(ids.len());
            }
            ids.push(*id);
        }
        check_tokens(path, &ids, self.encoder.n_tokens())?;
        let second = second.unwrap_or(ids.len());
        Ok((ids, second))
    }
}

impl PairModel for CrossEncoder {
    fn id(&self) -> &str {
        &self.id
    }

    /// The logit of the only label, or the difference between the logits of the second label and the first. Fails when
    /// the tokenizer does, or gives a token for which the model has no vector.
    fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError> {
        let tokens = pairs.par_iter().map(|pair| self.tokenize(*pair)).collect::<Result<Vec<_>, _>>()?;
        let (ids, seconds): (Vec<Vec<u32>>, Vec<usize>) = tokens.into_iter().unzip();
        let scores: Vec<Vec<f32>> = batches(&ids, rayon::current_num_threads())
            .into_par_iter()
            .with_max_len(1)
            .map(|batch| {
                let texts = &ids[batch.clone()];
                let states = self.encoder.run(texts, About { seconds: &seconds[batch], ..About::default() });
                let logits = self.head.apply(texts.iter().map(Vec::len), 0, &states);
                logits
                    .chunks_exact(self.head.dimension())
                    .map(|logits| if let [no, yes] = logits { yes - no } else { logits[0] })
                    .collect()
            })
            .collect();
        let scores = scores.concat();
        check_numbers(Path::new(&self.path), &scores)?;
        Ok(scores)
    }
}

/// The lengths of two texts of which the longer one is cut until both have `room`, as transformers cuts them.
fn cut([first, second]: [usize; 2], room: usize) -> [usize; 2] {
    if first > second {
        let [second, first] = cut([second, first], room);
        return [first, second];
    }
    let first = first.min(room / 2);
    [first, second.min(room - first)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_cut_as_in_training() {
        // Token by token from the longer text, the second one if they are equal.
        for room in 0..12 {
            for (first, second) in (0..12).flat_map(|first| (0..12).map(move |second| (first, second))) {
                let [mut a, mut b] = [first, second];
                while a + b > room {
                    if a > b { a -= 1 } else { b -= 1 }
                }
                assert_eq!(truncate_pair([first, second], room), [a, b], "{first} {second} {room}");
            }
        }
    }

    #[test]
    fn the_longer_text_is_cut() {
        assert_eq!(cut([3, 4], 7), [3, 4]);
        assert_eq!(cut([3, 9], 7), [3, 4]);
        assert_eq!(cut([9, 2], 7), [5, 2]);
        assert_eq!(cut([9, 8], 7), [4, 3]);
        assert_eq!(cut([8, 8], 7), [3, 4]);
        assert_eq!(cut([0, 8], 0), [0, 0]);
    }
}
