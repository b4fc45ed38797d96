//! Input of GraphCodeBERT for a function (Guo et al., 2021): its tokens, and after them a node for each variable, which
//! stands where its value comes from.
//!
//! Nodes have no position. A node begins as the mean of the vectors of its tokens, attends to these and to the nodes it
//! comes from, and is attended to by its tokens, and by the special tokens, which attend to everything.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use quarry_embed::EmbedError;
use quarry_source::{DataFlow, FlowNode, Language, data_flow, language_of_function};
use tokenizers::Tokenizer;

use super::reader::{FAILS, guarded};

/// Maximum tokens of code and nodes of variables, as in the published model.
const CODE_LENGTH: usize = 256;
const NODES_LENGTH: usize = 64;

/// The nodes at the end of a text, and which tokens and nodes attend to which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Number of tokens before the nodes.
    pub n_tokens: usize,
    /// The tokens that each node stands for.
    pub nodes: Vec<Range<usize>>,
    /// For each token and then each node, whether it attends to each token and each node.
    mask: Vec<bool>,
}

impl Graph {
    /// Tokens and nodes.
    pub(crate) fn len(&self) -> usize {
        self.n_tokens + self.nodes.len()
    }

    /// Returns whether the token or node of each number is attended to by the one at `position`.
    pub(crate) fn reached(&self, position: usize) -> &[bool] {
        &self.mask[position * self.len()..][..self.len()]
    }

    /// The graph of a text whose tokens `specials` attend to everything. A node has a range of tokens, empty if these were
    /// cut off, and the numbers of the nodes it comes from.
    fn new(
        n_tokens: usize,
        specials: impl Iterator<Item = usize>,
        nodes: Vec<(Range<usize>, Vec<usize>)>,
    ) -> Graph {
        let n = n_tokens + nodes.len();
        let mut mask = vec![false; n * n];
        for row in mask.chunks_exact_mut(n).take(n_tokens) {
            row[..n_tokens].fill(true);
        }
        for special in specials {
            mask[special * n..][..n].fill(true);
        }
        for (number, (tokens, sources)) in nodes.iter().enumerate() {
            let own = n_tokens + number;
            mask[own * n..][tokens.clone()].fill(true);
            tokens.clone().for_each(|token| mask[token * n + own] = true);
            sources.iter().for_each(|source| mask[own * n + n_tokens + source] = true);
        }
        Graph { n_tokens, nodes: nodes.into_iter().map(|(tokens, _)| tokens).collect(), mask }
    }
}

/// Reads functions with their data flow.
#[derive(Debug, Clone)]
pub(crate) struct GraphReader {
    /// The language of all texts; `None` if it is found for each.
    language: Option<Language>,
    /// Without truncation.
    tokenizer: Tokenizer,
    /// Before and after the tokens of a text.
    special: [u32; 2],
    /// Tokens and nodes together.
    max_tokens: usize,
}

impl GraphReader {
    /// For the model of a directory, which reads at most `max_tokens` tokens.
    ///
    /// # Errors
    /// When its tokenizer adds no special tokens.
    pub(crate) fn new(
        directory: &Path,
        language: Option<Language>,
        tokenizer: &Tokenizer,
        max_tokens: usize,
    ) -> Result<GraphReader, EmbedError> {
        let mut tokenizer = tokenizer.clone();
        guarded(directory, FAILS, || tokenizer.with_truncation(None).map(drop))?;
        let of_nothing = guarded(directory, FAILS, || tokenizer.encode_fast("", true))?;
        let [first, last] = *of_nothing.get_ids() else {
            let problem = "has a tokenizer that does not add a token before and one after each text, which data flow needs; use \
                           it with a GraphCodeBERT model";
            return Err(EmbedError::model(directory, problem));
        };
        Ok(GraphReader {
            language,
            tokenizer,
            special: [first, last],
            max_tokens: max_tokens.min(CODE_LENGTH + NODES_LENGTH),
        })
    }

    /// The tokens of a function and its graph, whose nodes have the last token. `None` for a text in a language whose data
    /// flow is not known.
    pub(crate) fn read(&self, path: &Path, text: &str) -> Result<Option<(Vec<u32>, Graph)>, EmbedError> {
        let Some(flow) = self
            .language
            .or_else(|| language_of_function(text))
            .and_then(|language| data_flow(language, text))
        else {
            return Ok(None);
        };
        let [first, last] = self.special;
        let mut ids = vec![first];
        let mut tokens: Vec<Range<usize>> = Vec::with_capacity(flow.tokens.len());
        for (number, token) in flow.tokens.iter().enumerate() {
            // Only the first one has no space before it.
            let encoding = guarded(path, FAILS, || match number {
                0 => self.tokenizer.encode_fast(token.as_str(), false),
                _ => self.tokenizer.encode_fast(format!(" {token}"), false),
            })?;
            let start = ids.len();
            ids.extend_from_slice(encoding.get_ids());
            tokens.push(start..ids.len());
        }
        let n_reserved = flow.nodes.len().min(NODES_LENGTH);
        ids.truncate((self.max_tokens - 1).saturating_sub(n_reserved).max(1));
        ids.push(last);
        let n_tokens = ids.len();
        let nodes = place_nodes(flow, &tokens, n_tokens, self.max_tokens - n_tokens);
        let specials: Vec<usize> = (0..n_tokens).filter(|at| self.special.contains(&ids[*at])).collect();
        let graph = Graph::new(n_tokens, specials.into_iter(), nodes);
        ids.resize(graph.len(), last);
        Ok(Some((ids, graph)))
    }
}

/// The tokens of the first `limit` nodes, and the numbers of the nodes they come from: of several with the same token, the
/// last one. A node whose tokens were cut off has none; one that would attend to nothing is left out.
fn place_nodes(
    mut flow: DataFlow,
    tokens: &[Range<usize>],
    n_tokens: usize,
    limit: usize,
) -> Vec<(Range<usize>, Vec<usize>)> {
    let own = |node: &FlowNode| {
        let range = tokens[node.token].clone();
        if range.end < n_tokens { range } else { 0..0 }
    };
    flow.nodes.truncate(limit);
    loop {
        let n_before = flow.nodes.len();
        let known: HashSet<usize> = flow.nodes.iter().map(|node| node.token).collect();
        let is_known = |source: &usize| known.contains(source);
        flow.nodes.retain(|node| !own(node).is_empty() || node.sources.iter().any(is_known));
        if flow.nodes.len() == n_before {
            break;
        }
    }
    let numbers: HashMap<usize, usize> =
        flow.nodes.iter().enumerate().map(|(number, node)| (node.token, number)).collect();
    let number = |source: &usize| numbers.get(source).copied();
    flow.nodes.iter().map(|node| (own(node), node.sources.iter().filter_map(number).collect())).collect()
}
