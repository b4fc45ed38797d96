//! `workspace/symbol`: search by name or description.

use lsp_types::{OneOf, WorkspaceSymbol};
use quarry_index::{Error, Hit, rules};
use quarry_session::UnitsRequest;
use serde::Deserialize;
use serde_json::json;

use crate::commands::parsed;
use crate::error::RequestError;
use crate::folders::Searchable;
use crate::navigation::{Texts, symbol_kind};

/// Maximum number of symbols that are found by their names, and by a search.
const MAX_NAMED: usize = 50;
const MAX_FOUND: usize = 30;

/// Parameters of `workspace/symbol`.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    query: String,
}

impl Searchable {
    /// Definitions whose name begins with a word or has it, while that is being typed; and what a search finds for it.
    pub(crate) fn symbols(&self, asked: &Asked) -> Result<Vec<WorkspaceSymbol>, RequestError> {
        let (query, index) = (asked.query.trim(), &self.tree.index);
        let trees = self.tree.names();
        let ranking = &self.defaults.ranking;
        let request = UnitsRequest { limit: MAX_FOUND, trees: &trees, ..UnitsRequest::new(ranking) };
        let found = match quarry_session::search(index, parsed(query)?, &request) {
            Ok(found) => found.hits,
            // Clients ask for all symbols at first.
            Err(Error::EmptyQuery) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let named =
            if rules::is_symbol(query) { index.definitions_like(query, MAX_NAMED) } else { Vec::new() };
        // Names rank with the best that a search finds: where they are, they are what was meant.
        let best = found.first().map_or(0.0, |hit| hit.score);
        let others = found.into_iter().filter(|hit| named.iter().all(|named| named.unit != hit.unit));
        let others: Vec<(f32, Hit)> = others.map(|hit| (hit.score, hit)).collect();
        let texts = Texts::new(index);
        let symbol = |(score, hit): (f32, Hit)| {
            let file = || hit.path.rsplit('/').next().unwrap_or_default().to_owned();
            Some(WorkspaceSymbol {
                name: if hit.name.is_empty() { file() } else { hit.name.clone() },
                kind: symbol_kind(hit.kind),
                tags: None,
                container_name: Some(hit.path.clone()),
                location: OneOf::Left(self.location(hit.root, &hit.path, texts.selection(&hit))?),
                data: Some(json!({"score": score})),
            })
        };
        let all = named.into_iter().map(|hit| (best, hit)).chain(others);
        let symbols = all.filter_map(symbol).collect();
        index.check_intact()?;
        Ok(symbols)
    }
}
