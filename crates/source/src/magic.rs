//! Magic commands in cells of notebooks: commands to IPython and similar kernels.

use std::borrow::Cow;
use std::path::Path;

use crate::language::{Language, language_called, language_for};

/// The cell magic in the first line of a cell, such as `%%bash`.
pub(crate) struct CellMagic {
    pub language: Language,
    /// Length of that line and everything before it; 0 without a magic.
    pub bytes: usize,
}

impl CellMagic {
    /// The magic of a cell, which is in `language` by default.
    pub(crate) fn parse(cell: &[u8], language: Language) -> Self {
        let none = Self { language, bytes: 0 };
        let start = cell.len() - cell.trim_ascii_start().len();
        let end = memchr::memchr(b'\n', &cell[start..]).map_or(cell.len(), |newline| start + newline);
        let Ok(line) = str::from_utf8(&cell[start..end]) else { return none };
        let Some(command) = line.strip_prefix('%') else { return none };
        let mut words = command.trim_start_matches('%').split_whitespace();
        let name = words.next().unwrap_or_default();
        if !command.starts_with('%') {
            // Databricks writes `%sql` for the cell; in IPython, a single `%` applies to the line only.
            let is_whole_line = command.trim_end() == name && !cell[end..].trim_ascii().is_empty();
            let found = cell_language(name).filter(|_| is_whole_line);
            return found.map_or(none, |language| Self { language, bytes: end });
        }
        let found = match name {
            "!" | "sx" | "system" => cell_language("bash"),
            "script" => words.find(|word| !word.starts_with('-')).and_then(cell_language),
            "file" | "writefile" => words.next_back().and_then(|path| language_for(Path::new(path), b"")),
            name => cell_language(name),
        };
        let found = found.filter(|language| !language.is_notebook());
        Self { language: found.unwrap_or(language), bytes: end }
    }

    /// A cell with its first `bytes` replaced by spaces.
    pub(crate) fn blanked(cell: &[u8], bytes: usize) -> Cow<'_, [u8]> {
        if bytes == 0 {
            return Cow::Borrowed(cell);
        }
        let mut blanked = cell.to_vec();
        blank(&mut blanked[..bytes], b' ');
        Cow::Owned(blanked)
    }
}

/// The language that a kernel or a cell magic names, ignoring a version after it: `C++17`, `python3`.
pub(crate) fn cell_language(name: &str) -> Option<Language> {
    let name = name.trim_start_matches('.');
    let without_version = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    language_called(name).or_else(|| language_called(without_version))
}

/// `code`, at the same offsets, with identifiers instead of IPython commands: `%matplotlib inline`,
/// `!ls`, `files = !ls`, `help?`. None if there are no such commands.
pub(crate) fn without_line_magics(code: &[u8]) -> Option<Vec<u8>> {
    let mut masked = code.to_vec();
    let (mut start, mut goes_on, mut is_changed) = (0, false, false);
    while start < code.len() {
        let end = memchr::memchr(b'\n', &code[start..]).map_or(code.len(), |newline| start + newline);
        let line = code[start..end].trim_ascii_end();
        if goes_on {
            blank(&mut masked[start..start + line.len()], b' ');
        }
        let magic = if goes_on { Some(line.len()) } else { magic_start(line) };
        if let Some(at) = magic {
            blank(&mut masked[start + at..start + line.len()], b'x');
            is_changed = true;
        }
        goes_on = magic.is_some() && line.ends_with(b"\\");
        start = end + 1;
    }
    is_changed.then_some(masked)
}

/// Offset at which a command begins in a line, if it has one.
fn magic_start(line: &[u8]) -> Option<usize> {
    let indent = line.len() - line.trim_ascii_start().len();
    let first = line.get(indent)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.*".contains(byte);
    let name = line[indent..].strip_suffix(b"?").map(|name| name.strip_suffix(b"?").unwrap_or(name));
    if b"%!?".contains(first) || name.is_some_and(|name| name.iter().all(is_name)) {
        return Some(indent);
    }
    let equals = memchr::memchr(b'=', line)?;
    let value = equals + 1 + line[equals + 1..].iter().take_while(|byte| **byte == b' ').count();
    // Not `!=`, nor `==`.
    (b"%!".contains(line.get(value)?) && line.get(value + 1) != Some(&b'=')).then_some(value)
}

/// Overwrites everything except line ends.
pub(crate) fn blank(bytes: &mut [u8], with: u8) {
    bytes.iter_mut().filter(|byte| !b"\r\n".contains(byte)).for_each(|byte| *byte = with);
}

#[cfg(test)]
mod tests {
    use crate::language::language_named;

    use super::*;

    #[test]
    fn the_first_line_may_name_the_language() {
        let python = language_named("python").unwrap();
        let check = |cell: &str, language: &str, line: &str| {
            let magic = CellMagic::parse(cell.as_bytes(), python);
            assert_eq!((magic.language.name(), &cell[..magic.bytes]), (language, line), "{cell:?}");
        };
        check("%%bash\nls", "bash", "%%bash");
        check("\n%%sh -e\nls", "bash", "\n%%sh -e");
        check("%%R -i data\nplot(data)", "r", "%%R -i data");
        check("%%javascript\nf()", "javascript", "%%javascript");
        check("%%script --bg ruby\nputs 1", "ruby", "%%script --bg ruby");
        check("%%writefile src/a.go\npackage a", "go", "%%writefile src/a.go");
        check("%%python3\nf()", "python", "%%python3");
        check("%%time\nf()", "python", "%%time");
        check("%%writefile a.ipynb\n{}", "python", "%%writefile a.ipynb");
        check("%sql\nselect 1", "sql", "%sql");
        check("%sql select 1\nf()", "python", "");
        check("%matplotlib\nf()", "python", "");
        check("%%", "python", "%%");
        check("f()\n%%bash\n", "python", "");
        check("", "python", "");
    }

    #[test]
    fn commands_become_identifiers() {
        let check = |code: &str, expected: Option<&str>| {
            let masked = without_line_magics(code.as_bytes()).map(|code| String::from_utf8(code).unwrap());
            assert_eq!(masked.as_deref(), expected, "{code:?}");
        };
        check("%matplotlib inline\nf()", Some("xxxxxxxxxxxxxxxxxx\nf()"));
        check("if a:\n    !ls é\r\n", Some("if a:\n    xxxxxx\r\n"));
        check("files = !ls", Some("files = xxx"));
        check("a.open??", Some("xxxxxxxx"));
        check("# Why?\nf(\n", None);
        check("!pip install a \\\n    b\nf()", Some("xxxxxxxxxxxxxxxx\n     \nf()"));
        check("a != b\nc == d % e\n", None);
        check("", None);
    }
}
