//! GenCodeSearchNet (GeCS): text and code in one string, separated by ` [CODESPLIT] `, labeled as a match or not.
//!
//! Source: github.com/drndr/gencodesearchnet. Its CoSQA file pairs docstrings with the codes of pairs labeled 0, and
//! repeats many of them; records are distinguished here by their position, as in its ranking.

use super::{Encoding, Field, Format, Kind, Pair, Record, RecordKind, Row, Side, Value, excerpt};

/// Separator of text and code.
pub(crate) const SPLIT: &str = "[CODESPLIT]";

/// The pairs of any of its data sets.
pub static PAIRS: Format = Format {
    name: "gecs",
    about: "GenCodeSearchNet: text [CODESPLIT] code, match or no match; records with two separators are skipped",
    holds: RecordKind::Pairs,
    container: Encoding::JsonLines,
    fields: &[
        Field::required("input", Kind::Text, "text, [CODESPLIT], code"),
        Field::required("target", Kind::Whole, "1 for a match, 0 for none"),
        Field::optional("target_options", Kind::Tokens, "no_match, match"),
    ],
    read: |row, sink| {
        let Some((text, code)) = sides(row)? else { return Ok(()) };
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
        let Record::Pair(pair) = record else { return None };
        let (text, code) = (pair.query.form(true), pair.code.form(true));
        // A third part would not be read.
        if text.contains(SPLIT) || code.contains(SPLIT) {
            return None;
        }
        let input = format!("{text} {SPLIT} {code}");
        let options = Value::List(vec!["no_match".into(), "match".into()]);
        Some(vec![input.into(), Value::Whole(pair.label?.into()), options])
    }),
    ..Format::BASE
};

/// Text and code; `None` if it is not clear where one ends, as in records that the authors' readers skip.
fn sides(row: &Row<'_>) -> Result<Option<(String, String)>, super::FormatError> {
    let input = row.text("input");
    let Some((text, code)) = input.split_once(SPLIT) else {
        return Err(row.line.error(
            format!("`input` with one {SPLIT}"),
            format!("0 in {}", excerpt(&input)),
            "remove the record: the authors' readers skip it",
        ));
    };
    if code.contains(SPLIT) {
        return Ok(None);
    }
    // The spaces around the separator belong to it.
    Ok(Some((text.strip_suffix(' ').unwrap_or(text).into(), code.strip_prefix(' ').unwrap_or(code).into())))
}
