//! Changed lines of a diff in the unified format.

use std::borrow::Cow;
use std::ops::RangeInclusive;

/// A diff, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadDiff {
    /// The files that it changes, adds or moves.
    pub changed: Vec<ChangedFile>,
    /// The paths of those that it removes, as the diff has them.
    pub removed: Vec<String>,
}

/// The changed lines of a file as it is after the change, 1-based; those around removed lines count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    /// As the diff has it.
    pub path: String,
    /// Its path before the change, as the diff has it; none for an added file.
    pub before: Option<String>,
    /// In the order of the diff; none for a file that was only moved.
    pub lines: Vec<RangeInclusive<u32>>,
}

impl ChangedFile {
    /// The paths that it may have in a tree, the most likely first. Diffs put one part before paths, such as `b/`, `w/` or
    /// the name of a directory, or none.
    pub(crate) fn paths(&self) -> Vec<&str> {
        possible_paths(&self.path, self.before.as_deref())
    }
}

/// The paths that a path of a diff may stand for, the most likely first; `other` is that of the other side.
pub(crate) fn possible_paths<'a>(path: &'a str, other: Option<&str>) -> Vec<&'a str> {
    let whole = path.trim_start_matches("./");
    let without = whole.split_once('/').map(|(_, rest)| rest);
    // The first part is none of the path if it alone differs.
    let is_prefixed = other.is_some_and(|other| {
        let other = other.trim_start_matches("./");
        other != whole && other.split_once('/').map(|(_, rest)| rest) == without && without.is_some()
    });
    let [first, second] = if is_prefixed { [without, Some(whole)] } else { [Some(whole), without] };
    first.into_iter().chain(second).collect()
}

/// Columns before the lines of a hunk, one for each state before, and the lines that are left of it.
#[derive(Default)]
struct OpenHunk {
    before: Vec<u32>,
    after: u32,
    /// The next line after the change.
    line: u32,
}

impl OpenHunk {
    fn is_over(&self) -> bool {
        self.after == 0 && self.before.iter().all(|n| *n == 0)
    }

    /// Takes the next line, and returns the lines that it changes.
    fn take(&mut self, text: &str) -> Option<RangeInclusive<u32>> {
        if text.starts_with('\\') {
            return None;
        }
        let columns = text.as_bytes().get(..self.before.len()).unwrap_or(text.as_bytes());
        let (is_removed, is_added) = (columns.contains(&b'-'), columns.contains(&b'+'));
        for (at, n) in self.before.iter_mut().enumerate() {
            // Of an empty line, mail programs drop the space.
            let column = columns.get(at).copied().unwrap_or(b' ');
            let had_it = if is_removed { column == b'-' } else { column != b'+' };
            *n = n.saturating_sub(u32::from(had_it));
        }
        let line = self.line;
        if is_removed {
            return Some(line.saturating_sub(1).max(1)..=line);
        }
        self.line = line.saturating_add(1);
        self.after = self.after.saturating_sub(1);
        is_added.then_some(line..=line)
    }
}

/// Reads a diff in the unified format, also of a merge; `None` if the text is none.
pub(crate) fn read_diff(diff: &str) -> Option<ReadDiff> {
    let diff = without_colors(diff);
    let (mut found, mut is_diff) = (ReadDiff::default(), false);
    let mut hunk = OpenHunk::default();
    let (mut before, mut is_open) = (None, false);
    for text in diff.lines() {
        if !hunk.is_over() {
            if let (Some(lines), true) = (hunk.take(text), is_open)
                && let Some(file) = found.changed.last_mut()
            {
                add(&mut file.lines, lines);
            }
        } else if text.starts_with("diff --") {
            (is_diff, is_open, before) = (true, false, None);
        } else if let Some(path) = text.strip_prefix("--- ") {
            before = path_of(path);
        } else if let Some(path) = text.strip_prefix("+++ ") {
            is_diff = true;
            let (path, before) = (path_of(path), before.take());
            is_open = path.is_some();
            // With the changed lines of a moved file, its move was read already.
            let is_moved = |moved: &mut ChangedFile| {
                moved.lines.is_empty() && path.as_ref().is_some_and(|path| path.ends_with(&moved.path))
            };
            found.changed.pop_if(is_moved);
            match path {
                Some(path) => found.changed.push(ChangedFile { path, before, lines: Vec::new() }),
                None => found.removed.extend(before),
            }
        } else if let Some(path) = text.strip_prefix("rename to ").and_then(path_of) {
            is_diff = true;
            found.changed.push(ChangedFile { path, before: None, lines: Vec::new() });
        } else if let Some(started) = hunk_of(text) {
            hunk = started;
        }
    }
    is_diff.then_some(found)
}

fn add(all: &mut Vec<RangeInclusive<u32>>, lines: RangeInclusive<u32>) {
    match all.last_mut() {
        Some(last) if last.start() <= lines.start() && *lines.start() <= last.end().saturating_add(1) => {
            *last = *last.start()..=*last.end().max(lines.end());
        }
        _ => all.push(lines),
    }
}

/// A text without the sequences by which terminals color it.
fn without_colors(text: &str) -> Cow<'_, str> {
    const START: &str = "\u{1b}[";
    if !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(START);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':');
        match rest.strip_prefix(['m', 'K']) {
            Some(rest) => out.push_str(rest),
            None => out.extend([START, part]),
        }
    }
    Cow::Owned(out)
}

/// The path after `---` or `+++`; `None` for a missing file.
fn path_of(text: &str) -> Option<String> {
    let text = text.split('\t').next().unwrap_or(text).trim_end();
    let text = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => unquoted(quoted),
        None => text.to_owned(),
    };
    (text != "/dev/null").then_some(text)
}

/// A path as git quotes it: octal bytes and the escapes of C.
fn unquoted(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let octal = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &rest[3..];
        } else if let Some((escaped, after)) = rest.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                other => *other,
            });
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The start of a hunk: `@@ -1,2 +3,4 @@`, and with several states before `@@@ -1,2 -1,2 +3,4 @@@`.
fn hunk_of(text: &str) -> Option<OpenHunk> {
    let n_before = text.bytes().take_while(|byte| *byte == b'@').count().checked_sub(1).filter(|n| *n > 0)?;
    let mut words = text.get(n_before + 1..)?.split_ascii_whitespace();
    let range = |text: &str| match text.split_once(',') {
        Some((start, length)) => Some((start.parse::<u32>().ok()?, length.parse::<u32>().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    let before = (0..n_before).map(|_| Some(range(words.next()?.strip_prefix('-')?)?.1));
    let before = before.collect::<Option<Vec<u32>>>()?;
    let (line, after) = range(words.next()?.strip_prefix('+')?)?;
    words.next()?.starts_with("@@").then_some(())?;
    // A hunk that only removes names the line before.
    Some(OpenHunk { before, after, line: line.saturating_add(u32::from(after == 0)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_files(diff: &str) -> Vec<ChangedFile> {
        read_diff(diff).unwrap_or_default().changed
    }

    #[test]
    fn lines_are_those_after_the_change() {
        let diff = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,5 @@ def f():\n a\n-b\n+c\n+d\n e\n f\n\
                    @@ -10,2 +11,0 @@\n-x\n-y\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                    --- /dev/null\n+++ \"b/\\303\\251 1.py\"\n@@ -0,0 +1,2 @@\n+--- a\n++++ b\n";
        let ReadDiff { changed: files, removed } = read_diff(diff).unwrap();
        let expected = [("b/x.py", vec![1..=3, 11..=12]), ("b/é 1.py", vec![1..=2])];
        assert_eq!((files.len(), removed), (2, vec!["a/gone.py".to_owned()]));
        for (file, (path, lines)) in files.iter().zip(expected) {
            assert_eq!((file.path.as_str(), &file.lines), (path, &lines));
        }
        assert_eq!(files[0].paths(), ["x.py", "b/x.py"]);
        assert_eq!(files[1].paths(), ["b/é 1.py", "é 1.py"]);
    }

    #[test]
    fn prefixes_are_those_by_which_both_sides_differ() {
        for (before, after, expected) in [
            ("i/src/x.py", "w/src/x.py", vec!["src/x.py", "w/src/x.py"]),
            ("old/x.py", "new/x.py", vec!["x.py", "new/x.py"]),
            ("src/x.py", "src/x.py", vec!["src/x.py", "x.py"]),
            ("./x.py", "./x.py", vec!["x.py"]),
            ("x.py", "x.py", vec!["x.py"]),
            ("x.py", "y.py", vec!["y.py"]),
        ] {
            assert_eq!(possible_paths(after, Some(before)), expected, "{before} {after}");
        }
    }

    #[test]
    fn diffs_of_merges_with_colors_and_of_moves_are_read() {
        let merge = "diff --cc x.py\nindex 1,2..3\n--- a/x.py\n+++ b/x.py\n@@@ -1,3 -1,4 +1,4 @@@\n  a\n- b\n -c\n++d\n+ e\n  f\n\
                     @@@ -9,2 -9,2 +10,1 @@@\n++x\n--y\n--z\n";
        assert_eq!(changed_files(merge)[0].lines, [1..=3, 10..=11]);
        let colored = "\u{1b}[1m--- a/x.py\u{1b}[m\n\u{1b}[1m+++ b/x.py\u{1b}[m\n\u{1b}[36m@@ -1 +1 @@\u{1b}[m\n\
                       \u{1b}[31m-a\u{1b}[m\n\u{1b}[32m+\u{1b}[m\u{1b}[32mb\u{1b}[m\n";
        let file = &changed_files(colored)[0];
        assert_eq!((file.paths()[0], file.lines.as_slice()), ("x.py", [1..=1].as_slice()));
        let moved = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n";
        let file = &changed_files(moved)[0];
        assert_eq!((file.path.as_str(), file.lines.len()), ("y.py", 0));
    }

    #[test]
    fn other_text_is_not_a_diff() {
        for text in ["", "hello", "@@ -1 +1 @@\n+x\n"] {
            assert_eq!(read_diff(text), None, "{text}");
        }
        for text in
            ["+++ b/x\n@@ -1,a +1 @@\n+x", "+++ b/x\n@@ -9999999999 +1 @@\n+x", "+++ b/x\n@ -1 +1 @\n+x"]
        {
            assert_eq!(changed_files(text)[0].lines, [], "{text}");
        }
        let endless = "+++ b/x\n@@ -1,4294967295 +4294967295,4294967295 @@\n+a\n+b\n-c";
        assert_eq!(changed_files(endless)[0].path, "b/x");
    }
}
