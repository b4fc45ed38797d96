//! The progress bar of commands that work through many items.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// With the remaining time. Draws nothing if stderr is not a terminal or is to stay quiet.
pub fn progress_bar(name: &'static str, length: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:>9} {bar:40} {human_pos}/{human_len} {elapsed}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = if output::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(length as u64) };
    bar.with_style(style).with_message(name)
}
