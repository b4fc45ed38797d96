//! GenCodeSearchNet (GeCS): text and code in one string, separated by ` [CODESPLIT] `, labeled as a match or not.
//!
//! Source: github.com/drndr/gencodesearchnet. Its CoSQA file pairs docstrings with the codes of pairs labeled 0, and
//! repeats many of them; records are distinguished here by their position, as in its ranking.

use super::{Encoding, Field, Format, Kind, Pair, Record, RecordKind, Row, Side, Value, excerpt};

/// Separator of text and code.
const SPLIT: &str = "[CODESPLIT]";

/// The pairs of any of its data sets.
pub static PAIRS: Format = Format {
    name: "gecs",
    about: "GenCodeSearchNet: text [CODESPLIT] code, match or no match",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("input", Kind::Text, "text, [CODESPLIT], code"),
        Field::required("target", Kind::Whole, "1 for a match, 0 for none"),
        Field::optional("target_options", Kind::Tokens, "no_match, match"),
    ],
    hint: "",
    read: |row, sink| {
        let (text, code) = sides(row)?;
        let id = Some(row.index.to_string());
        sink(Record::Pair(Box::new(Pair {
            id: id.clone(),
            query: Side::new(id.clone(), text, None),
            code: Side::new(id, code, None),
            label: row.one_of("target", 0..=1)?,
            ..Pair::default()
        })))
    },
    write: Some(|record, _| {
        let pair = record.pair()?;
        let input = format!("{} {SPLIT} {}", pair.query.tokens_or_text(), pair.code.tokens_or_text());
        let options = Value::List(vec!["no_match".into(), "match".into()]);
        Some(vec![input.into(), Value::Whole(pair.label?.into()), options])
    }),
    split: None,
};

fn sides(row: &Row<'_>) -> Result<(String, String), super::FormatError> {
    let input = row.text("input");
    let parts: Vec<&str> = input.split(SPLIT).collect();
    let [text, code] = parts[..] else {
        return Err(row.line.error(
            format!("`input` with one {SPLIT}"),
            format!("{} in {}", parts.len() - 1, excerpt(&input)),
            "remove the record: the authors' readers skip it",
        ));
    };
    // The spaces around the separator belong to it.
    Ok((text.strip_suffix(' ').unwrap_or(text).into(), code.strip_prefix(' ').unwrap_or(code).into()))
}
