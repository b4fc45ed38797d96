//! The expressions that name methods, and formatting them; [`super::parser`] reads them.

use super::bag_of_words::Vocabulary;
use super::fusion::Fusion;
use super::precomputed::Similarity;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// Default number of candidates of [`Method::Rerank`].
pub(super) const DEFAULT_DEPTH: usize = 100;

/// A method, as the expression that results contain. [`fmt::Display`] writes what [`std::str::FromStr`] reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// `bow`, or `bow(vocabulary = positives)`: [`super::BagOfWords`].
    BagOfWords(Vocabulary),
    /// `bm25`: [`super::Bm25`].
    Bm25,
    /// `bm25-lucene`: [`super::LuceneBm25`].
    LuceneBm25,
    /// `overlap`: [`super::Overlap`].
    Overlap,
    /// `static`: [`super::Dense`] with the built-in model, as in search.
    Static,
    /// `hybrid`, or `fast`: [`super::Hybrid`] with the built-in model.
    Hybrid,
    /// `best`, or `balanced`: [`super::Tiered`], hybrid with the transformer that comes with the program.
    Best,
    /// Any other name is a path: [`super::Dense`] with the model at that path, in full precision.
    Model(PathBuf),
    /// `api:MODEL`, or `api(MODEL, query = …, document = …, dimensions = …)`: [`super::Dense`] with a model on a
    /// server.
    Api(ApiModel),
    /// `chat:MODEL`, or `chat(MODEL, judge = …, language = …, prompts = DIR, temperature = …)`: a chat model that decides for each pair whether it matches.
    Chat(ChatModel),
    /// `vectors:FOLDER`, or `vectors(FOLDER, similarity = dot)`: [`super::Precomputed`].
    Vectors { directory: PathBuf, similarity: Similarity },
    /// `run:FILE`: [`super::RunScores`].
    Run(PathBuf),
    /// `mean(…)`, `max-abs(…)`, `rrf(…, k = 60)`, `zscore(…)`: [`Fusion::combine`].
    Fused {
        fusion: Fusion,
        /// Parts with their weights, at least one.
        parts: Vec<(f64, Method)>,
    },
    /// `rerank(FIRST, SECOND, depth = 100)`: [`super::Reranked`].
    Rerank { first: Box<Method>, second: Box<Method>, depth: usize },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiModel {
    pub model: String,
    pub query_prefix: String,
    pub document_prefix: String,
    /// Requested length of vectors; `None` for the model's own.
    pub dimensions: Option<u32>,
}

/// A chat model that judges pairs of a query and a document.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatModel {
    pub model: String,
    /// Name of the judge whose question is used.
    pub judge: String,
    /// Programming language of the documents.
    pub language: String,
    /// Directory with prompts that replace the built-in ones.
    pub prompts: Option<PathBuf>,
    /// Sampling temperature; that of the prompt if `None`.
    pub temperature: Option<f64>,
}

impl Default for ChatModel {
    /// GenCodeSearchNet's question about search queries, for Python.
    fn default() -> Self {
        Self {
            model: String::new(),
            judge: "gencodesearchnet-query".to_owned(),
            language: "python".to_owned(),
            prompts: None,
            temperature: None,
        }
    }
}

/// Methods without arguments, by name.
pub(super) const NAMES: [(&str, Method); 9] = [
    ("bow", Method::BagOfWords(Vocabulary::Corpus)),
    ("bm25", Method::Bm25),
    ("bm25-lucene", Method::LuceneBm25),
    ("overlap", Method::Overlap),
    ("static", Method::Static),
    ("hybrid", Method::Hybrid),
    ("fast", Method::Hybrid),
    ("best", Method::Best),
    ("balanced", Method::Best),
];

/// Names of methods that take methods as arguments.
pub(super) const COMBINATIONS: [&str; 5] = ["mean", "max-abs", "rrf", "zscore", "rerank"];

impl Method {
    /// The methods that this one is composed of, recursively; itself if it has no parts.
    pub fn leaves(&self) -> Vec<&Method> {
        match self {
            Method::Fused { parts, .. } => parts.iter().flat_map(|(_, part)| part.leaves()).collect(),
            Method::Rerank { first, second, .. } => [first.leaves(), second.leaves()].concat(),
            leaf => vec![leaf],
        }
    }

    /// Returns whether the method uses the built-in model, which `--model` can replace.
    pub fn uses_builtin_model(&self) -> bool {
        self.leaves().into_iter().any(|leaf| matches!(leaf, Method::Static | Method::Hybrid | Method::Best))
    }

    /// Number of times that the corpus is embedded.
    pub fn n_embeddings(&self) -> usize {
        let embeds = |leaf: &&Method| {
            matches!(leaf, Method::Static | Method::Hybrid | Method::Best | Method::Model(_) | Method::Api(_))
        };
        self.leaves().iter().filter(|leaf| embeds(leaf)).count()
    }

    /// Files and directories that the method reads, as they are written in it.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        for leaf in self.leaves() {
            if let Method::Model(path) | Method::Run(path) | Method::Vectors { directory: path, .. } = leaf {
                paths.push(path.as_path());
            }
        }
        paths
    }

    pub fn asks_chat_models(&self) -> bool {
        self.leaves().iter().any(|leaf| matches!(leaf, Method::Chat(_)))
    }

    /// The same method with relative paths resolved against `directory`.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        self.with_paths(&|path| directory.join(path))
    }

    #[must_use]
    pub fn with_paths(self, located: &dyn Fn(&Path) -> PathBuf) -> Self {
        match self {
            Method::Model(path) => Method::Model(located(&path)),
            Method::Run(path) => Method::Run(located(&path)),
            Method::Vectors { directory, similarity } => {
                Method::Vectors { directory: located(&directory), similarity }
            }
            Method::Chat(chat) => {
                let prompts = chat.prompts.map(|path| located(&path));
                Method::Chat(ChatModel { prompts, ..chat })
            }
            Method::Fused { fusion, parts } => {
                let parts =
                    parts.into_iter().map(|(weight, part)| (weight, part.with_paths(located))).collect();
                Method::Fused { fusion, parts }
            }
            Method::Rerank { first, second, depth } => {
                let [first, second] = [first, second].map(|part| Box::new(part.with_paths(located)));
                Method::Rerank { first, second, depth }
            }
            other => other,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, method)| method == self) {
            return formatter.write_str(name);
        }
        match self {
            Method::BagOfWords(_) => formatter.write_str("bow(vocabulary = positives)"),
            Method::Model(path) => formatter.write_str(&method_path(&path.to_string_lossy())),
            Method::Run(path) => write!(formatter, "run:{}", quote(&path.to_string_lossy())),
            Method::Vectors { directory, similarity } => {
                let directory = quote(&directory.to_string_lossy());
                match similarity {
                    Similarity::Cosine => write!(formatter, "vectors:{directory}"),
                    Similarity::Dot => write!(formatter, "vectors({directory}, similarity = dot)"),
                }
            }
            Method::Api(api) => {
                let (ApiModel { query_prefix, document_prefix, dimensions, .. }, model) =
                    (api, quote(&api.model));
                let mut options = String::new();
                for (name, prefix) in [("query", query_prefix), ("document", document_prefix)] {
                    if !prefix.is_empty() {
                        write!(options, ", {name} = {}", quote(prefix))?;
                    }
                }
                if let Some(dimensions) = dimensions {
                    write!(options, ", dimensions = {dimensions}")?;
                }
                write_model(formatter, "api", &model, &options)
            }
            Method::Chat(chat) => {
                let (default, model) = (ChatModel::default(), quote(&chat.model));
                let mut options = String::new();
                for (name, value, default) in
                    [("judge", &chat.judge, default.judge), ("language", &chat.language, default.language)]
                {
                    if *value != default {
                        write!(options, ", {name} = {}", quote(value))?;
                    }
                }
                if let Some(prompts) = &chat.prompts {
                    write!(options, ", prompts = {}", quote(&prompts.to_string_lossy()))?;
                }
                if let Some(temperature) = chat.temperature {
                    write!(options, ", temperature = {temperature}")?;
                }
                write_model(formatter, "chat", &model, &options)
            }
            Method::Fused { fusion, parts } => {
                let name = match fusion {
                    Fusion::Mean => "mean",
                    Fusion::MaxAbs => "max-abs",
                    Fusion::ReciprocalRank { .. } => "rrf",
                    Fusion::ZScore => "zscore",
                };
                let weighted = |(weight, part): &(f64, Method)| match *weight {
                    1.0 => part.to_string(),
                    weight => format!("{weight} * {part}"),
                };
                let parts: Vec<String> = parts.iter().map(weighted).collect();
                write!(formatter, "{name}({}", parts.join(", "))?;
                match fusion {
                    Fusion::ReciprocalRank { k } if *k != Fusion::DEFAULT_K => {
                        write!(formatter, ", k = {k})")
                    }
                    _ => formatter.write_char(')'),
                }
            }
            Method::Rerank { first, second, depth: DEFAULT_DEPTH } => {
                write!(formatter, "rerank({first}, {second})")
            }
            Method::Rerank { first, second, depth } => {
                write!(formatter, "rerank({first}, {second}, depth = {depth})")
            }
            // In `NAMES`.
            Method::Bm25
            | Method::LuceneBm25
            | Method::Overlap
            | Method::Static
            | Method::Hybrid
            | Method::Best => Ok(()),
        }
    }
}

fn write_model(formatter: &mut fmt::Formatter<'_>, prefix: &str, model: &str, options: &str) -> fmt::Result {
    match options {
        "" => write!(formatter, "{prefix}:{model}"),
        options => write!(formatter, "{prefix}({model}{options})"),
    }
}

/// The path of a model, quoted if it would otherwise be parsed as something else.
fn method_path(path: &str) -> String {
    let taken = NAMES.iter().any(|(name, _)| *name == path)
        || COMBINATIONS.contains(&path)
        || ["vectors:", "run:", "api:", "chat:"].iter().any(|prefix| path.starts_with(prefix));
    if taken { quoted(path) } else { quote(path) }
}

/// A text, quoted if necessary.
fn quote(text: &str) -> String {
    let bare = !text.is_empty() && text.trim() == text && !text.contains([',', '(', ')', '"', '=', '*']);
    if bare { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn method() -> impl Strategy<Value = Method> {
        let text = "[ -~äß∑]{1,12}";
        let leaf = prop_oneof![
            prop::sample::select(NAMES.map(|(_, method)| method).to_vec()),
            Just(Method::BagOfWords(Vocabulary::Positives)),
            prop::sample::select(COMBINATIONS.to_vec()).prop_map(|name| Method::Model(name.into())),
            text.prop_map(|path| Method::Model(path.into())),
            text.prop_map(|path| Method::Run(path.into())),
            (text, prop::bool::ANY).prop_map(|(directory, dot)| Method::Vectors {
                directory: directory.into(),
                similarity: if dot { Similarity::Dot } else { Similarity::Cosine },
            }),
            (text, "[ -~]{0,5}", "[ -~]{0,5}", prop::option::of(1_u32..)).prop_map(
                |(model, query_prefix, document_prefix, dimensions)| {
                    Method::Api(ApiModel { model, query_prefix, document_prefix, dimensions })
                }
            ),
            (
                (text, "[a-z -]{1,8}", prop::sample::select(vec!["python", "r", "c, d"])),
                prop::option::of(text.prop_map(PathBuf::from)),
                prop::option::of(0.0..2.0)
            )
                .prop_map(|((model, judge, language), prompts, temperature)| {
                    Method::Chat(ChatModel {
                        model,
                        judge,
                        language: language.to_owned(),
                        prompts,
                        temperature,
                    })
                }),
        ];
        leaf.prop_recursive(4, 16, 3, |inner| {
            let weight = prop_oneof![Just(1.0), 1e-6..1e6];
            let fusion = prop_oneof![
                Just(Fusion::Mean),
                Just(Fusion::MaxAbs),
                Just(Fusion::ZScore),
                prop_oneof![Just(Fusion::DEFAULT_K), 0.0..1e4].prop_map(|k| Fusion::ReciprocalRank { k }),
            ];
            prop_oneof![
                (fusion, prop::collection::vec((weight, inner.clone()), 1..4))
                    .prop_map(|(fusion, parts)| Method::Fused { fusion, parts }),
                (inner.clone(), inner, 1_usize..1_000).prop_map(|(first, second, depth)| Method::Rerank {
                    first: Box::new(first),
                    second: Box::new(second),
                    depth,
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn expressions_round_trip(method in method()) {
            let shown = method.to_string();
            prop_assert_eq!(shown.parse::<Method>(), Ok(method), "{}", shown);
        }

        #[test]
        fn any_text_is_a_method_or_an_error(text in r#"([a-z.]{1,4}|[(),"=*\\:ä ]|rrf\(|k ?=|api:|chat:){0,12}"#) {
            match text.parse::<Method>() {
                Ok(method) => prop_assert_eq!(method.to_string().parse::<Method>(), Ok(method)),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
