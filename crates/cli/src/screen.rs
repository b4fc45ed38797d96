//! The terminal as a screen that is drawn on, and a line that is typed there.

use std::io::{self, Stderr};

use anyhow::Context;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyCode, KeyEvent, KeyModifiers,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::Paragraph;
use ratatui::{CompletedFrame, Frame};
use tui_input::{Input, InputRequest};

const PROMPT: &str = "> ";

/// The terminal while it is ours, on stderr; dropping it gives it back as it was.
pub struct Screen(Terminal<CrosstermBackend<Stderr>>);

impl Screen {
    /// Takes the terminal.
    pub fn open() -> anyhow::Result<Self> {
        enable_raw_mode().context("the terminal cannot enter raw mode")?;
        let screen = Self(Terminal::new(CrosstermBackend::new(io::stderr()))?);
        execute!(io::stderr(), EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(screen)
    }

    /// Draws a frame.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<CompletedFrame<'_>> {
        self.0.draw(draw)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = execute!(io::stderr(), DisableBracketedPaste, LeaveAlternateScreen);
        let _ = self.0.show_cursor();
        let _ = disable_raw_mode();
    }
}

/// Edit of a typed line by a key; `None` for keys that change nothing.
pub fn edit(key: KeyEvent) -> Option<InputRequest> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let word = control || key.modifiers.contains(KeyModifiers::ALT);
    Some(match key.code {
        KeyCode::Left if word => InputRequest::GoToPrevWord,
        KeyCode::Right if word => InputRequest::GoToNextWord,
        KeyCode::Left => InputRequest::GoToPrevChar,
        KeyCode::Right => InputRequest::GoToNextChar,
        KeyCode::Home => InputRequest::GoToStart,
        KeyCode::End => InputRequest::GoToEnd,
        KeyCode::Backspace if word => InputRequest::DeletePrevWord,
        KeyCode::Backspace => InputRequest::DeletePrevChar,
        KeyCode::Delete => InputRequest::DeleteNextChar,
        KeyCode::Char(c) if control => match c {
            'a' => InputRequest::GoToStart,
            'e' => InputRequest::GoToEnd,
            'h' => InputRequest::DeletePrevChar,
            'k' => InputRequest::DeleteTillEnd,
            'u' => InputRequest::DeleteFromStart,
            'w' => InputRequest::DeletePrevWord,
            'y' => InputRequest::Yank,
            _ => return None,
        },
        KeyCode::Char(c) => InputRequest::InsertChar(c),
        _ => return None,
    })
}

/// Types a text that was pasted, on one line.
pub fn paste(input: &mut Input, text: &str) {
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        input.handle(InputRequest::InsertChar(c));
    }
}

pub fn draw_input(frame: &mut Frame, area: Rect, input: &Input) {
    let width = area.width.saturating_sub(PROMPT.len() as u16 + 1);
    let scrolled = input.visual_scroll(width.into());
    let [prompt, text] =
        Layout::horizontal([Constraint::Length(PROMPT.len() as u16), Constraint::Min(0)]).areas(area);
    frame.render_widget(Span::styled(PROMPT, Style::new().add_modifier(Modifier::BOLD)), prompt);
    frame.render_widget(Paragraph::new(input.value()).scroll((0, scrolled as u16)), text);
    let column = input.visual_cursor().saturating_sub(scrolled) as u16;
    frame.set_cursor_position(Position::new(text.x + column.min(width), text.y));
}
