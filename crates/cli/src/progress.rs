//! The progress bar of commands that work through many items.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// For work of unknown length: what is done, and for how long. Draws nothing where a bar draws nothing.
#[cfg(feature = "data")]
pub fn spinner(what: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = if output::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let spinner = spinner.with_style(style).with_message(what);
    spinner.enable_steady_tick(std::time::Duration::from_millis(250));
    spinner
}

/// With the remaining time. Draws nothing if stderr is not a terminal or is to stay quiet.
pub fn progress_bar(name: &'static str, length: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:>9} {bar:40} {human_pos}/{human_len} {elapsed}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = if output::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(length as u64) };
    bar.with_style(style).with_message(name)
}
