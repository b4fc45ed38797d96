//! Reports the progress of an index to the client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quarry_index::{Event, RebuildReason};
use serde_json::{Value, json};

use crate::outbox::Outbox;

/// Minimum duration of a refresh that is reported.
const PATIENCE: Duration = Duration::from_millis(300);

/// Counter for unique progress tokens.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The progress of opening an index; it ends when this is dropped.
pub(crate) struct Reporter<'a> {
    /// `None` if the client does not show progress.
    outbox: Option<&'a Outbox>,
    state: Mutex<State>,
}

struct State {
    begun: Instant,
    /// True if it is reported immediately.
    is_build: bool,
    /// The token and the last percentage, once reported.
    reported: Option<(String, u64)>,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(outbox: Option<&'a Outbox>) -> Self {
        let state = State { begun: Instant::now(), is_build: false, reported: None };
        Self { outbox, state: Mutex::new(state) }
    }

    pub(crate) fn report(&self, event: &Event) {
        let Some(outbox) = self.outbox else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Rebuilding(reason) = event {
            state.is_build = !matches!(reason, RebuildReason::Files(_));
        }
        let Some((share, message)) = event.progress() else { return };
        if !state.is_build && state.begun.elapsed() < PATIENCE {
            return;
        }
        let percentage = (share * 100.0) as u64;
        match &mut state.reported {
            Some((_, last)) if *last >= percentage => {}
            Some((token, last)) => {
                *last = percentage;
                send(outbox, token, json!({"kind": "report", "message": message, "percentage": percentage}));
            }
            reported @ None => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let token = format!("quarry/index/{number}");
                outbox.ask(
                    format!("progress-{number}"),
                    "window/workDoneProgress/create",
                    json!({"token": token}),
                );
                let begin = json!({
                    "kind": "begin", "title": "Indexing", "message": message, "percentage": percentage,
                });
                send(outbox, &token, begin);
                *reported = Some((token, percentage));
            }
        }
    }
}

impl Drop for Reporter<'_> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (Some(outbox), Some((token, _))) = (self.outbox, &state.reported) {
            send(outbox, token, json!({"kind": "end"}));
        }
    }
}

fn send(outbox: &Outbox, token: &str, value: Value) {
    outbox.notify("$/progress", json!({"token": token, "value": value}));
}
