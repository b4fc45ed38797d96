//! How the browser looks: a state drawn into a frame, and a pair as text.

use std::ops::Range;

use quarry_factory::BuiltPair;
use quarry_text::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::filter::LabelFilter;
use super::state::{Browser, State};
use crate::output::{harmless, printable};
use crate::pick::state::{Preview, PreviewLine};
use crate::pick::view::{FAINT, NAME, SELECTED, draw_source, halves};
use crate::screen::draw_input;
use crate::terminal;

const ANSWERS: Style = Style::new().fg(Color::Green);
const DOES_NOT: Style = Style::new().fg(Color::Red);

const KEYS: &str = "type to search; ↑ ↓ PageUp PageDown select, Shift-↑ ↓ scroll, Esc quits";

/// Maximum number of lines for the query of the selected pair.
const QUERY_LINES: u16 = 3;

/// Draws all of it.
pub fn draw(frame: &mut Frame, browser: &Browser, state: &mut State) {
    let one = Constraint::Length(1);
    let [input, filters, status, rest] =
        Layout::vertical([one, one, one, Constraint::Min(0)]).areas(frame.area());
    draw_input(frame, input, &state.input);
    frame.render_widget(Paragraph::new(Line::styled(filters_line(state), FAINT)), filters);
    frame.render_widget(Paragraph::new(Line::styled(status_line(browser, state), FAINT)), status);
    let [list, preview] = halves(rest);
    let window = state.window(list.height.into());
    let lines: Vec<Line> = (window.start..)
        .zip(&state.shown[window])
        .map(|(number, position)| {
            let line = entry(&browser.pairs[*position]);
            if number == state.selected { line.patch_style(SELECTED) } else { line }
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), list);
    if let Some(pair) = state.selected(browser) {
        draw_pair(frame, preview, pair, state);
    }
}

fn filters_line(state: &State) -> String {
    let any = |value: &Option<String>| printable(value.as_deref().unwrap_or("any")).into_owned();
    let (label, language, part) =
        (state.filter.label.name(), any(&state.filter.language), any(&state.filter.part));
    format!("F2 label: {label}   F3 language: {language}   F4 part: {part}")
}

fn status_line(browser: &Browser, state: &State) -> String {
    let Browser { pairs, n_pairs, .. } = browser;
    let of = match pairs.len() < *n_pairs {
        true => format!("the first {} of {}", pairs.len(), counted(*n_pairs, "pair")),
        false => counted(*n_pairs, "pair"),
    };
    match state.shown.len() {
        0 => format!("none of {of} matches; try other words or filters"),
        n if state.filter.words.is_empty() && state.filter.label == LabelFilter::Any && n == pairs.len() => {
            format!("{of}; {KEYS}")
        }
        n => format!("{} of {n}, of {of}", state.selected + 1),
    }
}

/// What a label says, in one column, and its color.
fn mark(label: Option<i32>) -> (&'static str, Style) {
    match label {
        Some(label) if label > 0 => ("+", ANSWERS),
        Some(_) => ("-", DOES_NOT),
        None => ("?", FAINT),
    }
}

fn entry(pair: &BuiltPair) -> Line<'_> {
    let (sign, style) = mark(pair.label);
    // White space of several lines would be escaped.
    let query = pair.query.split_whitespace().collect::<Vec<_>>().join(" ");
    Line::from(vec![Span::styled(format!("{sign} "), style), Span::raw(printable(&query).into_owned())])
}

fn draw_pair(frame: &mut Frame, area: Rect, pair: &BuiltPair, state: &State) {
    let [query, code] =
        Layout::vertical([Constraint::Length(QUERY_LINES.min(area.height)), Constraint::Min(0)]).areas(area);
    let (_, style) = mark(pair.label);
    let asked = pair.query.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = vec![
        Line::styled(printable(&about(pair)).into_owned(), style),
        Line::styled(printable(&asked).into_owned(), NAME),
    ];
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), query);
    let line = |(number, text): (u32, &str)| PreviewLine {
        number,
        text: text.to_owned(),
        matches: matches(text, &state.filter.words),
    };
    let lines = (1..).zip(pair.code.lines()).map(line).collect();
    let preview = Preview { unit: 0, lines, focus: 0..0 };
    draw_source(frame, code, &pair.language, &preview, state.scroll);
}

/// What is known of a pair, on one line.
fn about(pair: &BuiltPair) -> String {
    let label = match pair.label {
        Some(1) => "answers".to_owned(),
        Some(0) => "does not answer".to_owned(),
        Some(grade) => format!("grade {grade}"),
        None => "no label".to_owned(),
    };
    let more = [("by", &pair.evidence), ("in", &pair.part)];
    let more: String =
        more.iter().filter_map(|(word, value)| Some(format!(" {word} {}", value.as_ref()?))).collect();
    format!("{label}{more}")
}

/// Where a line holds words of ASCII letters in any case, ascending and apart.
fn matches(text: &str, words: &[String]) -> Vec<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let found = words.iter().flat_map(|word| lower.match_indices(word.as_str()));
    let mut found: Vec<Range<usize>> = found.map(|(start, word)| start..start + word.len()).collect();
    found.sort_by_key(|range| (range.start, range.end));
    terminal::apart(&found)
}

/// A pair as text for people.
pub fn text(pair: &BuiltPair) -> String {
    let query = pair.query.split_whitespace().collect::<Vec<_>>().join(" ");
    let language = if pair.language.is_empty() { "code" } else { &pair.language };
    let code: String = harmless(&pair.code).lines().map(|line| format!("    {line}\n")).collect();
    format!("{}\n{}, {}:\n{code}", printable(&query), printable(language), printable(&about(pair)))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::filter::Filter;
    use super::super::tests::{browser, pair};
    use super::*;

    /// What the terminal shows, a line each, without spaces at the end.
    fn drawn(browser: &Browser, state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, browser, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[test]
    fn pairs_are_listed_with_their_labels_beside_the_selected_code() {
        let browser = browser();
        let mut state = State::new(&browser, Filter::default(), "");
        let lines = drawn(&browser, &mut state, 120, 12);
        assert_eq!(lines[1], "F2 label: any   F3 language: any   F4 part: any");
        assert!(lines[2].starts_with("4 pairs; type to search"), "{lines:#?}");
        assert!(
            lines[3].starts_with("+ open a file") && lines[3].contains("answers by judge x in train"),
            "{lines:#?}"
        );
        assert!(lines[4].starts_with("- open a file") && lines[4].contains("open a file"), "{lines:#?}");
        assert!(lines[6].starts_with("? sum of a list"), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.ends_with("    1 def open_file(path):")),
            "the code has its lines: {lines:#?}"
        );
        let filter = Filter { words: Filter::words_of("close"), ..Filter::default() };
        let mut state = State::new(&browser, filter, "close");
        let lines = drawn(&browser, &mut state, 80, 24);
        assert!(lines[0] == "> close" && lines[2] == "1 of 1, of 4 pairs", "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("func Close(file *File) {}")), "{lines:#?}");
    }

    #[test]
    fn screens_of_any_size_and_hostile_texts_are_drawn() {
        let hostile = pair("a\x1b[2J\nb \u{202e}c", "x\x1b[31m\n\tz", "p\x07y", None);
        let browser = Browser::new(vec![hostile], 9);
        for (width, height) in [(1, 1), (2, 3), (10, 4), (200, 2), (120, 20), (40, 16)] {
            let mut state = State::new(&browser, Filter::default(), "");
            let lines = drawn(&browser, &mut state, width, height);
            assert!(!lines.concat().contains(['\x1b', '\u{202e}', '\x07']), "{lines:#?}");
            if width == 120 {
                assert!(lines[2].starts_with("the first 1 of 9 pairs"), "{lines:#?}");
            }
        }
        let nothing = Filter { words: Filter::words_of("nothing"), ..Filter::default() };
        let mut state = State::new(&browser, nothing, "nothing");
        assert!(drawn(&browser, &mut state, 80, 9)[2].starts_with("none of the first 1 of 9 pairs matches"));
        let said = text(&browser.pairs[0]);
        assert_eq!(
            said,
            "a\\u{1b}[2J b \\u{202e}c\np\\u{7}y, no label in test:\n    x\\u{1b}[31m\n    \tz\n"
        );
    }

    #[test]
    fn words_are_found_in_lines_in_any_case() {
        let words = Filter::words_of("open file");
        assert_eq!(matches("Öpen OPEN_FILE(openfile)", &words), [6..10, 11..15, 16..20, 20..24]);
        assert!(matches("none", &words).is_empty());
    }
}
