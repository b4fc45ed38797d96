//! The state of the picker: events in, the next step out. It draws nothing and reads nothing.

use std::ops::Range;

use quarry_index::Hit;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::ListState;
use tui_input::Input;

use crate::screen;

/// Number of results in a page.
const PAGE: usize = 10;

#[derive(Debug, Default)]
pub struct State {
    pub input: Input,
    /// Results of the last search, best first.
    pub found: PickResults,
    /// Selection, and the shown part of the list.
    pub list: ListState,
    pub preview: Option<Preview>,
    /// Number of lines that the preview is scrolled by.
    pub scroll: isize,
}

#[derive(Debug, Default)]
pub struct PickResults {
    pub query: String,
    pub choices: Vec<Choice>,
    /// True if the best one is good enough.
    pub confident: bool,
    /// The terms by which lines are chosen.
    pub terms: Vec<String>,
    pub took_ms: f64,
}

#[derive(Debug, Clone)]
pub struct Choice {
    pub hit: Hit,
    /// Path of its file from the current directory, and its line.
    pub position: String,
}

/// The source of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// Number of the unit in the index.
    pub unit: usize,
    pub lines: Vec<PreviewLine>,
    /// The most relevant of `lines`.
    pub focus: Range<usize>,
}

/// A line, and the byte ranges of it that match, ascending and disjoint.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewLine {
    /// Of the file, 1-based.
    pub number: u32,
    pub text: String,
    pub matches: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Continue,
    Pick,
    Cancel,
}

impl State {
    pub fn new(query: &str) -> Self {
        Self { input: Input::new(query.to_owned()), ..Self::default() }
    }

    pub fn query(&self) -> &str {
        self.input.value().trim()
    }

    /// Returns true if the results are of another query than the typed one.
    pub fn is_outdated(&self) -> bool {
        self.query() != self.found.query
    }

    /// Takes the results of a search; the first one is selected.
    pub fn show(&mut self, found: PickResults) {
        self.list = ListState::default().with_selected((!found.choices.is_empty()).then_some(0));
        (self.found, self.preview, self.scroll) = (found, None, 0);
    }

    pub fn selected(&self) -> Option<&Choice> {
        self.found.choices.get(self.list.selected()?)
    }

    /// The selected result, if it has no preview yet.
    pub fn lacks_preview(&self) -> Option<&Hit> {
        let hit = &self.selected()?.hit;
        self.preview.as_ref().is_none_or(|preview| preview.unit != hit.unit).then_some(hit)
    }

    /// Takes the preview of the selected result.
    pub fn preview(&mut self, preview: Preview) {
        (self.preview, self.scroll) = (Some(preview), 0);
    }

    pub fn update(&mut self, event: &Event) -> Step {
        match event {
            // Ignore key releases: the press was already reported.
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.key(*key),
            Event::Paste(text) => screen::paste(&mut self.input, text),
            _ => {}
        }
        Step::Continue
    }

    fn key(&mut self, key: KeyEvent) -> Step {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Esc => return Step::Cancel,
            KeyCode::Char('c' | 'g') if control => return Step::Cancel,
            KeyCode::Enter if self.selected().is_some() => return Step::Pick,
            KeyCode::Up if shift => return self.scroll(-1),
            KeyCode::Down if shift => return self.scroll(1),
            KeyCode::Up => return self.select(-1),
            KeyCode::Down | KeyCode::Tab => return self.select(1),
            KeyCode::BackTab => return self.select(-1),
            KeyCode::Char('p') if control => return self.select(-1),
            KeyCode::Char('n') if control => return self.select(1),
            KeyCode::PageUp => return self.select(-(PAGE as isize)),
            KeyCode::PageDown => return self.select(PAGE as isize),
            _ => {}
        }
        if let Some(edit) = screen::edit(key) {
            self.input.handle(edit);
        }
        Step::Continue
    }

    /// Moves the selection, as far as there are results.
    fn select(&mut self, by: isize) -> Step {
        if let (Some(selected), Some(last)) = (self.list.selected(), self.found.choices.len().checked_sub(1))
        {
            self.list.select(Some(selected.saturating_add_signed(by).min(last)));
        }
        Step::Continue
    }

    fn scroll(&mut self, by: isize) -> Step {
        self.scroll = self.scroll.saturating_add(by);
        Step::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn press(state: &mut State, code: KeyCode, modifiers: KeyModifiers) -> Step {
        state.update(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    fn type_text(state: &mut State, text: &str) {
        for c in text.chars() {
            assert_eq!(press(state, KeyCode::Char(c), KeyModifiers::NONE), Step::Continue);
        }
    }

    #[test]
    fn typed_text_is_the_query() {
        let mut state = State::new("open");
        type_text(&mut state, " sokcet");
        press(&mut state, KeyCode::Char('w'), KeyModifiers::CONTROL);
        type_text(&mut state, "socket");
        assert_eq!(state.query(), "open socket");
        assert!(state.is_outdated());
        press(&mut state, KeyCode::Home, KeyModifiers::NONE);
        press(&mut state, KeyCode::Delete, KeyModifiers::NONE);
        state.update(&Event::Paste("re\no".to_owned()));
        assert_eq!(state.query(), "re open socket");
        press(&mut state, KeyCode::Char('u'), KeyModifiers::CONTROL);
        assert_eq!(state.query(), "pen socket");
    }

    #[test]
    fn the_selection_stays_among_the_results() {
        let mut state = State::new("x");
        assert_eq!(press(&mut state, KeyCode::Enter, KeyModifiers::NONE), Step::Continue, "nothing to pick");
        press(&mut state, KeyCode::Down, KeyModifiers::NONE);
        assert!(state.selected().is_none());

        state.show(found("x", 3));
        assert!(!state.is_outdated());
        let mut unit_after = |code, modifiers| {
            press(&mut state, code, modifiers);
            state.selected().map(|choice| choice.hit.unit)
        };
        assert_eq!(unit_after(KeyCode::Up, KeyModifiers::NONE), Some(0));
        assert_eq!(unit_after(KeyCode::Down, KeyModifiers::NONE), Some(1));
        assert_eq!(unit_after(KeyCode::PageDown, KeyModifiers::NONE), Some(2));
        assert_eq!(unit_after(KeyCode::Char('p'), KeyModifiers::CONTROL), Some(1));
        assert_eq!(press(&mut state, KeyCode::Enter, KeyModifiers::NONE), Step::Pick);
        state.show(found("y", 0));
        assert!(state.selected().is_none());
    }

    #[test]
    fn a_preview_is_wanted_for_each_selected_result_once() {
        let mut state = State::new("x");
        state.show(found("x", 2));
        assert_eq!(state.lacks_preview().map(|hit| hit.unit), Some(0));
        state.preview(Preview { unit: 0, lines: Vec::new(), focus: 0..0 });
        assert!(state.lacks_preview().is_none());
        press(&mut state, KeyCode::Down, KeyModifiers::SHIFT);
        assert_eq!((state.scroll, state.lacks_preview().is_none()), (1, true));
        press(&mut state, KeyCode::Down, KeyModifiers::NONE);
        assert_eq!(state.lacks_preview().map(|hit| hit.unit), Some(1));
    }

    #[test]
    fn there_are_ways_out() {
        let mut state = State::new("x");
        assert_eq!(press(&mut state, KeyCode::Esc, KeyModifiers::NONE), Step::Cancel);
        assert_eq!(press(&mut state, KeyCode::Char('c'), KeyModifiers::CONTROL), Step::Cancel);
        let released = KeyEvent::new_with_kind(KeyCode::Esc, KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(state.update(&Event::Key(released)), Step::Continue);
    }
}
