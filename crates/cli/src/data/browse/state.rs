//! The state of the browser: events in, what is shown out. It draws nothing and reads nothing.

use std::collections::BTreeSet;
use std::ops::Range;

use quarry_factory::BuiltPair;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tui_input::Input;

use super::filter::Filter;
use crate::screen;

/// What is browsed.
#[derive(Debug)]
pub struct Browser {
    pub pairs: Vec<BuiltPair>,
    /// Pairs that there are, of which `pairs` are the first.
    pub n_pairs: usize,
    pub languages: Vec<String>,
    pub parts: Vec<String>,
}

impl Browser {
    pub fn new(pairs: Vec<BuiltPair>, n_pairs: usize) -> Self {
        let distinct = |values: BTreeSet<&str>| -> Vec<String> {
            values.into_iter().filter(|value| !value.is_empty()).map(str::to_owned).collect()
        };
        let languages = distinct(pairs.iter().map(|pair| pair.language.as_str()).collect());
        let parts = distinct(pairs.iter().filter_map(|pair| pair.part.as_deref()).collect());
        Self { pairs, n_pairs, languages, parts }
    }
}

/// What the browser shows.
#[derive(Debug)]
pub struct State {
    /// The words that are typed.
    pub input: Input,
    pub filter: Filter,
    /// Positions of the pairs that the filter keeps.
    pub shown: Vec<usize>,
    /// The selected one of them.
    pub selected: usize,
    /// The first one of them on the screen.
    pub top: usize,
    /// Lines that fit on the screen, as it was drawn last.
    pub height: usize,
    /// Lines that the code was moved by.
    pub scroll: isize,
}

/// What follows from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// On with the next event.
    Continue,
    /// The user wants no more.
    Leave,
}

impl State {
    pub fn new(browser: &Browser, filter: Filter, search: &str) -> Self {
        let mut state = Self {
            input: Input::new(search.to_owned()),
            filter,
            shown: Vec::new(),
            selected: 0,
            top: 0,
            height: 1,
            scroll: 0,
        };
        state.apply(browser);
        state
    }

    /// The selected pair.
    pub fn selected<'b>(&self, browser: &'b Browser) -> Option<&'b BuiltPair> {
        browser.pairs.get(*self.shown.get(self.selected)?)
    }

    /// Looks for what is typed, if that has changed.
    pub fn search(&mut self, browser: &Browser) {
        let words = Filter::words_of(self.input.value());
        if words != self.filter.words {
            self.filter.words = words;
            self.apply(browser);
        }
    }

    fn apply(&mut self, browser: &Browser) {
        let kept = browser.pairs.iter().enumerate().filter(|(_, pair)| self.filter.keeps(pair));
        self.shown = kept.map(|(position, _)| position).collect();
        (self.selected, self.top, self.scroll) = (0, 0, 0);
    }

    /// What an event does.
    pub fn update(&mut self, browser: &Browser, event: &Event) -> Step {
        match event {
            // Terminals that tell of keys that are let go tell of them as pressed before.
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.key(browser, *key),
            Event::Paste(text) => screen::paste(&mut self.input, text),
            _ => {}
        }
        Step::Continue
    }

    fn key(&mut self, browser: &Browser, key: KeyEvent) -> Step {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let page = self.height.max(1) as isize;
        match key.code {
            KeyCode::Esc => return Step::Leave,
            KeyCode::Char('c' | 'g') if control => return Step::Leave,
            KeyCode::Up if shift => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down if shift => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up => self.select(-1),
            KeyCode::Down | KeyCode::Tab => self.select(1),
            KeyCode::BackTab => self.select(-1),
            KeyCode::Char('p') if control => self.select(-1),
            KeyCode::Char('n') if control => self.select(1),
            KeyCode::PageUp => self.select(-page),
            KeyCode::PageDown => self.select(page),
            KeyCode::Home if control => self.select(isize::MIN),
            KeyCode::End if control => self.select(isize::MAX),
            KeyCode::F(2) => {
                self.filter.label = self.filter.label.next();
                self.apply(browser);
            }
            KeyCode::F(3) => {
                self.filter.language = next(self.filter.language.as_deref(), &browser.languages);
                self.apply(browser);
            }
            KeyCode::F(4) => {
                self.filter.part = next(self.filter.part.as_deref(), &browser.parts);
                self.apply(browser);
            }
            _ => {
                if let Some(edit) = screen::edit(key) {
                    self.input.handle(edit);
                }
            }
        }
        Step::Continue
    }

    /// Moves the selection, as far as there are pairs.
    fn select(&mut self, by: isize) {
        if let Some(last) = self.shown.len().checked_sub(1) {
            let selected = self.selected.saturating_add_signed(by).min(last);
            if selected != self.selected {
                (self.selected, self.scroll) = (selected, 0);
            }
        }
    }

    /// The pairs that are on a screen of this height: the selected one is among them.
    pub fn window(&mut self, height: usize) -> Range<usize> {
        if height == 0 {
            return 0..0;
        }
        self.height = height;
        let last_top = self.shown.len().saturating_sub(height);
        let least = (self.selected + 1).saturating_sub(height);
        self.top = self.top.clamp(least, self.selected.max(least)).min(last_top.max(least));
        self.top..(self.top + height).min(self.shown.len())
    }
}

/// The value after one; none after the last, and the first after none.
fn next(value: Option<&str>, values: &[String]) -> Option<String> {
    let position = value.and_then(|value| values.iter().position(|known| known.eq_ignore_ascii_case(value)));
    match (value, position) {
        (None, _) => values.first().cloned(),
        (Some(_), Some(position)) => values.get(position + 1).cloned(),
        (Some(_), None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{browser, pair};
    use super::*;

    fn press(state: &mut State, browser: &Browser, code: KeyCode, modifiers: KeyModifiers) -> Step {
        let step = state.update(browser, &Event::Key(KeyEvent::new(code, modifiers)));
        state.search(browser);
        step
    }

    #[test]
    fn typing_searches_and_function_keys_filter() {
        let browser = browser();
        let mut state = State::new(&browser, Filter::default(), "");
        assert_eq!(state.shown, [0, 1, 2, 3]);
        let mut after = |code| {
            assert_eq!(press(&mut state, &browser, code, KeyModifiers::NONE), Step::Continue);
            state.shown.clone()
        };
        assert_eq!(after(KeyCode::F(2)), [0, 2]);
        assert_eq!(after(KeyCode::F(2)), [1]);
        assert_eq!(after(KeyCode::F(2)), [3]);
        assert_eq!(after(KeyCode::F(2)), [0, 1, 2, 3]);
        assert_eq!(after(KeyCode::F(3)), [1, 3], "languages come in the order of their names");
        assert_eq!(after(KeyCode::F(3)), [0, 2]);
        assert_eq!(after(KeyCode::F(3)), [0, 1, 2, 3]);
        assert_eq!(after(KeyCode::F(4)), [1, 3]);
        after(KeyCode::F(4));
        assert_eq!(after(KeyCode::F(4)), [0, 1, 2, 3]);
        for c in "OPEN".chars() {
            after(KeyCode::Char(c));
        }
        assert_eq!(after(KeyCode::Null), [0, 1, 3]);
        assert_eq!(after(KeyCode::Backspace), [0, 1, 3]);
    }

    #[test]
    fn the_selection_stays_among_the_pairs_and_on_the_screen() {
        let pairs: Vec<BuiltPair> =
            (0..100).map(|number| pair(&format!("q{number}"), "code", "go", Some(1))).collect();
        let browser = Browser::new(pairs, 100);
        let mut state = State::new(&browser, Filter::default(), "");
        assert_eq!(state.window(10), 0..10);
        press(&mut state, &browser, KeyCode::Up, KeyModifiers::NONE);
        assert_eq!(state.selected, 0);
        press(&mut state, &browser, KeyCode::PageDown, KeyModifiers::NONE);
        assert_eq!((state.selected, state.window(10)), (10, 1..11));
        press(&mut state, &browser, KeyCode::End, KeyModifiers::CONTROL);
        assert_eq!((state.selected, state.window(10)), (99, 90..100));
        press(&mut state, &browser, KeyCode::Up, KeyModifiers::NONE);
        assert_eq!((state.selected, state.window(10)), (98, 90..100));
        press(&mut state, &browser, KeyCode::Down, KeyModifiers::SHIFT);
        assert_eq!(state.scroll, 1);
        press(&mut state, &browser, KeyCode::Home, KeyModifiers::CONTROL);
        assert_eq!((state.selected, state.scroll, state.window(10)), (0, 0, 0..10));
        assert_eq!(state.window(0), 0..0);
        assert_eq!(state.window(200), 0..100);
        state.update(&browser, &Event::Paste("no\nsuch".to_owned()));
        state.search(&browser);
        assert!(state.selected(&browser).is_none() && state.window(10).is_empty());
        press(&mut state, &browser, KeyCode::Down, KeyModifiers::NONE);
        assert_eq!(state.input.value(), "no such");
    }

    #[test]
    fn there_are_ways_out() {
        let browser = browser();
        let mut state = State::new(&browser, Filter::default(), "");
        assert_eq!(press(&mut state, &browser, KeyCode::Esc, KeyModifiers::NONE), Step::Leave);
        assert_eq!(press(&mut state, &browser, KeyCode::Char('c'), KeyModifiers::CONTROL), Step::Leave);
        let released = KeyEvent::new_with_kind(KeyCode::Esc, KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(state.update(&browser, &Event::Key(released)), Step::Continue);
    }
}
