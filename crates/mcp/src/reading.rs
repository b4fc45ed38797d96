//! One unit of a file, with line numbers.

use std::ops::RangeInclusive;

use quarry_session::text::{BudgetedText, numbered, quoted, quoted_start, unit_label};
use quarry_source::{SourceText, Unit, UnitKind};
use quarry_text::{counted, nearest};

use crate::ToolError;

/// Names that an error suggests.
const N_SUGGESTIONS: usize = 5;

/// Selection of a unit of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UnitSelector<'a> {
    /// The innermost one at this line, 1-based, or the one nearest to it.
    Line(u32),
    /// The first one of this name, or else whose name ends with it.
    Name(&'a str),
}

/// A definition or a part between definitions, from its first to its last line.
struct Span<'a> {
    unit: &'a Unit,
    /// Of the last part where the unit is long, 1-based, inclusive.
    end_line: u32,
    /// End of that range.
    end_byte: usize,
}

/// The lines (1-based) and the source of the unit that is `wanted`, of the file at `path` that holds `source` and was
/// split into `units`.
pub(crate) fn read_unit(
    path: &str,
    source: &SourceText,
    units: &[Unit],
    wanted: UnitSelector,
    max_tokens: usize,
) -> Result<(RangeInclusive<u32>, String), ToolError> {
    if units.is_empty() {
        return Err(ToolError::Empty { path: path.to_owned() });
    }
    let (found, others) = match wanted {
        UnitSelector::Line(line) => (at_line(path, source, units, line)?, Vec::new()),
        UnitSelector::Name(name) => named(path, units, name)?,
    };
    let Span { unit, end_line, end_byte } = span(units, found);
    let heading =
        format!("{}:{}-{end_line} {}\n", quoted(path), unit.start_line, unit_label(unit.kind, &unit.name));
    let content = source.to_str();
    let indexes = source.line_indexes(unit.start_line..=end_line, unit.bytes.start..end_byte);
    let n_lines = indexes.len();
    let lines = content.lines().enumerate().skip(indexes.start).take(n_lines);
    let lines = lines.map(|(index, line)| numbered(source.line_number(index), line));
    let mut text = BudgetedText::new(&heading, max_tokens);
    let n_shown = lines.take_while(|line| text.push(line)).count();
    let mut ending = String::new();
    if n_shown < n_lines {
        let next = source.line_number(indexes.start + n_shown);
        ending.push_str(&format!("Lines {next} to {end_line} did not fit; raise max_tokens.\n"));
    } else if unit.kind == UnitKind::Type && !unit.name.is_empty() {
        let prefix = format!("{}.", unit.name);
        let members: Vec<&Unit> = units.iter().filter(|unit| is_named_below(unit, &prefix)).collect();
        if !members.is_empty() {
            text.push("Its members:\n");
        }
        let n_listed =
            members.iter().take_while(|unit| text.push(&format!("  {}\n", location(unit)))).count();
        if n_listed < members.len() {
            ending.push_str(&format!("{} did not fit.\n", counted(members.len() - n_listed, "more member")));
        }
    }
    if let UnitSelector::Line(line) = wanted {
        let is_beside = |other: &&Unit| {
            (other.start_line, other.end_line) == (line, line)
                && !other.signature.is_empty()
                && !(unit.bytes.start..end_byte).contains(&other.bytes.start)
        };
        let beside: Vec<String> =
            units.iter().filter(is_beside).map(|unit| quoted_start(&unit.name)).take(N_SUGGESTIONS).collect();
        if !beside.is_empty() {
            ending.push_str(&format!("On the same line, to be read by name: {}.\n", beside.join(", ")));
        }
    }
    if !others.is_empty() {
        let lines: Vec<String> =
            others.iter().take(N_SUGGESTIONS).map(|unit| unit.start_line.to_string()).collect();
        ending.push_str(&format!("Other units of that name are at lines {}.\n", lines.join(", ")));
    }
    Ok((unit.start_line..=end_line, text.finish(&ending)))
}

/// Position of the innermost unit at a line, or of the one nearest to it.
fn at_line(path: &str, source: &SourceText, units: &[Unit], line: u32) -> Result<usize, ToolError> {
    let n_lines = source.n_lines();
    if line > n_lines {
        return Err(ToolError::LineOutside { path: path.to_owned(), line, n_lines });
    }
    let distance = |unit: &Unit| unit.start_line.saturating_sub(line).max(line.saturating_sub(unit.end_line));
    // The last one of equal ones, which is the innermost.
    let nearest = (0..units.len()).rev().min_by_key(|&position| distance(&units[position]));
    nearest.ok_or_else(|| ToolError::Empty { path: path.to_owned() })
}

/// Position of the first unit of a name, and the other units of that name.
fn named<'a>(path: &str, units: &'a [Unit], name: &str) -> Result<(usize, Vec<&'a Unit>), ToolError> {
    let is_first_part = |unit: &Unit| !unit.signature.is_empty();
    let suffix = format!(".{name}");
    let find = |matches: &dyn Fn(&Unit) -> bool| -> Vec<usize> {
        (0..units.len())
            .filter(|&position| is_first_part(&units[position]) && matches(&units[position]))
            .collect()
    };
    let mut found = find(&|unit| unit.name == name);
    if found.is_empty() {
        found = find(&|unit| unit.name.ends_with(&suffix) || unit.signature == name);
    }
    match found.split_first() {
        Some((&first, others)) => Ok((first, others.iter().map(|&position| &units[position]).collect())),
        None => {
            let names = units.iter().map(|unit| unit.name.as_str()).filter(|name| !name.is_empty());
            Err(ToolError::UnknownName {
                path: path.to_owned(),
                name: name.to_owned(),
                nearest: nearest(name, names, N_SUGGESTIONS),
            })
        }
    }
}

/// All parts of the unit that the one at `position` belongs to: only the first part of a definition has a signature.
fn span(units: &[Unit], position: usize) -> Span<'_> {
    let unit = &units[position];
    let is_same = |other: &Unit| other.kind == unit.kind && other.name == unit.name;
    if unit.name.is_empty() {
        return Span { unit, end_line: unit.end_line, end_byte: unit.bytes.end };
    }
    let first = (0..=position)
        .rev()
        .find(|&earlier| is_same(&units[earlier]) && !units[earlier].signature.is_empty())
        .unwrap_or(position);
    let last = units[first + 1..]
        .iter()
        .take_while(|unit| !is_same(unit) || unit.signature.is_empty())
        .filter(|unit| is_same(unit))
        .last()
        .unwrap_or(&units[first]);
    Span { unit: &units[first], end_line: last.end_line, end_byte: last.bytes.end }
}

fn is_named_below(unit: &Unit, prefix: &str) -> bool {
    !unit.signature.is_empty() && unit.name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('.'))
}

fn location(unit: &Unit) -> String {
    format!("{}-{} {}", unit.start_line, unit.end_line, unit_label(unit.kind, &unit.name))
}

#[cfg(test)]
mod tests {
    use quarry_source::language_named;

    use super::*;

    const CART: &str = "import os\n\nclass Cart:\n    \"\"\"Goods.\"\"\"\n\n    def total(self):\n        return 1\n\n    def clear(self):\n        self.items = []\n\n\ndef total(cart):\n    return cart.total()\n";

    fn read(source: &str, wanted: UnitSelector, max_tokens: usize) -> Result<String, String> {
        let source = SourceText::read("cart.py".as_ref(), source.as_bytes().to_vec()).unwrap();
        let units = source.extract(language_named("python").unwrap()).units;
        let read = read_unit("cart.py", &source, &units, wanted, max_tokens);
        read.map(|(_, text)| text).map_err(|error| error.report())
    }

    #[test]
    fn a_line_means_its_unit() {
        let text = read(CART, UnitSelector::Line(7), 2_000).unwrap();
        assert_eq!(text, "cart.py:6-7 method Cart.total\n6|     def total(self):\n7|         return 1\n");
        // Line 12 is blank: the nearest unit is meant.
        assert!(
            read(CART, UnitSelector::Line(12), 2_000).unwrap().starts_with("cart.py:13-14 function total")
        );
    }

    #[test]
    fn a_name_is_whole_or_the_last_part() {
        assert!(
            read(CART, UnitSelector::Name("Cart.clear"), 2_000).unwrap().starts_with("cart.py:9-10 method")
        );
        assert!(read(CART, UnitSelector::Name("clear"), 2_000).unwrap().starts_with("cart.py:9-10 method"));
        // The whole name counts more.
        assert!(
            read(CART, UnitSelector::Name("total"), 2_000).unwrap().starts_with("cart.py:13-14 function")
        );
    }

    #[test]
    fn units_on_one_line_are_distinguished_by_name() {
        let text = read("def f(): pass; g = 1\n", UnitSelector::Line(1), 2_000).unwrap();
        assert!(!text.contains("On the same line"), "{text}");
        let cell = |source: &str| serde_json::json!({"cell_type": "code", "source": source});
        let file =
            serde_json::json!({"cells": [cell("def f():\n    return 1"), cell("def g():\n    return 2")]});
        let source = SourceText::read("a.ipynb".as_ref(), file.to_string().into_bytes()).unwrap();
        let units = source.extract(language_named("jupyter").unwrap()).units;
        let read = |wanted| read_unit("a.ipynb", &source, &units, wanted, 2_000).unwrap().1;
        let by_line = read(UnitSelector::Line(1));
        assert!(
            by_line.ends_with("1|     return 2\nOn the same line, to be read by name: f.\n"),
            "{by_line}"
        );
        assert_eq!(read(UnitSelector::Name("f")), "a.ipynb:1-1 function f\n1| def f():\n1|     return 1\n");
    }

    #[test]
    fn a_type_lists_its_members() {
        let text = read(CART, UnitSelector::Name("Cart"), 2_000).unwrap();
        assert!(text.contains("class Cart:") && text.ends_with("  9-10 method Cart.clear\n"), "{text}");
    }

    #[test]
    fn units_with_the_same_name_are_reported() {
        let text =
            read("def f():\n    pass\n\ndef f():\n    return 2\n", UnitSelector::Name("f"), 2_000).unwrap();
        assert!(text.contains("pass") && text.contains("Other units of that name are at lines 4."), "{text}");
    }

    #[test]
    fn a_long_function_is_one_and_cut_at_whole_lines() {
        let source = format!("def long():\n{}", "    step(1, 2, 3)\n".repeat(500));
        let text = read(&source, UnitSelector::Line(400), 20_000).unwrap();
        assert!(text.starts_with("cart.py:1-501 function long\n"), "{}", &text[..60]);
        assert_eq!(text.lines().count(), 502);
        let cut = read(&source, UnitSelector::Name("long"), 300).unwrap();
        assert!(quarry_session::count_tokens(&cut) <= 300);
        let shown = cut.lines().count() - 2;
        assert!(
            cut.ends_with(&format!("Lines {} to 501 did not fit; raise max_tokens.\n", shown + 1)),
            "{cut}"
        );
        assert!(shown > 10);
    }

    #[test]
    fn errors_list_what_exists() {
        let error = read(CART, UnitSelector::Line(99), 2_000).unwrap_err();
        assert_eq!(error, "cart.py: has no line 99, it ends with line 14");
        let error = read(CART, UnitSelector::Name("totl"), 2_000).unwrap_err();
        assert!(error.contains("no unit called totl; nearest: ") && error.contains("Cart.total"), "{error}");
        assert!(read("\n\n", UnitSelector::Line(1), 2_000).unwrap_err().contains("is empty"));
    }
}
