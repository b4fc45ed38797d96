//! A source tree that can be asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_corpus::walk::{self, Listing};
use quarry_embed::Embedder;
use quarry_index::{
    DEFAULT_THRESHOLD, Filter, Hit, Index, OpenOptions, Ranking, SearchRequest, SearchResponse, snippet,
};
use quarry_source::{UnitKind, extract};
use quarry_text::query_terms;
use serde_json::{Value, json};

use crate::ToolError;
use crate::places::Place;
use crate::reading::{Wanted, read_unit};
use crate::results::{Found, SNIPPET_LINES, list, what};
use crate::tools::{Call, ReadUnit, Search, Similar};

/// A source tree, its index, and the model that it is searched with.
///
/// It holds nothing open: every call compares the tree with the index and refreshes that where files have changed,
/// which costs little where none has, and sees what other processes have indexed.
pub struct Workspace {
    root: PathBuf,
    options: OpenOptions,
    embedder: Arc<dyn Embedder>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For the agent to read.
    pub text: String,
    /// The same as JSON. Only where it is all that the text says, because some clients show an agent nothing else.
    pub structured: Option<Value>,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, structured: None }
    }
}

impl Workspace {
    /// The tree at `root`. Nothing is read or indexed before the first call.
    #[must_use]
    pub fn new(root: PathBuf, options: OpenOptions, embedder: Arc<dyn Embedder>) -> Self {
        Self { root, options, embedder }
    }

    /// Answers a call. Blocks while the index is built, by this process or another one.
    ///
    /// # Errors
    /// When the arguments name nothing that there is, or the tree cannot be read or indexed.
    pub fn answer(&self, call: &Call) -> Result<Answer, ToolError> {
        match call {
            Call::Search(search) => self.search(search),
            Call::Similar(similar) => self.similar(similar),
            Call::ReadUnit(unit) => self.read_unit(unit),
            Call::IndexStatus(_) => self.index_status(),
        }
    }

    fn search(&self, search: &Search) -> Result<Answer, ToolError> {
        let place = if search.path.is_empty() {
            Place::Root
        } else {
            let listing = self.listing()?;
            Place::of(&search.path, &self.roots(), &paths(&listing))?
        };
        let kinds: Vec<UnitKind> = search.kinds.iter().map(|&kind| kind.into()).collect();
        let filter = Filter::new(&search.languages, &kinds, &place.globs(&search.globs))?;
        let index = self.index()?;
        let response = index.search(&SearchRequest {
            query: &search.query,
            limit: search.k,
            ranking: Ranking::default(),
            filter: &filter,
        })?;
        let heading = search_heading(&response, !filter.is_empty());
        let results = found(&index, response.hits, &query_terms(&search.query));
        Ok(list(&heading, &results, search.max_tokens).into())
    }

    fn similar(&self, similar: &Similar) -> Result<Answer, ToolError> {
        let listing = self.listing()?;
        let path = Place::file(&similar.path, &self.roots(), &paths(&listing))?;
        let index = self.index()?;
        let response = index.similar(&path, similar.line, similar.k, &Filter::default())?;
        let given = index.unit_at(&path, similar.line);
        let given = given.map_or_else(
            || format!("{path}:{}", similar.line),
            |hit| {
                let place = format!("{}:{}-{}", hit.path, hit.start_line, hit.end_line);
                format!("{place} {}", what(hit.kind, &hit.name))
            },
        );
        let heading = if response.hits.is_empty() {
            format!("Nothing is like {given}.\n")
        } else {
            format!("Most like {given}, best first:\n")
        };
        // Without a query the first lines say most.
        let results = found(&index, response.hits, &[]);
        Ok(list(&heading, &results, similar.max_tokens).into())
    }

    fn read_unit(&self, unit: &ReadUnit) -> Result<Answer, ToolError> {
        let listing = self.listing()?;
        let path = Place::file(&unit.path, &self.roots(), &paths(&listing))?;
        let wanted = match (unit.line, &unit.name) {
            (Some(line), None) => Wanted::Line(line),
            (None, Some(name)) => Wanted::Name(name),
            _ => return Err(ToolError::LineOrName),
        };
        let absolute = walk::base_folder(&self.root)?.join(&path);
        let bytes = fs::read(&absolute).map_err(|source| ToolError::Read { path: absolute, source })?;
        // Cut anew rather than taken from the index, so that it is what the file holds now.
        let units = match listing.files.iter().find(|file| file.path == path) {
            Some(file) => extract(file.language, &bytes).units,
            None => Vec::new(),
        };
        let source = String::from_utf8_lossy(&bytes);
        Ok(read_unit(&path, &source, &units, wanted, unit.max_tokens)?.into())
    }

    fn index_status(&self) -> Result<Answer, ToolError> {
        let listing = self.listing()?;
        let opened =
            Index::open_or_build(&self.root, &self.options, Some(Arc::clone(&self.embedder)), &|_| {})?;
        let index = opened.index;
        let refreshed = opened.built.map(|report| report.reason.to_string());
        let outdated = opened.outdated.map(|outdated| format!("{}: {}", outdated.reason, outdated.error));
        let state = match (&outdated, &refreshed) {
            (Some(problem), _) => format!("not up to date ({problem})"),
            (None, Some(reason)) => format!("up to date (just indexed: {reason})"),
            (None, None) => "up to date".to_owned(),
        };
        let mut languages: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &listing.files {
            *languages.entry(file.language.name()).or_default() += 1;
        }
        let by_count: Vec<String> = languages.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let text = format!(
            "{}: {} units in {} files, {state}\nmodel: {}\nfiles by language: {}\n",
            root.display(),
            index.n_units(),
            index.n_files(),
            self.embedder.id(),
            by_count.join(", "),
        );
        let structured = json!({
            "root": root.to_string_lossy(),
            "files": index.n_files(),
            "units": index.n_units(),
            "model": self.embedder.id(),
            "languages": languages,
            "refreshed_because": refreshed,
            "outdated_because": outdated,
        });
        Ok(Answer { text, structured: Some(structured) })
    }

    fn index(&self) -> Result<Index, ToolError> {
        let embedder = Some(Arc::clone(&self.embedder));
        Ok(Index::open_or_build(&self.root, &self.options, embedder, &|_| {})?.index)
    }

    fn listing(&self) -> Result<Listing, ToolError> {
        Ok(walk::list(&self.root, &self.options.walk)?)
    }

    /// The absolute paths that a caller may know the root by: with and without symbolic links resolved.
    fn roots(&self) -> Vec<PathBuf> {
        let base = walk::base_folder(&self.root).unwrap_or(Path::new(""));
        base.canonicalize().into_iter().chain(std::path::absolute(base)).collect()
    }
}

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| file.path.as_str()).collect()
}

/// Says how far the results can be trusted, and what to do if they cannot.
fn search_heading(response: &SearchResponse, is_filtered: bool) -> String {
    let advice = if is_filtered {
        "other words for what the code does, the name of a symbol, or fewer filters"
    } else {
        "other words for what the code does, or the name of a symbol"
    };
    if response.hits.is_empty() {
        format!("Nothing found. Try {advice}.\n")
    } else if response.confidence < DEFAULT_THRESHOLD {
        format!("Nothing matches well; these are hints at best. Try {advice}.\n")
    } else {
        String::new()
    }
}

fn found(index: &Index, hits: Vec<Hit>, terms: &[String]) -> Vec<Found> {
    let lines = |hit: Hit| {
        // A file that has gone since the index was opened has no lines to show.
        let source = index.source(&hit).unwrap_or_default();
        let range = snippet::best_lines(&source, terms, SNIPPET_LINES);
        let snippet = source.lines().skip(range.start).take(range.len()).map(str::to_owned).collect();
        Found { snippet_line: hit.start_line + range.start as u32, snippet, hit }
    };
    hits.into_iter().map(lines).collect()
}
