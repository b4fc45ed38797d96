//! Finds calls and imports in a syntax tree.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{QueryCursor, QueryCursorOptions, QueryCursorState, StreamingIterator, Tree};

use crate::line::{Lines, line_number};
use crate::local::{Names, Role};
use crate::rules::{ReferenceCapture, ReferenceRules};
use crate::unit::{Call, Import, ImportedName, MAX_NAME_BYTES, References, Unit, truncate};

/// The calls and imports in some byte ranges of `tree` (and some beside them), in ascending order of bytes, and the byte
/// that was reached if `time` ran out.
pub(crate) fn find_references(
    tree: &Tree,
    rules: &ReferenceRules,
    lines: &Lines,
    ranges: &[Range<usize>],
    time: Duration,
) -> (References, Option<usize>) {
    let start = Instant::now();
    let stopped_at = Cell::new(None);
    let mut watch = |state: &QueryCursorState| match start.elapsed() > time {
        true => {
            stopped_at.set(Some(state.current_byte_offset()));
            ControlFlow::Break(())
        }
        false => ControlFlow::Continue(()),
    };
    let mut finder =
        Finder { rules, lines, calls: BTreeMap::new(), imports: BTreeMap::new(), groups: BTreeMap::new() };
    let mut names = Names::default();
    let mut excluded = Vec::new();
    let mut cursor = QueryCursor::new();
    for range in ranges {
        let options = QueryCursorOptions::new().progress_callback(&mut watch);
        cursor.set_byte_range(range.clone());
        let mut matches =
            cursor.matches_with_options(&rules.query, tree.root_node(), lines.source(), options);
        while let Some(query_match) = matches.next() {
            let mut captured = Captured::default();
            for capture in query_match.captures() {
                let Some(meaning) = rules.captures[capture.index as usize] else { continue };
                let bytes = capture.node.byte_range();
                match meaning {
                    ReferenceCapture::Callee => widen(&mut captured.callee, bytes),
                    ReferenceCapture::Receiver => widen(&mut captured.receiver, bytes),
                    ReferenceCapture::Import => widen(&mut captured.import, bytes),
                    ReferenceCapture::Group => widen(&mut captured.group, bytes),
                    ReferenceCapture::Module => widen(&mut captured.module, bytes),
                    ReferenceCapture::Name => widen(&mut captured.name, bytes),
                    ReferenceCapture::Default => widen(&mut captured.default, bytes),
                    ReferenceCapture::Alias => widen(&mut captured.alias, bytes),
                    ReferenceCapture::Excluded => excluded.push(bytes),
                    ReferenceCapture::Bare => names.add(Role::Bare, bytes),
                    ReferenceCapture::Local => names.add(Role::Local, bytes),
                    ReferenceCapture::Frame => names.add(Role::Frame, bytes),
                    ReferenceCapture::Block => names.add(Role::Block, bytes),
                }
            }
            finder.take(captured);
        }
        if stopped_at.get().is_some() {
            break;
        }
    }
    for name in names.free(lines.source()) {
        finder.take(Captured { callee: Some(name), ..Captured::default() });
    }
    for bytes in excluded {
        let calls: Vec<usize> = finder.calls.range(bytes).map(|(byte, _)| *byte).collect();
        calls.iter().for_each(|byte| drop(finder.calls.remove(byte)));
    }
    let references = References { imports: finder.imports(), calls: finder.calls.into_values().collect() };
    (references, stopped_at.get())
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
    rules: &'a ReferenceRules,
    lines: &'a Lines<'a>,
    /// By the start of the callee, in bytes.
    calls: BTreeMap<usize, Call>,
    /// By the start of the module, in bytes.
    imports: BTreeMap<usize, Statement>,
    /// By the start of the module, in bytes: its end, and that of the group.
    groups: BTreeMap<usize, (usize, usize)>,
}

impl Finder<'_> {
    fn take(&mut self, captured: Captured) {
        if let Some((callee, name)) = self.named(captured.callee) {
            let receiver = captured.receiver.map(|bytes| self.text(bytes));
            let call = self.calls.entry(callee.start).or_insert_with(|| Call {
                callee: name,
                receiver: None,
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
