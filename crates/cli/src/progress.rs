//! Progress of a long command: a bar where stderr is a terminal, elsewhere a line every few seconds.

use std::fmt::Write as _;
#[cfg(feature = "data")]
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
#[cfg(feature = "data")]
use quarry_download::{DownloadError, DownloadOptions, Downloaded, Expected};
#[cfg(feature = "data")]
use url::Url;

use crate::output;

/// Time between lines where there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The remaining time is not estimated before this time has passed and this share of the work is done: the first steps are
/// seldom as fast as the rest.
const MIN_ELAPSED: Duration = Duration::from_secs(3);
const MIN_SHARE: f64 = 0.02;

/// Nor at less than this share of the rate so far.
const MIN_RATE: f64 = 0.1;

/// Work on a number of items, or of unknown length while that number is 0. Prints nothing if stderr is to stay quiet;
/// disappears when it is dropped.
pub struct Progress {
    bar: ProgressBar,
    /// Dropping it ends the thread that prints lines in place of a bar.
    _lines: Option<Sender<()>>,
}

impl Progress {
    /// `name` is what is done, such as "embedding".
    pub fn new(name: impl Into<String>, length: usize) -> Self {
        let bar = if output::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(length as u64) };
        let bar = bar.with_style(style(length as u64)).with_prefix(name.into());
        let needs_lines = bar.is_hidden() && !output::is_quiet();
        Self { _lines: needs_lines.then(|| print_lines(bar.clone())), bar }
    }

    /// For work whose steps are not counted: shows for how long it has been going on.
    #[cfg(feature = "data")]
    pub fn spinner(name: impl Into<String>) -> Self {
        let progress = Self::new(name, 0);
        progress.bar.enable_steady_tick(Duration::from_millis(250));
        progress
    }

    /// Shows it before anything is done.
    #[cfg(feature = "eval")]
    pub fn show(&self) {
        self.bar.tick();
    }

    #[cfg(any(feature = "data", feature = "eval"))]
    pub fn inc(&self, n: u64) {
        self.bar.inc(n);
    }

    pub fn set_done(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// So much is done, of a number that has become known or has changed.
    pub fn set(&self, done: u64, length: u64) {
        if self.bar.length() != Some(length) {
            self.bar.set_style(style(length));
            self.bar.set_length(length);
        }
        self.set_done(done);
    }

    /// As [`Progress::set`], where what is done was done before.
    #[cfg(feature = "train")]
    pub fn resume(&self, done: u64, length: u64) {
        self.set(done, length);
        self.bar.reset_eta();
    }

    /// Starts other work under this name, unless it has that name already: the speed of reading files does not predict
    /// the speed of embedding units.
    pub fn rename(&self, name: &str) {
        if self.bar.prefix() != name {
            // In this order, so that the new name is never beside what was done under the old one.
            self.bar.reset();
            self.bar.set_prefix(name.to_owned());
        }
    }

    /// Text at the end of the bar, such as the loss.
    #[cfg(any(test, feature = "data", feature = "train"))]
    pub fn set_detail(&self, detail: &str) {
        self.bar.set_message(format!(", {detail}"));
    }

    /// Runs what prints to stderr, without the bar.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Removes the bar, before what is printed when all is done.
    pub fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Downloads a file as [`quarry_download::download`] does, and shows how far it is.
#[cfg(feature = "data")]
pub fn download(url: &Url, target: &Path, expected: &Expected) -> Result<Downloaded, DownloadError> {
    let bar = Progress::new("bytes", 0);
    let mut show = |done, total: Option<u64>| bar.set(done, total.unwrap_or_default());
    quarry_download::download(url, target, expected, &DownloadOptions::default(), &mut show)
}

/// Prints a line every few seconds until the bar has finished, or what is returned is dropped.
fn print_lines(bar: ProgressBar) -> Sender<()> {
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        while ended.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) && !bar.is_finished() {
            output::note(&line(&bar));
        }
    });
    end
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish_and_clear();
    }
}

/// Without a length there is nothing to draw a bar of.
fn style(length: u64) -> ProgressStyle {
    let template = match length {
        0 => "{spinner} {prefix} {elapsed}{msg}",
        _ => "{prefix:>9} {bar:40} {human_pos}/{human_len} {elapsed}{left}{msg}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let left = remaining(state.pos(), state.len(), state.elapsed(), state.per_sec());
        let _ = out.write_str(&left_text(left));
    })
}

fn left_text(left: Option<Duration>) -> String {
    left.map_or_else(String::new, |left| format!(", {:#} left", HumanDuration(left)))
}

fn line(bar: &ProgressBar) -> String {
    let (done, elapsed) = (bar.position(), bar.elapsed());
    let mut text = format!("{}: ", bar.prefix());
    if let Some(length) = bar.length().filter(|length| *length > 0) {
        let _ = write!(text, "{} of {}, ", HumanCount(done), HumanCount(length));
    }
    let left = left_text(remaining(done, bar.length(), elapsed, bar.per_sec()));
    let _ = write!(text, "{:#}{left}{}", HumanDuration(elapsed), bar.message());
    text
}

/// The time that the rest takes at the recent rate, in items per second; `None` while that is a guess.
fn remaining(done: u64, length: Option<u64>, elapsed: Duration, rate: f64) -> Option<Duration> {
    let length = length.filter(|length| done < *length)?;
    // A long item looks as if nothing went on for ever.
    let has_stalled = rate <= MIN_RATE * done as f64 / elapsed.as_secs_f64();
    let is_guess = elapsed < MIN_ELAPSED || (done as f64) < MIN_SHARE * length as f64 || has_stalled;
    (!is_guess).then(|| Duration::try_from_secs_f64((length - done) as f64 / rate).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_once_there_is_something_to_go_by() {
        let remaining = |done, length, seconds, rate| {
            remaining(done, Some(length), Duration::from_secs(seconds), rate).map(|left| left.as_secs())
        };
        assert_eq!(remaining(50, 100, 10, 5.0), Some(10));
        assert_eq!(remaining(50, 100, 2, 25.0), None, "too early");
        assert_eq!(remaining(1, 100, 10, 0.1), None, "too little is done");
        assert_eq!(remaining(50, 100, 10, 0.0), None, "nothing was done recently");
        assert_eq!(remaining(50, 100, 10, 0.1), None, "hardly anything was");
        assert_eq!(remaining(1, 0, 10, 1.0), None, "the length is unknown");
        assert_eq!(remaining(100, 100, 10, 1.0), None, "all is done");
        assert_eq!(remaining(50, 100, 10, f64::MIN_POSITIVE), None, "longer than a duration can be");
    }

    /// A terminal that keeps what is written.
    #[derive(Debug, Clone, Default)]
    struct Written(Arc<Mutex<String>>);

    impl TermLike for Written {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_is_drawn_once_there_is_a_length() {
        let term = Written::default();
        let progress = Progress::new("reading", 0);
        progress.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(term.clone())));
        let frame = || {
            term.0.lock().unwrap().clear();
            progress.bar.force_draw();
            term.0.lock().unwrap().clone()
        };
        let first = frame();
        assert!(first.contains("reading") && !first.contains('█') && !first.contains('/'), "{first}");
        progress.set(1, 4);
        let second = frame();
        assert!(second.contains("1/4") && second.contains('█') && !second.contains("left"), "{second}");
    }

    #[test]
    fn lines_say_the_same_as_the_bar() {
        let progress = Progress::new("asking", 4000);
        progress.set(1200, 4000);
        progress.set_detail("loss 0.5");
        assert_eq!(line(&progress.bar), "asking: 1,200 of 4,000, 0s, loss 0.5");
        progress.rename("embedding");
        progress.set(0, 0);
        assert_eq!(line(&progress.bar), "embedding: 0s, loss 0.5");
    }
}
