//! The text that is embedded for a unit.

use xxhash_rust::xxh3::xxh3_128;

/// The text that a model embeds for a unit: a line with the words of the file's path and of the qualified name, then
/// the unit's source.
pub fn embedding_text(path: &str, name: &str, source: &str) -> String {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let words =
        |text| quarry_text::identifiers(text).flat_map(quarry_text::parts).collect::<Vec<_>>().join(" ");
    format!("{} {}\n{source}", words(stem), words(name))
}

/// Identifies an embedding text.
pub(crate) fn hash_of(embedding_text: &str) -> u128 {
    xxh3_128(embedding_text.as_bytes())
}
