//! Splits a long query – a pasted issue, traceback or error message – into its parts.
//!
//! People and agents paste whole bug reports. Their sentences, code, traces and messages are evidence of different
//! kinds, and much of them is not evidence at all: checklists, headings of templates, versions. [`Issue::parse`] goes
//! through the lines once and classifies each. It uses the text alone, in time linear in its length; `evidence` looks
//! the parts up in an index.

pub(crate) mod evidence;
pub mod frame;
pub mod kind;
mod line;
pub mod literal;
pub(crate) mod log;
pub mod model;
pub mod name;
pub mod position;
mod ranking;

use std::collections::HashMap;

use self::frame::{Frame, Order, frame};
use self::kind::KindModel;
use self::line::LineKind;
use self::name::{Name, Origin, names};
use self::position::Position;

/// Maximum words of a text of one line that is an ordinary query; from twice as many on, its length no longer suggests
/// one.
const MIN_WORDS: usize = 10;

/// Probabilities of a long text between which both rankings are mixed.
const MIXED: [f32; 2] = [0.5, 0.9];

/// Maximum number of frames, names and positions that are kept of a text.
const MAX_FOUND: usize = 300;

/// Maximum lines of source between two frames of a trace, or between the last one and the message.
const MAX_BETWEEN: usize = 12;

/// Minimum bytes of a title whose sentence is not continued on the next line.
const MAX_TITLE: usize = 400;

/// The parts of an issue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Issue<'a> {
    /// Its first line, without what trackers put before it (`[Bug]`).
    pub title: &'a str,
    /// Lines of sentences, in order, without the title.
    pub prose: Vec<&'a str>,
    /// Lines of code, of diffs and of what was typed into a shell.
    pub code: Vec<&'a str>,
    /// Frames with their distance from the innermost one of their trace.
    pub frames: Vec<(Frame<'a>, usize)>,
    /// Lines of source that traces show, each with the distance of its frame.
    pub traced: Vec<(&'a str, usize)>,
    /// Error messages: of traces, compilers and logs, and quoted ones. The last of a trace is complete.
    pub messages: Vec<&'a str>,
    /// Paths outside of traces.
    pub positions: Vec<Position<'a>>,
    /// Names of code, each once for an origin, with the number of times that it is mentioned there.
    pub names: Vec<(Name<'a>, usize)>,
    /// Number of lines that say nothing about the code: templates, checklists, versions.
    pub n_noise: usize,
}

impl<'a> Issue<'a> {
    /// Splits a text of several lines, or with a frame or a path with a line; `None` for any other.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next()?;
        let has_place =
            || frame(first, "").is_some() || Position::all(first).any(|position| position.line.is_some());
        (lines.next().is_some() || has_place()).then(|| Self::split(text))
    }

    /// Weight with which a text of one line is ranked as a long one rather than as an ordinary query, 0 to 1: it rises
    /// with the length of the text and the probability that it is a description.
    pub fn share_of_long(text: &str) -> f32 {
        let n_words = text.split_whitespace().count();
        let by_length = (n_words.saturating_sub(MIN_WORDS) as f32 / MIN_WORDS as f32).min(1.0);
        if by_length == 0.0 {
            return 0.0;
        }
        let probability = KindModel::long_texts().probability(&Issue::split(text).text_features(text));
        // Below the first probability one ranking suffices, above the last the other one does.
        let [none, all] = MIXED;
        ((by_length * probability - none) / (all - none)).clamp(0.0, 1.0)
    }

    /// Splits any text.
    pub fn split(text: &'a str) -> Self {
        Splitter { text, ..Splitter::default() }.split(text)
    }

    /// The number of parts of each kind, for explanations.
    pub(crate) fn parts(&self) -> Vec<(&'static str, usize)> {
        let n_noise = self.n_noise;
        vec![
            ("words of the title", self.title.split_whitespace().count()),
            ("lines of prose", self.prose.len()),
            ("lines of code", self.code.len()),
            ("frames", self.frames.len()),
            ("messages", self.messages.len()),
            ("paths", self.positions.len()),
            ("names", self.names.len()),
            ("lines of noise", n_noise),
        ]
    }

    /// The title and the sentences: the input of a language model.
    pub fn sentences(&self) -> String {
        let mut text = self.title.to_owned();
        for line in &self.prose {
            text.push('\n');
            text.push_str(line);
        }
        text
    }
}

/// A trace that is being read.
#[derive(Default)]
struct Trace<'a> {
    frames: Vec<Frame<'a>>,
    order: Option<Order>,
    /// Lines of source, with the number of their frame.
    source: Vec<(&'a str, usize)>,
    /// Lines since the last frame.
    n_after: usize,
    /// Indentation of the last frame.
    indentation: usize,
}

#[derive(Default)]
struct Splitter<'a> {
    text: &'a str,
    issue: Issue<'a>,
    trace: Trace<'a>,
    /// Opening fence of the code block that is being read.
    fence: Option<&'static str>,
    in_comment: bool,
    in_noise: bool,
    is_after_blank: bool,
    was_code: bool,
}

impl<'a> Splitter<'a> {
    fn split(mut self, text: &'a str) -> Issue<'a> {
        let mut before = "";
        self.is_after_blank = true;
        for line in text.lines() {
            let line = quoted(line);
            self.line(line, before);
            self.is_after_blank = line.trim().is_empty();
            if !self.is_after_blank {
                before = line;
            }
        }
        self.end_trace();
        self.issue.find_names();
        self.issue
    }

    fn line(&mut self, line: &'a str, before: &'a str) {
        let text = line.trim();
        if self.in_comment || text.starts_with("<!--") {
            self.in_comment = !text.contains("-->");
            self.issue.n_noise += 1;
            return;
        }
        if let Some(fence) = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence)) {
            // A block that ends on its own line does not count.
            if text.len() < 6 || !text[3..].contains(fence) {
                self.fence = if self.fence.is_some() { None } else { Some(fence) };
            }
            return;
        }
        if text.is_empty() {
            return;
        }
        if let Some((frame, order)) = frame(line, before) {
            return self.frame(line, frame, order);
        }
        if !self.trace.frames.is_empty() && self.is_of_trace(line, text) {
            return;
        }
        let in_code = self.fence.is_some() || self.is_indented(line);
        let kind = LineKind::classify(text, in_code, self.in_noise);
        match kind {
            LineKind::Heading { is_noise } => self.in_noise = is_noise,
            LineKind::Template { is_heading: true } => self.in_noise = false,
            _ => {}
        }
        self.was_code = matches!(kind, LineKind::Code(_));
        self.keep(text, kind);
    }

    fn keep(&mut self, text: &'a str, kind: LineKind<'a>) {
        let issue = &mut self.issue;
        match kind {
            LineKind::Noise | LineKind::Heading { is_noise: true } => issue.n_noise += 1,
            LineKind::Template { .. } => issue.n_noise += 1,
            LineKind::Heading { is_noise: false } | LineKind::Prose => {
                issue.find_positions(text);
                issue.messages.extend(line::quoted_messages(text));
                let is_first = issue.title.is_empty() && issue.prose.is_empty() && issue.code.is_empty();
                let title = match is_first {
                    true => Some(line::title(text)),
                    false => self.title_with(text),
                };
                let Some(title) = title else {
                    return self.issue.prose.push(text.trim_start_matches(['#', ' ', '*', '-']));
                };
                let (title, rest) = line::first_sentence(title);
                self.issue.title = title;
                self.issue.prose.extend((!rest.is_empty()).then_some(rest));
            }
            LineKind::Code(code) => {
                issue.find_positions(code);
                issue.code.push(code);
            }
            LineKind::Message(message) => {
                issue.find_positions(text);
                if issue.title.is_empty() && issue.prose.is_empty() {
                    issue.title = message;
                }
                issue.messages.push(message);
            }
        }
    }

    /// The title with the next line, on which its sentence continues: text with line breaks within paragraphs.
    fn title_with(&self, line: &str) -> Option<&'a str> {
        let title = self.issue.title;
        let may_go_on = (1..MAX_TITLE).contains(&title.len()) && !title.ends_with(['.', ':', '!', '?']);
        if !may_go_on || !line.starts_with(char::is_lowercase) {
            return None;
        }
        let at = |part: &str| part.as_ptr() as usize - self.text.as_ptr() as usize;
        let between = self.text.get(at(title) + title.len()..at(line))?;
        let is_next = between.trim().is_empty() && between.matches('\n').count() == 1;
        is_next.then(|| &self.text[at(title)..at(line) + line.len()])
    }

    /// Code by its indentation: in Markdown, after a blank line or other such code.
    fn is_indented(&self, line: &str) -> bool {
        let is_deep = line.starts_with("    ") || line.starts_with('\t');
        is_deep && (self.is_after_blank || self.was_code)
    }

    fn frame(&mut self, line: &'a str, frame: Frame<'a>, order: Order) {
        if self.trace.order.is_some_and(|known| known != order) {
            self.end_trace();
        }
        // Go and Rust have the function on the line before, which was mistaken for something else.
        self.trace.order = Some(order);
        self.trace.n_after = 0;
        self.trace.indentation = indentation(line);
        if self.trace.frames.len() + self.issue.frames.len() < MAX_FOUND {
            self.trace.frames.push(frame);
        }
    }

    /// Returns true if a line belongs to the trace that is being read; otherwise that trace has ended.
    fn is_of_trace(&mut self, line: &'a str, text: &'a str) -> bool {
        self.trace.n_after += 1;
        let is_python = self.trace.order == Some(Order::OutermostFirst);
        let number = self.trace.frames.len() - 1;
        if line::is_between_frames(text) {
            return true;
        }
        if is_python && self.trace.n_after <= MAX_BETWEEN {
            let is_source = indentation(line) > self.trace.indentation;
            if let Some(source) = line::numbered_source(text) {
                // IPython shows lines around the one that failed, which has an arrow.
                if let Some(line) = source.failed {
                    self.trace.source.push((source.text, number));
                    self.trace.frames[number]
                        .position
                        .iter_mut()
                        .for_each(|position| position.line = position.line.or(Some(line)));
                }
                return true;
            }
            if is_source && !text.starts_with(['^', '~']) {
                self.trace.source.push((text, number));
                return true;
            }
            if is_source {
                return true;
            }
            if let Some(message) = line::raised(text) {
                self.end_trace();
                self.issue.messages.push(message);
                return true;
            }
            if self.fence.is_some() && self.trace.n_after <= 2 {
                return true;
            }
        }
        // The function of the next frame, in traces with two lines for each.
        if !is_python && self.trace.n_after == 1 && (line::is_function_line(text)) {
            return true;
        }
        self.end_trace();
        false
    }

    fn end_trace(&mut self) {
        let Trace { frames, order, source, .. } = std::mem::take(&mut self.trace);
        let n_frames = frames.len();
        let depth = |number: usize| match order {
            Some(Order::OutermostFirst) => n_frames - 1 - number,
            _ => number,
        };
        self.issue
            .frames
            .extend(frames.into_iter().enumerate().map(|(number, frame)| (frame, depth(number))));
        self.issue.traced.extend(source.into_iter().map(|(line, number)| (line, depth(number))));
    }
}

impl<'a> Issue<'a> {
    fn find_positions(&mut self, text: &'a str) {
        let room = MAX_FOUND.saturating_sub(self.positions.len());
        self.positions.extend(Position::all(text).take(room));
    }

    /// Collects the names of all parts.
    fn find_names(&mut self) {
        let mut numbers: HashMap<(&str, Origin), usize> = HashMap::new();
        let mut found: Vec<(Name, usize)> = Vec::new();
        let lines = [(self.title, Origin::Title)]
            .into_iter()
            .chain(self.prose.iter().map(|line| (*line, Origin::Prose)))
            .chain(self.traced.iter().map(|(line, _)| (*line, Origin::Trace)))
            .chain(self.messages.iter().map(|line| (*line, Origin::Message)))
            .chain(self.code.iter().map(|line| (*line, Origin::Code)));
        for name in lines.flat_map(|(line, origin)| names(line, origin)) {
            // Plain words are names in titles and in source.
            let is_kept = name.is_symbol || matches!(name.origin, Origin::Title | Origin::Trace);
            if !is_kept || name.text.len() < 2 || found.len() >= MAX_FOUND {
                continue;
            }
            let number = *numbers.entry((name.text, name.origin)).or_insert(found.len());
            match found.get_mut(number) {
                Some((known, n)) => {
                    *n += 1;
                    known.is_marked |= name.is_marked;
                    known.is_called |= name.is_called;
                    known.is_symbol |= name.is_symbol;
                }
                None => found.push((name, 1)),
            }
        }
        self.names = found;
    }
}

/// A line without the marks of a quoted mail.
fn quoted(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("> ") else { return line };
    // Excludes Python's prompt.
    if rest.starts_with('>') { line } else { rest }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests;
