//! Paths with lines in a text: `src/a.rs:12:5`, `a.cs:line 12`, `a.ts(12,5)`, and addresses of files at code hosts.

/// A file that a text names, with the line if it gives one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// The path as written, with whatever is before it on the machine of the author; never empty.
    pub path: &'a str,
    /// The line, 1-based.
    pub line: Option<u32>,
}

/// Extensions of source files that people name without a line; with one, any will do.
const EXTENSIONS: [&str; 38] = [
    "c", "cc", "clj", "cpp", "cs", "cxx", "dart", "erl", "ex", "exs", "go", "groovy", "h", "hpp", "hs",
    "java", "js", "jsx", "kt", "kts", "lua", "m", "mjs", "ml", "mm", "php", "pl", "ps1", "py", "pyx", "rb",
    "rs", "scala", "sh", "swift", "ts", "tsx", "vue",
];

/// Maximum bytes of a path that is recognized.
const MAX_PATH_BYTES: usize = 1024;

impl<'a> Position<'a> {
    /// The position that the whole of `text` is: a path with an extension, and after it perhaps a line and column.
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || "`'\"<>,;[]{}".contains(c));
        if text.len() > MAX_PATH_BYTES {
            return None;
        }
        let text = text.strip_prefix("file://").unwrap_or(text);
        if let Some(line_at) = text.find("#L") {
            // Of a code host: `…/blob/REVISION/PATH#L12-L20`.
            let (path, line) = (&text[..line_at], leading_number(&text[line_at + 2..]));
            return Self::with(path, line);
        }
        if let Some((path, line)) = text.rsplit_once(":line ") {
            return Self::with(path, leading_number(line));
        }
        let text = text.trim_end_matches([':', '.']);
        if let Some((path, numbers)) = text.strip_suffix(')').unwrap_or(text).rsplit_once('(')
            && let Some(line) = leading_number(numbers)
        {
            return Self::with(path, Some(line)).filter(|found| EXTENSIONS.contains(&found.extension()));
        }
        // A line, and perhaps a column.
        let text = text.trim_end_matches([':', ')']);
        let (mut path, mut line) = (text, None);
        for _ in 0..2 {
            let Some((before, number)) = path.rsplit_once(':') else { break };
            let Ok(number) = number.parse::<u32>() else { break };
            (path, line) = (before, Some(number));
        }
        Self::with(path, line)
    }

    fn with(path: &'a str, line: Option<u32>) -> Option<Self> {
        let path = path.trim_matches(|c: char| c.is_whitespace() || "`'\"<>()[]".contains(c));
        let path = path.trim_start_matches("./");
        let name = file_name(path);
        let (stem, extension) = name.rsplit_once('.')?;
        let is_extension = (1..=10).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic());
        let is_path = !stem.is_empty()
            && is_extension
            && (line.is_some() || EXTENSIONS.contains(&extension))
            && path.chars().all(|c| c.is_alphanumeric() || "/\\._-+~@:%$[] ".contains(c));
        let line = line.filter(|line| *line > 0);
        is_path.then_some(Self { path, line })
    }

    /// The positions in a line of text, in order.
    pub fn all(text: &'a str) -> impl Iterator<Item = Self> {
        let is_border = |c: char| c.is_whitespace() || "`'\",;|=".contains(c);
        text.split(is_border).filter_map(|word| {
            // Most words hold no dot at all.
            if !word.contains('.') {
                return None;
            }
            let word = word.trim_start_matches(['(', '[', '{', '<']);
            Self::parse(word).filter(|position| !position.path.contains("://") || position.is_hosted())
        })
    }

    fn extension(&self) -> &'a str {
        file_name(self.path).rsplit('.').next().unwrap_or_default()
    }

    fn is_hosted(&self) -> bool {
        ["/blob/", "/blame/", "/tree/", "/raw/"].iter().any(|part| self.path.contains(part))
    }

    /// The parts of the path, the file first and the outermost directory last.
    pub fn parts(&self) -> impl Iterator<Item = &'a str> {
        self.path.rsplit(['/', '\\']).filter(|part| !part.is_empty() && *part != ".")
    }
}

/// The last part of a path, with either separator.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// The number that a text begins with.
pub(super) fn leading_number(text: &str) -> Option<u32> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Option<u32>)]) {
        let found: Vec<(&str, Option<u32>)> =
            Position::all(text).map(|position| (position.path, position.line)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn paths_are_read_with_their_lines() {
        check("error at src/net/http.rs:12:5", &[("src/net/http.rs", Some(12))]);
        check("see `lib/a.py`, and b.go:7.", &[("lib/a.py", None), ("b.go", Some(7))]);
        check("src/a.ts(12,5): error TS2322", &[("src/a.ts", Some(12))]);
        check(r"C:\work\shop\Cart.cs:12", &[(r"C:\work\shop\Cart.cs", Some(12))]);
        check(
            "https://example.org/o/n/blob/0a1b/pkg/mod.py#L66-L70",
            &[("https://example.org/o/n/blob/0a1b/pkg/mod.py", Some(66))],
        );
        check("(./tools/run.sh)", &[("tools/run.sh", None)]);
    }

    #[test]
    fn words_and_numbers_are_not_paths() {
        for text in [
            "version 1.2.3",
            "e.g. this",
            "http://example.org:80",
            "a.b",
            "12:30:15.5",
            "Node.js 12",
            "..",
            ":",
            "x.:1",
        ] {
            let found: Vec<Position> = Position::all(text).filter(|found| found.line.is_some()).collect();
            assert_eq!(found, [], "{text}");
        }
    }

    #[test]
    fn parts_begin_with_the_file() {
        let position = Position::parse(r"C:\a\b\c.py:3").unwrap();
        assert_eq!(position.parts().collect::<Vec<_>>(), ["c.py", "b", "a", "C:"]);
    }
}
