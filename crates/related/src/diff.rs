//! Changed lines of a diff in the unified format.

use std::ops::RangeInclusive;

/// The changed lines of a file as it is after the change, 1-based; those around removed lines count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    /// As the diff has it, without `b/`.
    pub path: String,
    /// In the order of the diff.
    pub lines: Vec<RangeInclusive<u32>>,
}

/// The files that a diff changes or adds; those that it removes have no lines left.
pub(crate) fn changed_files(diff: &str) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = Vec::new();
    let (mut line, mut n_before, mut n_after) = (0_u32, 0_u32, 0_u32);
    let mut is_open = false;
    for text in diff.lines() {
        if n_before == 0 && n_after == 0 {
            if let Some(path) = text.strip_prefix("+++ ") {
                let path = path_of(path);
                is_open = path.is_some();
                files.extend(path.map(|path| ChangedFile { path, lines: Vec::new() }));
            } else if let Some((before, after)) = text.strip_prefix("@@ -").and_then(hunk) {
                (line, n_before, n_after) = (after.0, before.1, after.1);
                // A hunk that only removes names the line before.
                line += u32::from(n_after == 0);
            }
            continue;
        }
        let mut add = |lines: RangeInclusive<u32>| {
            let Some(file) = files.last_mut().filter(|_| is_open) else { return };
            match file.lines.last_mut() {
                Some(last) if *lines.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(lines.end());
                }
                _ => file.lines.push(lines),
            }
        };
        match text.as_bytes().first() {
            Some(b'+') => {
                add(line..=line);
                line = line.saturating_add(1);
                n_after = n_after.saturating_sub(1);
            }
            Some(b'-') => {
                add(line.saturating_sub(1).max(1)..=line);
                n_before = n_before.saturating_sub(1);
            }
            Some(b'\\') => {}
            // Of an empty line, mail programs drop the space.
            _ => {
                line = line.saturating_add(1);
                (n_before, n_after) = (n_before.saturating_sub(1), n_after.saturating_sub(1));
            }
        }
    }
    files.retain(|file| !file.lines.is_empty());
    files
}

/// The path after `+++`; `None` for a removed file.
fn path_of(text: &str) -> Option<String> {
    let text = text.split('\t').next().unwrap_or(text).trim_end();
    let text = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => unquoted(quoted),
        None => text.to_owned(),
    };
    if text == "/dev/null" {
        return None;
    }
    Some(text.strip_prefix("b/").map_or_else(|| text.clone(), str::to_owned))
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

/// First line and number of lines, before and after: `-1,2 +3,4 @@`, without the first sign.
fn hunk(text: &str) -> Option<((u32, u32), (u32, u32))> {
    let (before, rest) = text.split_once(" +")?;
    let (after, _) = rest.split_once(" @@")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, length)) => Some((start.parse().ok()?, length.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((range(before)?, range(after)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_after_the_change() {
        let diff = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,5 @@ def f():\n a\n-b\n+c\n+d\n e\n f\n\
                    @@ -10,2 +11,0 @@\n-x\n-y\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                    --- /dev/null\n+++ \"b/\\303\\251 1.py\"\n@@ -0,0 +1,2 @@\n+--- a\n++++ b\n";
        let files = changed_files(diff);
        let expected = [("x.py", vec![1..=3, 11..=12]), ("é 1.py", vec![1..=2])];
        assert_eq!(files.len(), 2);
        for (file, (path, lines)) in files.iter().zip(expected) {
            assert_eq!((file.path.as_str(), &file.lines), (path, &lines));
        }
    }

    #[test]
    fn other_text_changes_nothing() {
        for text in [
            "",
            "hello",
            "@@ -1 +1 @@\n+x\n",
            "+++ b/x\n@@ -1,a +1 @@\n+x",
            "+++ b/x\n@@ -9999999999 +1 @@\n+x",
        ] {
            assert_eq!(changed_files(text), [], "{text}");
        }
        let endless = "+++ b/x\n@@ -1,4294967295 +4294967295,4294967295 @@\n+a\n+b\n-c";
        assert_eq!(changed_files(endless)[0].path, "x");
    }
}
