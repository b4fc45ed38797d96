//! Finds calls and imports in a syntax tree.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{Node, QueryCursor, QueryCursorOptions, QueryCursorState, StreamingIterator, Tree};

use crate::language::Language;
use crate::line::{Lines, line_number};
use crate::local::{Names, Role};
use crate::pattern::Matcher;
use crate::rules::{ReferenceCapture, ReferenceRules};
use crate::traversal::goto_next;
use crate::unit::{Call, Diagnostic, Import, ImportedName, MAX_NAME_BYTES, References, Unit, truncate};

/// Nodes that are visited between two looks at the clock.
const NODES_PER_LOOK: usize = 256;

/// The calls and imports of `tree`, in ascending order of bytes, as far as `time` allows.
///
/// Patterns are tried at one node at a time: a query over the whole tree would keep every call of a long chain
/// `a.f().f()` open until the chain ends, and look at all of them at every node.
pub(crate) fn find_references(
    tree: &Tree,
    language: Language,
    rules: &ReferenceRules,
    lines: &Lines,
    time: Duration,
) -> References {
    let start = Instant::now();
    let mut finder = Finder {
        language,
        rules,
        lines,
        calls: BTreeMap::new(),
        imports: BTreeMap::new(),
        groups: BTreeMap::new(),
        names: Names::default(),
        excluded: Vec::new(),
    };
    let mut query_cursor = QueryCursor::new();
    query_cursor.set_max_start_depth(Some(0));
    let mut matcher = Matcher::new(tree.walk());
    let is_over = || start.elapsed() > time;
    let mut stopped_at = None;
    let mut n_visited = 0;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        n_visited += 1;
        let is_whole = match rules.patterns_at(node.kind_id()) {
            _ if n_visited % NODES_PER_LOOK == 0 && is_over() => false,
            None => true,
            Some(patterns) => {
                let mut of_patterns = patterns
                    .known
                    .iter()
                    .map(|pattern| finder.match_pattern(*pattern, node, &mut matcher, &is_over));
                of_patterns.all(|is_whole| is_whole)
                    && (!patterns.has_query || finder.match_query(node, &mut query_cursor, is_over))
            }
        };
        if !is_whole {
            stopped_at = Some(node.start_byte());
            break;
        }
        if !goto_next(&mut cursor, true) {
            break;
        }
    }
    let missing = stopped_at.map(|byte| Diagnostic {
        line: line_number(lines.row(byte)),
        message: format!(
            "finding references took longer than {} s; calls and imports are missing from here on",
            time.as_secs_f64()
        ),
    });
    References { missing, ..finder.finish() }
}

/// Sets the unit of each call.
pub(crate) fn place_calls(calls: &mut [Call], units: &[Unit]) {
    for call in calls {
        let next = units.partition_point(|unit| unit.bytes.start <= call.byte);
        call.unit = next.checked_sub(1).filter(|index| call.byte < units[*index].bytes.end);
    }
}

/// The captures of one match. Several captures of one kind form one range from the first to the last.
#[derive(Default)]
struct Captured {
    callee: Option<Range<usize>>,
    receiver: Option<Range<usize>>,
    import: Option<Range<usize>>,
    group: Option<Range<usize>>,
    module: Option<Range<usize>>,
    name: Option<Range<usize>>,
    default: Option<Range<usize>>,
    all: Option<Range<usize>>,
    alias: Option<Range<usize>>,
}

fn widen(range: &mut Option<Range<usize>>, bytes: Range<usize>) {
    *range = Some(match range.take() {
        Some(other) => other.start.min(bytes.start)..other.end.max(bytes.end),
        None => bytes,
    });
}

/// The combined matches with one `@module`.
struct Statement {
    start: usize,
    import: Import,
    /// By the start of each, in bytes.
    names: BTreeMap<usize, ImportedName>,
}

struct Finder<'a> {
    language: Language,
    rules: &'a ReferenceRules,
    lines: &'a Lines<'a>,
    /// By the start of the callee, in bytes.
    calls: BTreeMap<usize, Call>,
    /// By the start of the module, in bytes.
    imports: BTreeMap<usize, Statement>,
    /// By the start of the module, in bytes: its end, and that of the group.
    groups: BTreeMap<usize, (usize, usize)>,
    names: Names,
    /// Code without calls.
    excluded: Vec<Range<usize>>,
}

impl Finder<'_> {
    /// Takes the matches of a pattern at one node; returns whether these were all, as they are unless `is_over` says that
    /// time is up.
    fn match_pattern<'tree>(
        &mut self,
        pattern: usize,
        node: Node<'tree>,
        matcher: &mut Matcher<'tree>,
        is_over: &dyn Fn() -> bool,
    ) -> bool {
        let (rules, source) = (self.rules, self.lines.source());
        let pattern = &rules.patterns[pattern];
        matcher.match_at(pattern, node, source, is_over, &mut |captures| {
            let meaning = |capture: u32| rules.captures[capture as usize];
            self.take_match(captures.iter().map(|(capture, node)| (meaning(*capture), node.byte_range())));
        })
    }

    /// The same of the patterns that only a query knows.
    fn match_query(
        &mut self,
        node: Node,
        query_cursor: &mut QueryCursor,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let rules = self.rules;
        let Some(query) = &rules.query else { return true };
        let mut is_whole = true;
        let mut watch = |_: &QueryCursorState| {
            is_whole = !is_over();
            if is_whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let options = QueryCursorOptions::new().progress_callback(&mut watch);
        let mut matches = query_cursor.matches_with_options(query, node, self.lines.source(), options);
        while let Some(query_match) = matches.next() {
            let captures = query_match.captures().iter();
            let meaning = |index: u32| rules.query_captures[index as usize];
            self.take_match(captures.map(|capture| (meaning(capture.index), capture.node.byte_range())));
        }
        drop(matches);
        is_whole
    }

    fn take_match(&mut self, captures: impl Iterator<Item = (Option<ReferenceCapture>, Range<usize>)>) {
        let mut captured = Captured::default();
        for (meaning, bytes) in captures {
            let Some(meaning) = meaning else { continue };
            match meaning {
                ReferenceCapture::Callee => widen(&mut captured.callee, bytes),
                ReferenceCapture::Receiver => widen(&mut captured.receiver, bytes),
                ReferenceCapture::Import => widen(&mut captured.import, bytes),
                ReferenceCapture::Group => widen(&mut captured.group, bytes),
                ReferenceCapture::Module => widen(&mut captured.module, bytes),
                ReferenceCapture::Name => widen(&mut captured.name, bytes),
                ReferenceCapture::Default => widen(&mut captured.default, bytes),
                ReferenceCapture::All => widen(&mut captured.all, bytes),
                ReferenceCapture::Alias => widen(&mut captured.alias, bytes),
                ReferenceCapture::Excluded => self.excluded.push(bytes),
                ReferenceCapture::Bare => self.names.add(Role::Bare, bytes),
                ReferenceCapture::Local => self.names.add(Role::Local, bytes),
                ReferenceCapture::Frame => self.names.add(Role::Frame, bytes),
                ReferenceCapture::Block => self.names.add(Role::Block, bytes),
            }
        }
        self.take(captured);
    }

    fn finish(mut self) -> References {
        for name in std::mem::take(&mut self.names).free(self.lines.source()) {
            self.take(Captured { callee: Some(name), ..Captured::default() });
        }
        for bytes in std::mem::take(&mut self.excluded) {
            let calls: Vec<usize> = self.calls.range(bytes).map(|(byte, _)| *byte).collect();
            calls.iter().for_each(|byte| drop(self.calls.remove(byte)));
        }
        References { imports: self.imports(), calls: self.calls.into_values().collect(), missing: None }
    }

    fn take(&mut self, captured: Captured) {
        if let Some((callee, name)) = self.named(captured.callee) {
            let receiver = captured.receiver.map(|bytes| self.text(bytes));
            let call = self.calls.entry(callee.start).or_insert_with(|| Call {
                callee: name,
                receiver: None,
                language: self.language,
                byte: callee.start,
                line: line_number(self.lines.row(callee.start)),
                unit: None,
            });
            call.receiver = call.receiver.take().or(receiver);
        }
        let Some((module, path)) = self.named(captured.module) else { return };
        if let Some(group) = captured.group {
            self.groups.insert(module.start, (module.end, group.end));
        }
        let Some(import) = captured.import else { return };
        let name = captured.name.map(|bytes| (bytes.start, self.text(bytes)));
        let name = name.or_else(|| captured.all.map(|bytes| (bytes.start, "*".to_owned())));
        let default = captured.default.map(|bytes| (bytes.start, self.text(bytes)));
        let alias = captured.alias.map(|bytes| self.text(bytes));
        let statement = self.imports.entry(module.start).or_insert_with(|| Statement {
            start: import.start,
            import: Import {
                module: path,
                alias: None,
                names: Vec::new(),
                line: line_number(self.lines.row(import.start)),
            },
            names: BTreeMap::new(),
        });
        statement.start = statement.start.min(import.start);
        statement.import.line = line_number(self.lines.row(statement.start));
        let alias_slot = match (name, default) {
            (Some((start, name)), _) => {
                &mut statement.names.entry(start).or_insert(ImportedName { name, alias: None }).alias
            }
            (None, Some((start, default))) => {
                let name = ImportedName { name: "default".to_owned(), alias: Some(default) };
                &mut statement.names.entry(start).or_insert(name).alias
            }
            (None, None) => &mut statement.import.alias,
        };
        *alias_slot = alias_slot.take().or(alias);
    }

    /// The imports, with the modules of enclosing groups prepended to their own.
    fn imports(&mut self) -> Vec<Import> {
        let mut groups = std::mem::take(&mut self.groups).into_iter().peekable();
        // Ends and paths of the groups that the walk is in.
        let mut path: Vec<(usize, String)> = Vec::new();
        let mut imports = Vec::new();
        for (module, statement) in std::mem::take(&mut self.imports) {
            while let Some((start, (module_end, end))) = groups.next_if(|(start, _)| *start < module) {
                path.truncate(path.iter().take_while(|(end, _)| *end > start).count());
                let group = self.qualified(path.last(), text(self.lines, start..module_end));
                path.push((end, group));
            }
            path.truncate(path.iter().take_while(|(end, _)| *end > module).count());
            let Statement { mut import, names, .. } = statement;
            import.module = self.qualified(path.last(), import.module);
            import.names = names.into_values().collect();
            imports.push(import);
        }
        imports
    }

    fn qualified(&self, group: Option<&(usize, String)>, module: String) -> String {
        let Some((_, group)) = group else { return module };
        let mut module = [group, self.rules.separator.as_str(), &module].concat();
        truncate(&mut module, MAX_NAME_BYTES);
        module
    }

    /// With its text, unless that is empty.
    fn named(&self, bytes: Option<Range<usize>>) -> Option<(Range<usize>, String)> {
        let bytes = bytes?;
        let text = self.text(bytes.clone());
        (!text.is_empty()).then_some((bytes, text))
    }

    fn text(&self, bytes: Range<usize>) -> String {
        text(self.lines, bytes)
    }
}

/// A piece of the source on one line, without surrounding quotes and angle brackets.
fn text(lines: &Lines, bytes: Range<usize>) -> String {
    let bytes = &lines.source()[bytes];
    // Enough of it, unless it is mostly white space.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_NAME_BYTES)]);
    let mut line: String = text.lines().map(str::trim).collect();
    truncate(&mut line, MAX_NAME_BYTES);
    for (open, close) in [('"', '"'), ('\'', '\''), ('`', '`'), ('<', '>')] {
        if let Some(inner) = line.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            return inner.to_owned();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use tree_sitter::Parser;

    use super::*;
    use crate::language::{Reader, language_for, languages};

    fn files_below(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
    }

    /// Patterns find the same as queries.
    #[test]
    fn patterns_match_as_queries_do() {
        let mut n_calls = 0;
        let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"));
        let directories = ["fixtures", "references"].map(|directory| tests.join(directory));
        let files: Vec<PathBuf> = directories.iter().flat_map(|directory| files_below(directory)).collect();
        for language in languages() {
            let Reader::Syntax(grammar) = language.reader() else { continue };
            let by_query = language.reference_query(grammar);
            let mut parser = Parser::new();
            parser.set_language(&grammar.into()).unwrap();
            for path in &files {
                if language_for(path, b"") != Some(language) {
                    continue;
                }
                let source = fs::read(path).unwrap();
                let tree = parser.parse(&source, None).unwrap();
                let find = |rules: &ReferenceRules| {
                    find_references(&tree, language, rules, &Lines::new(&source), Duration::from_secs(60))
                };
                let mut found = find(language.reference_rules(grammar));
                let expected = find(&by_query);
                n_calls += found.calls.len();
                // Queries do not see the field of what the constructor of a base is given, `Base(1)`.
                let is_known = |call: &Call| expected.calls.contains(call) || call.callee != "Base";
                found.calls.retain(is_known);
                assert_eq!(found, expected, "{}", path.display());
            }
        }
        assert!(n_calls > 300, "{n_calls}");
    }
}
