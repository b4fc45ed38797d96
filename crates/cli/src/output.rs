//! What commands print and write: results and JSON to stdout, everything else to stderr.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressStyle};
use quarry_eval::significance::Interval;
use serde::Serialize;
use tempfile::NamedTempFile;

const PATH_STYLE: Style = AnsiColor::Cyan.on_default();
const MATCH_STYLE: Style = AnsiColor::Yellow.on_default().bold();
const NAME_STYLE: Style = Style::new().bold();
const FAINT_STYLE: Style = Style::new().dimmed();

/// Longest line that is printed, in characters; the rest is cut off.
const MAX_LINE_CHARS: usize = 200;

/// What the terminal can do and the user wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    /// Colours may be used.
    pub colour: bool,
    /// Links (OSC 8) may be used.
    pub links: bool,
}

impl Terminal {
    /// Of stdout; `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` count where the user leaves the choice to us.
    pub fn of_stdout(choice: ColorChoice) -> Self {
        let colour = match choice {
            ColorChoice::Auto => anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let links = colour
            && io::stdout().is_terminal()
            && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout);
        Self { colour, links }
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// `text` as a link to a file.
    fn link(self, file: &Path, text: &str) -> String {
        match url::Url::from_file_path(file) {
            Ok(url) if self.links => format!("\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"),
            _ => text.to_owned(),
        }
    }

    /// `text` on one line with the byte ranges of `matches` (ascending) in the match style.
    fn highlight(self, text: &str, matches: &[Range<usize>]) -> String {
        let end = text.char_indices().nth(MAX_LINE_CHARS).map_or(text.len(), |(end, _)| end);
        let (mut out, mut done) = (String::new(), 0);
        for range in apart(matches).into_iter().filter(|range| range.start < end) {
            out.push_str(&text[done..range.start]);
            done = range.end.min(end);
            out.push_str(&self.paint(MATCH_STYLE, &text[range.start..done]));
        }
        out.push_str(&text[done..end]);
        if end < text.len() {
            out.push('…');
        }
        out
    }
}

/// Ranges without what ranges before them have; `ranges` is ascending.
pub fn apart(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut done = 0;
    let rest = |range: &Range<usize>| {
        let rest = range.start.max(done)..range.end;
        done = done.max(range.end);
        rest
    };
    ranges.iter().map(rest).filter(|range| !range.is_empty()).collect()
}

/// A result as a person reads it.
pub struct HitView<'a> {
    /// From 1.
    pub rank: usize,
    /// As shown, relative to the searched path.
    pub path: &'a str,
    /// For the link.
    pub file: &'a Path,
    /// First line of the unit, 1-based.
    pub start_line: u32,
    /// Empty for a unit without a name.
    pub name: &'a str,
    /// Empty for a unit without a declaration.
    pub signature: &'a str,
    /// What the unit is, in a word.
    pub kind: &'a str,
    pub score: f32,
    /// Ascending.
    pub blocks: &'a [Block],
}

/// Lines of a file that follow each other.
pub struct Block {
    /// 1-based.
    pub first_line: u32,
    pub lines: Vec<String>,
}

/// Three parts: where and what, the declaration, and the lines that match; `matches` finds what to highlight.
pub fn format_hit(hit: &HitView, terminal: Terminal, matches: impl Fn(&str) -> Vec<Range<usize>>) -> String {
    let place = format!("{}:{}", printable(hit.path), hit.start_line);
    let place = terminal.link(hit.file, &terminal.paint(PATH_STYLE, &place));
    let what = if hit.name.is_empty() {
        hit.kind.to_owned()
    } else {
        format!("{} {}", hit.kind, terminal.paint(NAME_STYLE, hit.name))
    };
    // Without a query there is no score.
    let score = if hit.score == 0.0 { String::new() } else { format!("  {:.2}", hit.score) };
    let score = terminal.paint(FAINT_STYLE, &score);
    let mut out = format!("{:>2}. {place}  {what}{score}\n", hit.rank);
    if !hit.signature.is_empty() {
        let _ = writeln!(out, "    {}", terminal.highlight(hit.signature, &matches(hit.signature)));
    }
    for (position, block) in hit.blocks.iter().enumerate() {
        if position > 0 {
            let _ = writeln!(out, "{}", terminal.paint(FAINT_STYLE, "       ⋮"));
        }
        for (number, line) in (block.first_line..).zip(&block.lines) {
            let said_already = line.trim().is_empty()
                || hit.signature.contains(line.trim().trim_end_matches(['{', ':']).trim_end());
            if !said_already {
                let gutter = terminal.paint(FAINT_STYLE, &format!("{number:>8} │"));
                let _ = writeln!(out, "{gutter} {}", terminal.highlight(line, &matches(line)));
            }
        }
    }
    out
}

/// A path without control characters, which could pass for other lines or speak to the terminal.
pub fn printable(path: &str) -> Cow<'_, str> {
    if !path.contains(char::is_control) {
        return Cow::Borrowed(path);
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(path.chars().map(escaped).collect())
}

/// A text of somebody else's without what could speak to the terminal, or make text stand where it does not.
pub fn harmless(text: &str) -> String {
    let is_kept = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if is_kept(c) && !turns(c) { c } else { '\u{fffd}' }).collect()
}

/// Prints text to stdout.
///
/// # Errors
/// When stdout cannot be written, as when its reader is gone.
pub fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints bytes to stdout.
///
/// # Errors
/// When stdout cannot be written, as when its reader is gone.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Prints a value as one line of JSON to stdout.
///
/// # Errors
/// When stdout cannot be written, as when its reader is gone.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string(value)?;
    Ok(print(&format!("{json}\n"))?)
}

/// Prints values as lines of JSON to stdout.
///
/// # Errors
/// When stdout cannot be written, as when its reader is gone.
pub fn print_json_lines(values: &[impl Serialize]) -> anyhow::Result<()> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(value)?);
        text.push('\n');
    }
    Ok(print(&text)?)
}

/// Prints a line for the person at the terminal to stderr. It may quote what files and servers say.
pub fn note(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "quarry: {}", harmless(text));
}

/// Prints an error and its causes to stderr.
pub fn print_error(error: &anyhow::Error) {
    note(&with_causes(error.chain()));
}

/// Prints that something was done in spite of an error to stderr, with the error and its causes.
pub fn warn(what: &str, error: &(dyn std::error::Error + 'static)) {
    note(&format!("{what}: {}", with_causes(anyhow::Chain::new(error))));
}

/// An error with its causes. Some errors name their cause themselves, which is not repeated.
fn with_causes(chain: anyhow::Chain<'_>) -> String {
    let mut text = String::new();
    for cause in chain.map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Milliseconds, to the microsecond.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

/// A dash for what is not defined.
pub fn format_defined(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.4}"))
}

pub fn format_interval(Interval { low, high }: Interval) -> String {
    format!("[{low:.4}, {high:.4}]")
}

/// Draws nothing where stderr is no terminal.
pub fn progress_bar(name: &'static str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>9} {bar:40} {human_pos}/{human_len} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style).with_message(name)
}

/// Writes one JSON object over several lines.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut file = create(path)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(file))
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

pub fn write_json_lines(path: &Path, mut lines: impl Iterator<Item = impl Serialize>) -> anyhow::Result<()> {
    let mut file = create(path)?;
    lines
        .try_for_each(|line| {
            serde_json::to_writer(&mut file, &line)?;
            writeln!(file)
        })
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.finish()).with_context(|| cannot_write(path))
}

/// A file that takes the place of what is at its path when it is finished. Dropped before, it leaves all as it was. What
/// is there and no plain file, such as a pipe, is written to at once.
pub struct NewFile {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    AtOnce(BufWriter<File>),
    Staged(BufWriter<NamedTempFile>),
}

pub fn create(path: &Path) -> anyhow::Result<NewFile> {
    let create = || -> io::Result<NewFile> {
        // Where a link leads to is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(NewFile { path, sink: Sink::AtOnce(BufWriter::new(file)) });
        }
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".partial-");
        // Temporary files are for their owner alone; this one will be a file as any other.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        Ok(NewFile { path, sink: Sink::Staged(BufWriter::new(file)) })
    };
    create().with_context(|| cannot_write(path))
}

impl NewFile {
    /// Gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self.sink {
            Sink::AtOnce(mut file) => file.flush(),
            Sink::Staged(file) => {
                file.into_inner().map_err(io::Error::from)?.persist(&self.path).map_err(io::Error::from)?;
                Ok(())
            }
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::AtOnce(file) => file.write(bytes),
            Sink::Staged(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::AtOnce(file) => file.flush(),
            Sink::Staged(file) => file.flush(),
        }
    }
}

pub fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}

pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The folder's own name, also where it is given as `.`.
pub fn folder_name(path: &Path) -> String {
    file_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_its_error_names_is_told_once() {
        let told = |error: anyhow::Error| with_causes(error.chain());
        let full = || anyhow::Error::new(io::Error::other("no space left"));
        assert_eq!(
            told(full().context("a.json cannot be written")),
            "a.json cannot be written: no space left"
        );
        assert_eq!(
            told(full().context("cannot write: no space left; make room")),
            "cannot write: no space left; make room"
        );
        assert_eq!(
            told(full().context("the cache").context("the plan")),
            "the plan: the cache: no space left"
        );
    }
}
