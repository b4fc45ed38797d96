//! View of the picker: a state drawn into a frame.

use std::iter;
use std::ops::Range;

use quarry_session::kind_name;
use quarry_text::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, List, ListItem, Paragraph};

use super::state::{Choice, Preview, PreviewLine, State};
use crate::output::printable;
use crate::screen;

const POSITION: Style = Style::new().fg(Color::Cyan);
pub const NAME: Style = Style::new().add_modifier(Modifier::BOLD);
const MATCH: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
pub const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

const KEYS: &str =
    "type what the code does; ↑ ↓ select, Shift-↑ ↓ scroll, Enter prints the position, Esc quits";

/// Columns from which on the preview stands beside the list, else below it.
const WIDE: u16 = 100;

/// Lines below which there is no room for a preview.
const HIGH: u16 = 12;

/// Lines above the most relevant ones that the preview begins with.
const LINES_ABOVE: usize = 2;

pub fn draw(frame: &mut Frame, state: &mut State) {
    let [input, status, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)])
            .areas(frame.area());
    screen::draw_input(frame, input, &state.input);
    frame.render_widget(Paragraph::new(Line::styled(status_line(state), FAINT)), status);
    let [list, preview] = halves(rest);
    draw_list(frame, list, state);
    draw_preview(frame, preview, state);
}

/// Areas of a list and a preview: beside each other, or below, or the list alone.
pub fn halves(area: Rect) -> [Rect; 2] {
    let layout = if area.width >= WIDE {
        Layout::horizontal([Constraint::Percentage(40), Constraint::Percentage(60)])
    } else if area.height >= HIGH {
        Layout::vertical([Constraint::Percentage(40), Constraint::Percentage(60)])
    } else {
        Layout::vertical([Constraint::Percentage(100), Constraint::Percentage(0)])
    };
    layout.areas(area)
}

fn status_line(state: &State) -> String {
    let found = &state.found;
    match found.choices.len() {
        _ if state.query().is_empty() => KEYS.to_owned(),
        0 => "nothing found; try other words".to_owned(),
        n if found.confident => format!("{} in {:.1} ms", counted(n, "result"), found.took_ms),
        n => format!("{} in {:.1} ms; none clearly answers this", counted(n, "result"), found.took_ms),
    }
}

fn draw_list(frame: &mut Frame, area: Rect, state: &mut State) {
    let items = state.found.choices.iter().map(|choice| ListItem::new(entry(choice)));
    let list = List::new(items).highlight_style(SELECTED);
    frame.render_stateful_widget(list, area, &mut state.list);
}

/// Two lines: what, and where.
fn entry(Choice { hit, position }: &Choice) -> Vec<Line<'_>> {
    let kind = kind_name(hit.kind);
    let what = if hit.name.is_empty() {
        Line::styled(kind, FAINT)
    } else {
        Line::from(vec![Span::styled(printable(&hit.name), NAME), Span::styled(format!(" {kind}"), FAINT)])
    };
    vec![what, Line::styled(format!("  {}", printable(position)), POSITION)]
}

fn draw_preview(frame: &mut Frame, area: Rect, state: &State) {
    if let (Some(choice), Some(preview)) = (state.selected(), &state.preview) {
        draw_source(frame, area, &choice.position, preview, state.scroll);
    }
}

/// Draws the lines of a source under a title, moved by `scroll`.
pub fn draw_source(frame: &mut Frame, area: Rect, title: &str, preview: &Preview, scroll: isize) {
    let borders = if area.x > 0 { Borders::LEFT } else { Borders::TOP };
    let title = Span::styled(format!(" {} ", printable(title)), POSITION);
    let block = Block::new().borders(borders).border_style(FAINT).title(title);
    let inner = block.inner(area);
    let first = first_shown(preview, scroll, inner.height.into());
    let lines = (0..).zip(&preview.lines).skip(first).take(inner.height.into());
    let lines: Vec<Line> = lines.map(|(index, line)| source_line(preview, index, line)).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// The first line to show in `height` lines: the most relevant ones are among them unless they are scrolled away, and
/// no line stays empty while there are others above.
fn first_shown(preview: &Preview, scroll: isize, height: usize) -> usize {
    let last = preview.lines.len().saturating_sub(height);
    let start = if preview.focus.end <= height { 0 } else { preview.focus.start.saturating_sub(LINES_ABOVE) };
    start.min(last).saturating_add_signed(scroll).min(last)
}

fn source_line<'a>(preview: &Preview, index: usize, line: &'a PreviewLine) -> Line<'a> {
    let is_relevant = preview.focus.contains(&index);
    let mark = if is_relevant { "▌" } else { " " };
    let gutter = format!("{mark}{:>5} ", line.number);
    let gutter = Span::styled(gutter, if is_relevant { MATCH } else { FAINT });
    Line::from(iter::once(gutter).chain(pieces(line)).collect::<Vec<_>>())
}

/// The text in turn without and with a match.
fn pieces(line: &PreviewLine) -> impl Iterator<Item = Span<'_>> {
    let mut done = 0;
    let mut cuts: Vec<(Range<usize>, Style)> = Vec::new();
    for range in &line.matches {
        cuts.extend([(done..range.start, Style::new()), (range.clone(), MATCH)]);
        done = range.end;
    }
    cuts.push((done..line.text.len(), Style::new()));
    // A tab would be dropped.
    let clean = |text: &str| printable(text).replace('\t', "    ");
    cuts.into_iter().map(move |(range, style)| Span::styled(clean(&line.text[range]), style))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::tests::{found, preview};
    use super::*;

    /// Lines of the terminal, without spaces at the end.
    fn drawn(state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn state() -> State {
        let mut state = State::new("open socket");
        state.show(found("open socket", 3));
        state.preview(preview(0, 30, 20..22));
        state
    }

    #[test]
    fn a_wide_terminal_has_the_preview_beside_the_list() {
        let lines = drawn(&mut state(), 100, 12);
        assert_eq!(lines[0], "> open socket");
        assert_eq!(lines[1], "3 results in 0.5 ms");
        assert!(lines[2].starts_with("unit0 function") && lines[2].contains("│ src/a.rs:10"), "{lines:#?}");
        assert!(lines[3].starts_with("  src/a.rs:10"), "{lines:#?}");
        assert!(lines[4].starts_with("unit1 function"), "{lines:#?}");
        // From two lines above the relevant ones on.
        assert!(lines[3].ends_with("│    28 line 18"), "{lines:#?}");
        assert!(lines[5].ends_with("│▌   30 line 20"), "{lines:#?}");
    }

    #[test]
    fn a_narrow_one_has_it_below_and_a_low_one_has_none() {
        let lines = drawn(&mut state(), 60, 24);
        let border = lines.iter().position(|line| line.contains("─")).unwrap();
        assert!(border > 6 && lines[border].contains("src/a.rs:10"), "{lines:#?}");
        assert!(lines[border + 1..].iter().any(|line| line.contains("▌   30 line 20")), "{lines:#?}");
        let low = drawn(&mut state(), 60, 9);
        assert!(low.iter().all(|line| !line.contains("line 2")), "{low:#?}");
        for (width, height) in [(1, 1), (2, 3), (10, 2), (200, 1)] {
            drawn(&mut state(), width, height);
        }
    }

    #[test]
    fn the_preview_keeps_to_its_lines() {
        let preview = preview(0, 30, 20..22);
        assert_eq!(first_shown(&preview, 0, 10), 18);
        assert_eq!(first_shown(&preview, 99, 10), 20);
        assert_eq!(first_shown(&preview, -99, 10), 0);
        assert_eq!(first_shown(&preview, 0, 22), 0, "all relevant lines are there from the start");
        assert_eq!(first_shown(&preview, 5, 40), 0);
    }

    #[test]
    fn matches_are_marked_and_control_characters_are_escaped() {
        let line =
            PreviewLine { number: 1, text: "\topen(\u{1b}[31m)".to_owned(), matches: vec![1..5, 8..10] };
        let found: Vec<(String, bool)> =
            pieces(&line).map(|span| (span.content.into_owned(), span.style == MATCH)).collect();
        let expected = [("    ", false), ("open", true), (r"(\u{1b}[", false), ("31", true), ("m)", false)];
        assert_eq!(found, expected.map(|(text, is_match)| (text.to_owned(), is_match)));
    }

    #[test]
    fn names_of_files_and_units_do_not_speak_to_the_terminal() {
        let mut found = found("x", 1);
        found.choices[0].hit.name = "\u{202e}f\u{9b}31m".to_owned();
        found.choices[0].position = "a\x1b[2J\nb.rs:1".to_owned();
        let mut state = State::new("x");
        state.show(found);
        state.preview(preview(0, 1, 0..1));
        let lines = drawn(&mut state, 100, 12);
        assert!(lines[2].starts_with(r"\u{202e}f\u{9b}31m function"), "{lines:#?}");
        assert!(lines[3].starts_with(r"  a\u{1b}[2J\nb.rs:1"), "{lines:#?}");
        assert!(lines[2].contains(r"│ a\u{1b}[2J\nb.rs:1"), "{lines:#?}");
    }

    #[test]
    fn without_results_a_hint_is_shown() {
        let mut empty = State::new("");
        assert!(drawn(&mut empty, 100, 5)[1].starts_with("type what the code does"));
        let mut nothing = State::new("zebra");
        nothing.show(found("zebra", 0));
        assert_eq!(drawn(&mut nothing, 100, 5)[1], "nothing found; try other words");
    }
}
