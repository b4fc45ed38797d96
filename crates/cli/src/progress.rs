//! The progress bar of commands that work through many items.

use indicatif::{ProgressBar, ProgressStyle};

/// Draws nothing if stderr is not a terminal.
pub fn progress_bar(name: &'static str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>9} {bar:40} {human_pos}/{human_len} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style).with_message(name)
}
