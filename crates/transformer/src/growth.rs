//! By how much the steps of a tokenizer can lengthen a text.
//!
//! Each step that replaces or adds text multiplies the length; a file of a few lines can turn a kilobyte into
//! gigabytes. The factor follows from the definition of the steps, before any text is read.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;

/// Maximum factor of all steps. That of XLM-RoBERTa, which has three such steps, is 72.
const MAX_FACTOR: usize = 128;
/// Maximum number of steps, each of which reads the whole text.
const MAX_STEPS: usize = 100;
/// Maximum length of the affixes that a model adds to a part of a word, in bytes.
const MAX_AFFIX: usize = 64;
/// Name of a map of characters in base64.
const MAP: &str = "precompiled_charsmap";

/// With or without `=` at the end, as `tokenizers` reads it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Refuses a `tokenizer.json` with a map of characters that claims to be longer than it is: `tokenizers` reserves the memory
/// that the map claims, up to 8.6 GB, before it reads it.
///
/// # Errors
/// When there is such a map, or the file is not JSON.
pub(crate) fn check_maps(json: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Steps {
        #[serde(default)]
        normalizer: Value,
    }
    let Steps { normalizer } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let mut values = vec![&normalizer];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(parts) => values.extend(parts),
            Value::Object(fields) => {
                if let Some(map) = fields.get(MAP).and_then(Value::as_str)
                    && texts_of(map).is_none()
                {
                    return Err(
                        "its map of characters is not as long as its first four bytes claim".to_owned()
                    );
                }
                values.extend(fields.values());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a tokenizer that can lengthen a text too much.
///
/// # Errors
/// Says by how much.
pub(crate) fn check(tokenizer: &Tokenizer) -> Result<(), String> {
    let mut steps = 0;
    let parts = [
        serde_json::to_value(tokenizer.get_normalizer()),
        serde_json::to_value(tokenizer.get_pre_tokenizer()),
        serde_json::to_value(tokenizer.get_post_processor()),
    ];
    let mut factor = 1usize;
    for part in parts {
        let part = part.map_err(|error| format!("its steps cannot be read: {error}"))?;
        factor = factor.saturating_mul(step_factor(&part, &mut steps));
    }
    if factor > MAX_FACTOR {
        return Err(format!(
            "its normalizer, pre-tokenizer and post-processor can make a text {factor} times as long, expected at most \
             {MAX_FACTOR}"
        ));
    }
    if steps > MAX_STEPS {
        return Err(format!("it has {steps} steps, expected at most {MAX_STEPS}"));
    }
    let affixes = match tokenizer.get_model() {
        ModelWrapper::BPE(model) => {
            [model.continuing_subword_prefix.as_deref(), model.end_of_word_suffix.as_deref()]
        }
        ModelWrapper::WordPiece(model) => [Some(model.continuing_subword_prefix.as_str()), None],
        _ => [None, None],
    };
    match affixes.into_iter().flatten().map(str::len).max().filter(|length| *length > MAX_AFFIX) {
        None => Ok(()),
        Some(length) => Err(format!(
            "its model puts {length} bytes before or after a part of a word, expected at most {MAX_AFFIX}"
        )),
    }
}

/// The factor by which a step, or a sequence of steps, can multiply the number of characters.
fn step_factor(step: &Value, steps: &mut usize) -> usize {
    if step.is_null() {
        return 1;
    }
    *steps += 1;
    let text = |key: &str| step[key].as_str().map(|text| text.chars().count());
    for key in ["normalizers", "pretokenizers", "processors"] {
        if let Some(parts) = step[key].as_array() {
            return parts.iter().fold(1, |factor, part| factor.saturating_mul(step_factor(part, steps)));
        }
    }
    match step["type"].as_str().unwrap_or_default() {
        "Replace" => {
            let content = text("content").unwrap_or_default();
            // A regular expression may match nothing, at every place.
            match step["pattern"]["String"].as_str().map(|pattern| pattern.chars().count()) {
                Some(length) if length > 0 => content.div_ceil(length).max(1),
                _ => 1 + content,
            }
        }
        "Prepend" => 1 + text("prepend").unwrap_or_default(),
        "Precompiled" => step[MAP].as_str().map_or(1, longest_replacement),
        // Bytes that are not letters become two; a word gets a space before it, and a Chinese character two around it.
        "ByteLevel" | "Metaspace" => 2,
        "BertNormalizer" => 3,
        "TemplateProcessing" => {
            ["single", "pair"].map(|template| repetitions(&step[template])).into_iter().max().unwrap_or(1)
        }
        _ => 1,
    }
}

/// The texts in a map of sentencepiece: the length of a trie in bytes, the trie, and the texts, each with a zero after it.
/// `None` if the trie is cut off.
fn texts_of(map: &str) -> Option<Vec<u8>> {
    let mut bytes = BASE64.decode(map).ok()?;
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize / 4 * 4;
    let start = length.checked_add(4).filter(|start| *start <= bytes.len())?;
    Some(bytes.split_off(start))
}

/// The number of characters of the longest text in a map.
fn longest_replacement(map: &str) -> usize {
    let texts = texts_of(map).unwrap_or_default();
    let texts = texts.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).chars().count());
    texts.max().unwrap_or(1).max(1)
}

/// Number of occurrences of the same text in a template.
fn repetitions(template: &Value) -> usize {
    let parts = template.as_array().map_or(&[][..], Vec::as_slice);
    let count = |id: &str| parts.iter().filter(|part| part["Sequence"]["id"] == id).count();
    count("A").max(count("B")).max(1)
}

#[cfg(test)]
mod tests {
    use super::check as check_growth;
    use super::*;
    use serde_json::json;

    fn tokenizer(normalizer: Value, pre_tokenizer: Value, post_processor: Value) -> Tokenizer {
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
        });
        Tokenizer::from_bytes(json.to_string()).unwrap()
    }

    #[test]
    fn growth_follows_from_the_steps() {
        let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let sequence = |step: Value, n: usize| json!({"type": "Sequence", "normalizers": vec![step; n]});
        let check = |normalizer: Value, expected: Option<&str>| {
            let found = check_growth(&tokenizer(normalizer.clone(), json!(null), json!(null)));
            match expected {
                None => assert_eq!(found, Ok(()), "{normalizer}"),
                Some(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{found:?}"),
            }
        };
        check(json!(null), None);
        let double = replace(json!({"String": "a"}), "aa");
        check(sequence(double.clone(), 7), None);
        check(sequence(double, 12), Some("4096 times"));
        check(sequence(replace(json!({"Regex": ""}), "a"), 12), Some("4096 times"));
        check(sequence(replace(json!({"String": " "}), "▁"), 50), None);
        check(replace(json!({"String": "ab"}), &"x".repeat(1000)), Some("500 times"));
        check(json!({"type": "Prepend", "prepend": "x".repeat(1000)}), Some("1001 times"));
        check(sequence(json!({"type": "ByteLevel"}), 12), Some("4096 times"));
        check(sequence(json!({"type": "Lowercase"}), 200), Some("201 steps"));
        // Nested sequences count as their steps.
        let nested = sequence(sequence(replace(json!({"String": "a"}), "aa"), 6), 2);
        check(nested, Some("4096 times"));
        let map = |longest: usize| {
            let bytes =
                [&4u32.to_le_bytes()[..], &[0; 4], b"a\0", "é".repeat(longest).as_bytes(), b"\0"].concat();
            json!({"type": "Precompiled", "precompiled_charsmap": BASE64.encode(bytes)})
        };
        check(map(18), None);
        check(map(500), Some("500 times"));
        // A trie of 4 GiB in a few bytes, in a sequence, with and without padding.
        for map in ["/////w==", "/////w", "/////wAA", "", "AA"] {
            let map = json!({"type": "Precompiled", "precompiled_charsmap": map});
            let file = json!({"normalizer": sequence(map, 1), "model": {}}).to_string();
            assert!(check_maps(file.as_bytes()).is_err(), "{file}");
        }
        assert_eq!(check_maps(json!({"normalizer": map(500)}).to_string().as_bytes()), Ok(()));
        assert_eq!(check_maps(b"{}"), Ok(()));
        let template = json!({"type": "TemplateProcessing", "special_tokens": {}, "pair": [],
            "single": vec![json!({"Sequence": {"id": "A", "type_id": 0}}); 300]});
        let found = check_growth(&tokenizer(json!(null), json!(null), template));
        assert!(found.as_ref().is_err_and(|error| error.contains("300 times")), "{found:?}");
    }
}
