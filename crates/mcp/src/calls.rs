//! Callers and callees as text.

use quarry_index::{CallSite, Callee, Calls, Hit, Index, UnfinishedFile};
use quarry_session::text::{BudgetedText, numbered, position, quoted, quoted_start, unit_label};
use quarry_text::counted;

use crate::arguments::Size;
use crate::workspace::{prefixed, shown_path};

/// Number of calls listed by default.
const DEFAULT_CALLS: usize = 10;

/// Maximum number of definitions of one name that are listed.
const N_DEFINITIONS: usize = 10;

/// An index, and the path prefix of each of its trees.
pub(crate) struct Paths<'a> {
    pub index: &'a Index,
    pub prefixes: &'a [String],
}

impl Paths<'_> {
    /// A unit by its number, with its path as it is shown.
    fn unit(&self, unit: usize) -> Hit {
        prefixed(&self.index.unit(unit), self.prefixes)
    }

    /// Location of a definition, and its kind.
    fn position(&self, hit: &Hit) -> String {
        position(&prefixed(hit, self.prefixes))
    }

    /// A path as it is shown.
    fn quoted(&self, root: usize, path: &str) -> String {
        quoted(&shown_path(root, path, self.prefixes)).into_owned()
    }
}

/// The calls of `definitions`, or if there are none, of anything called `name`.
pub(crate) fn callers_text(
    paths: &Paths,
    name: &str,
    definitions: &[Hit],
    calls: &Calls<CallSite>,
    size: Size,
) -> String {
    let subject = described_definitions(paths, name, definitions);
    let (sites, unfinished) = (&calls.found, unfinished_text(paths, &calls.unfinished));
    if sites.is_empty() {
        let elsewhere = match calls.n_elsewhere {
            0 => String::new(),
            n => format!(" Imports or scopes give {} of that name another target.", counted(n, "call")),
        };
        let calls = match definitions {
            [] => format!("No calls of {} found; nothing in the tree defines it.", quoted_start(name)),
            _ => format!("No calls of {subject} found.{elsewhere}"),
        };
        return format!("{calls}\n{unfinished}");
    }
    let by_name = match calls.n_by_name() {
        0 => String::new(),
        n => format!(", {n} matched by name only"),
    };
    let head = format!("{} of {subject}{by_name}:\n{unfinished}", counted(sites.len(), "call"));
    let mut text = BudgetedText::new(&head, size.max_tokens);
    let line = |(number, site): (usize, &CallSite)| {
        let code = numbered(site.line, &site.text);
        let before = number.checked_sub(1).map(|before| &sites[before]);
        if before.is_some_and(|before| is_beside(before, site)) {
            return code;
        }
        let caller = site.caller.as_ref().filter(|hit| !hit.name.is_empty());
        let caller = caller.map(|hit| format!(" in {}", unit_label(hit.kind, &hit.name))).unwrap_or_default();
        let doubt = doubt(paths, site.is_certain, &site.definitions);
        format!("{}:{}{caller}{doubt}\n{code}", paths.quoted(site.root, &site.path), site.line)
    };
    let numbers = sites.iter().enumerate().take(size.k(DEFAULT_CALLS));
    let n_shown = numbers.take_while(|site| text.push(&line(*site))).count();
    text.finish(&ending(sites.len() - n_shown))
}

/// Returns true if a call needs no heading of its own after another one: it is in the same definition, and as certain.
fn is_beside(before: &CallSite, site: &CallSite) -> bool {
    let unit = |site: &CallSite| site.caller.as_ref().map(|hit| hit.unit);
    (before.root, &before.path, unit(before)) == (site.root, &site.path, unit(site))
        && (before.is_certain, &before.definitions) == (site.is_certain, &site.definitions)
}

/// Divides `n` as evenly as possible into shares, each at most as large as is `wanted`.
fn shares(mut n: usize, wanted: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; wanted.len()];
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    // In ascending order, so that what small ones leave goes to the others.
    order.sort_by_key(|number| wanted[*number]);
    for (place, number) in order.iter().enumerate() {
        let share = n.div_ceil(order.len() - place).min(wanted[*number]);
        shares[*number] = share;
        n -= share;
    }
    shares
}

/// The callees of each of some definitions, as text.
pub(crate) fn callees_text(paths: &Paths, name: &str, found: &[(Hit, Calls<Callee>)], size: Size) -> String {
    if found.is_empty() {
        return format!("Nothing in the tree defines {}.\n", quoted_start(name));
    }
    let mut text = BudgetedText::new("", size.max_tokens);
    let mut n_left_out = 0;
    let is_inside = |callee: &&Callee| !callee.definitions.is_empty();
    let n_inside = found.iter().map(|(_, callees)| callees.found.iter().filter(is_inside).count());
    let shares = shares(size.k(DEFAULT_CALLS), &n_inside.collect::<Vec<_>>());
    for ((hit, Calls { found: callees, unfinished, .. }), mut n_left) in found.iter().zip(shares) {
        text.push(&unfinished_text(paths, unfinished));
        let (external, inside): (Vec<&Callee>, Vec<&Callee>) =
            callees.iter().partition(|callee| callee.definitions.is_empty());
        let (inside, unknown): (Vec<&Callee>, Vec<&Callee>) =
            inside.into_iter().partition(|callee| callee.is_certain);
        let is_head_shown = text.push(&format!("{} calls:\n", paths.position(hit)));
        let inside = inside.into_iter().map(|callee| {
            let definition = paths.unit(callee.definitions[0]);
            format!("   {}, on {}\n", position(&definition), lines(&callee.lines))
        });
        let unknown = unknown.into_iter().map(|callee| {
            let candidates = candidates(paths, &callee.definitions);
            let name = quoted_start(&callee.name);
            format!("   unknown: {name}, on {}; by its name {candidates}\n", lines(&callee.lines))
        });
        for line in inside.chain(unknown) {
            if is_head_shown && n_left > 0 && text.push(&line) {
                n_left -= 1;
            } else {
                n_left_out += 1;
            }
        }
        if !external.is_empty() {
            let names: Vec<String> = external
                .iter()
                .map(|callee| format!("{} ({})", quoted_start(&callee.name), lines(&callee.lines)))
                .collect();
            if !text.push(&format!("   external or local: {}\n", names.join(", "))) {
                n_left_out += external.len();
            }
        }
        if callees.is_empty() {
            text.push("   nothing\n");
        }
    }
    text.finish(&ending(n_left_out))
}

/// The files that may contain more calls, as text.
fn unfinished_text(paths: &Paths, files: &[UnfinishedFile]) -> String {
    const N_SHOWN: usize = 3;
    let position = |file: &UnfinishedFile| {
        format!("{}:{} ({})", paths.quoted(file.root, &file.path), file.line, file.reason)
    };
    let positions: Vec<String> = files.iter().take(N_SHOWN).map(position).collect();
    match files.len() {
        0 => String::new(),
        n if n > N_SHOWN => {
            format!(
                "Calls may be missing from {} on, and in {}.\n",
                positions.join(", "),
                counted(n - N_SHOWN, "more file")
            )
        }
        _ => format!("Calls may be missing from {} on.\n", positions.join(", ")),
    }
}

fn described_definitions(paths: &Paths, name: &str, definitions: &[Hit]) -> String {
    match definitions {
        [] => format!("{}, which nothing in the tree defines", quoted_start(name)),
        [hit] => paths.position(hit),
        several => {
            let positions: Vec<String> =
                several.iter().take(N_DEFINITIONS).map(|hit| paths.position(hit)).collect();
            let more = if several.len() > N_DEFINITIONS { ", …" } else { "" };
            format!(
                "the {} named {} ({}{more})",
                counted(several.len(), "definition"),
                quoted_start(name),
                positions.join(", ")
            )
        }
    }
}

fn doubt(paths: &Paths, is_certain: bool, definitions: &[usize]) -> String {
    match definitions {
        _ if is_certain => String::new(),
        [] => String::new(),
        [_] => " (matched by name only)".to_owned(),
        several => format!(" (matched by name only: {})", candidates(paths, several)),
    }
}

/// A definition, or some of the candidates for a call.
fn candidates(paths: &Paths, units: &[usize]) -> String {
    let positions = units.iter().take(3).map(|unit| paths.unit(*unit));
    let positions: Vec<String> =
        positions.map(|hit| format!("{}:{}", quoted(&hit.path), hit.start_line)).collect();
    match units.len() {
        1 => format!("perhaps {}", positions.join(", ")),
        n => format!("any of {n}: {} ...", positions.join(", ")),
    }
}

fn lines(lines: &[u32]) -> String {
    let numbers: Vec<String> = lines.iter().map(ToString::to_string).collect();
    format!("{} {}", if lines.len() == 1 { "line" } else { "lines" }, numbers.join(", "))
}

fn ending(n_left_out: usize) -> String {
    match n_left_out {
        0 => String::new(),
        n => format!("{n} more; raise k or max_tokens to see them.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_definition_gets_its_share() {
        assert_eq!(shares(10, &[50, 1, 50]), [5, 1, 4]);
        assert_eq!(shares(10, &[2, 3]), [2, 3]);
        assert_eq!(shares(1, &[5, 5]).iter().sum::<usize>(), 1);
        assert_eq!(shares(3, &[]), Vec::<usize>::new());
    }
}
