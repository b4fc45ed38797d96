//! Simple rankings, which any answer must beat.

use quarry_index::{Filter, Index, RankingWeights, SearchRequest};
use quarry_related::{PlaceFeatures, Sources};

use super::DEPTH;
use crate::EvalError;

pub const FLOORS: [&str; 7] = [
    "same name",
    "same file",
    "co-change",
    "call graph",
    "search with its text",
    "similar vectors",
    "grep for its name",
];

/// Maximum length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 8_000;

/// The places of each, best first.
pub(super) fn rankings(
    sources: &Sources,
    target: u32,
    known: &[PlaceFeatures],
) -> Result<Vec<Vec<u32>>, EvalError> {
    let by = |score: &dyn Fn(&PlaceFeatures) -> f32| {
        let scored = (0_u32..).zip(known).filter(|(number, _)| *number != target);
        let mut scored: Vec<(u32, f32)> =
            scored.map(|(number, place)| (number, score(place))).filter(|(_, score)| *score > 0.0).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scored.into_iter().map(|(number, _)| number).take(DEPTH * 4).collect::<Vec<u32>>()
    };
    let unit = known[target as usize].unit;
    let text = sources.index.source(&sources.index.unit(unit)).map(|source| source.text).unwrap_or_default();
    let query = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
    let request = SearchRequest {
        query,
        limit: DEPTH * 4,
        ranking: RankingWeights::default(),
        filter: &Filter::default(),
    };
    let hits = match query.trim().is_empty() {
        true => Vec::new(),
        false => sources.index.search(&request).map(|response| response.hits).unwrap_or_default(),
    };
    let mut searched: Vec<u32> = Vec::new();
    for number in hits.iter().filter_map(|hit| sources.relations.number_of(hit.unit)) {
        if number != target && !searched.contains(&number) {
            searched.push(number);
        }
    }
    Ok(vec![
        by(&|place| {
            let features = &place.features;
            2.0 * features.same_name + features.name_holds + features.name_words
        }),
        by(&|place| place.features.same_file * (1.0 + place.features.near)),
        by(&|place| {
            let features = &place.features;
            features.together + 0.01 * features.file_together + 0.0001 * features.files_together
        }),
        by(&|place| {
            let features = &place.features;
            let direct = features.calls.max(features.called)
                + 0.5 * features.calls_by_name.max(features.called_by_name);
            direct + 0.2 * features.through_one + 0.1 * features.through_more
        }),
        searched,
        by(&|place| place.features.cosine_rank),
        grep(sources, target, known),
    ])
}

/// The places that have the name of a function as a word, in the order of paths and lines.
fn grep(sources: &Sources, target: u32, known: &[PlaceFeatures]) -> Vec<u32> {
    let name = sources.index.linked_unit(known[target as usize].unit).name;
    let own = name.rsplit_once('.').map_or(name, |(_, own)| own);
    let has = |index: &Index, unit: usize| {
        let source = index.source(&index.unit(unit)).map(|source| source.text).unwrap_or_default();
        quarry_text::identifiers(&source).any(|word| word == own)
    };
    let mentioned =
        (0_u32..).zip(known).filter(|(number, place)| *number != target && place.features.mentions > 0.0);
    mentioned
        .filter(|(_, place)| has(sources.index, place.unit))
        .map(|(number, _)| number)
        .take(DEPTH * 4)
        .collect()
}
