//! A page that changes by itself: tables that are made anew while somebody looks at them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{Html, Response};
use axum::routing::get;
use maud::{Markup, PreEscaped, html};
use quarry_metrics::table::{Section, Sections, Table};
use serde::Serialize;
use tokio::sync::watch;

use crate::events::{Closed, Events, Streams};
use crate::pages::layout::{RELOAD_SECONDS, Site, page_of};
use crate::problem::Problem;

/// Time between two looks at what is shown.
const PAUSE: Duration = Duration::from_secs(1);
/// Renders content, or fails.
pub(crate) type Render = dyn Fn() -> Result<String, Problem> + Send + Sync;

/// The state of some work as tables, or why there are none.
pub type MakeTables = dyn Fn() -> Result<Sections, String> + Send + Sync;

/// A page rendered once and streamed to all its viewers, while there are any.
#[derive(Clone)]
pub(crate) struct Live {
    make: Arc<Render>,
    streams: Streams,
    latest: Arc<watch::Sender<Option<Arc<str>>>>,
    is_followed: Arc<AtomicBool>,
}

#[derive(Serialize)]
struct Content<'a> {
    html: &'a str,
}

impl Live {
    pub(crate) fn new(streams: Streams, make: Arc<Render>) -> Self {
        Self { make, streams, latest: Arc::default(), is_followed: Arc::default() }
    }

    pub(crate) async fn now(&self) -> Result<String, Problem> {
        let make = Arc::clone(&self.make);
        tokio::task::spawn_blocking(move || make()).await.map_err(|error| Problem::internal(&error))?
    }

    /// A stream of what is shown: first as it is, and whenever it changes.
    pub(crate) fn stream(&self) -> Result<Response, Problem> {
        let live = self.clone();
        self.streams.open(|events| async move {
            let latest = live.latest.subscribe();
            // The first one who looks has it made, for all others too.
            if !live.is_followed.swap(true, Ordering::SeqCst) {
                tokio::spawn(live.follow());
            }
            send_changes(latest, &events).await
        })
    }

    /// Makes it anew until nobody looks any longer.
    async fn follow(self) {
        loop {
            match self.now().await {
                Ok(html) => {
                    self.latest.send_if_modified(|latest| {
                        let is_new = latest.as_deref() != Some(html.as_str());
                        if is_new {
                            *latest = Some(Arc::from(html));
                        }
                        is_new
                    });
                }
                // The page stays as it was; reloading it shows the error.
                Err(problem) => tracing::debug!("the page cannot be produced: {}", problem.detail),
            }
            tokio::time::sleep(PAUSE).await;
            if self.latest.receiver_count() == 0 {
                self.latest.send_replace(None);
                self.is_followed.store(false, Ordering::SeqCst);
                // Somebody may have come before that, and relied on this.
                if self.latest.receiver_count() == 0 || self.is_followed.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        }
    }
}

async fn send_changes(mut latest: watch::Receiver<Option<Arc<str>>>, events: &Events) -> Result<(), Closed> {
    loop {
        let html = latest.borrow_and_update().clone();
        if let Some(html) = html {
            events.send("content", &Content { html: &html }).await?;
        }
        latest.changed().await.map_err(|_| Closed)?;
    }
}

/// A part of a page that the stream at `stream` updates; without a script, the page is loaded anew.
pub(crate) fn content(stream: &str, html: &str) -> Markup {
    html! {
        div data-live=(stream) { (PreEscaped(html)) }
        noscript { p .quiet { "This page reloads every " (RELOAD_SECONDS) " seconds." } }
    }
}

/// Tables and what is said about them.
fn tables(sections: &Sections) -> Markup {
    html! {
        @for section in sections.iter() {
            @match section {
                Section::Text(text) => @for line in text.lines().filter(|line| !line.is_empty()) { p { (line) } },
                Section::Table { title, table } => {
                    @if let Some(title) = title { h2 { (title) } }
                    (self::table(title.as_deref().unwrap_or("Overview"), table))
                }
            }
        }
    }
}

/// The state of some work. If there is none yet, that is not an error of the page.
pub(crate) fn state(made: &Result<Sections, String>) -> Markup {
    match made {
        Ok(sections) => tables(sections),
        Err(reason) => html! { p role="status" { (reason) } },
    }
}

fn table(name: &str, table: &Table) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { @for name in table.header() { th scope="col" { (name) } } } }
                tbody {
                    @for row in table.rows() {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The state of some work, on a page of its own at `/`.
pub(crate) fn router(title: String, make: Box<MakeTables>, streams: Streams) -> Router {
    let live = Live::new(streams, Arc::new(move || Ok(state(&make()).into_string())));
    let status = Status { title: title.into(), live };
    Router::new().route("/", get(status_page)).route("/stream", get(status_stream)).with_state(status)
}

#[derive(Clone)]
struct Status {
    title: Arc<str>,
    live: Live,
}

async fn status_page(State(status): State<Status>) -> Result<Html<String>, crate::pages::ProblemPage> {
    let made = status.live.now().await?;
    let body = html! {
        header { span .name { "Quarry" } }
        main #main .narrow tabindex="-1" {
            h1 { (status.title) }
            (content("/stream", &made))
        }
    };
    Ok(Html(page_of(Site::Status, &status.title, body).into_string()))
}

async fn status_stream(State(status): State<Status>) -> Result<Response, Problem> {
    status.live.stream()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::AtomicUsize;

    use axum::body::HttpBody;

    use super::*;

    async fn next(response: &mut Response) -> String {
        let body = response.body_mut();
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_page_is_rendered_once_for_all_viewers_and_not_without_viewers() {
        let (_stop, stopped) = watch::channel(false);
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        // It changes with every other look.
        let make = move || Ok(format!("<p>{}</p>", count.fetch_add(1, Ordering::SeqCst) / 2));
        let live = Live::new(Streams::new(stopped), Arc::new(make));
        let mut all: Vec<Response> = (0..50).map(|_| live.stream().unwrap()).collect();
        for response in &mut all {
            assert_eq!(next(response).await, "event: content\ndata: {\"html\":\"<p>0</p>\"}\n\n");
        }
        for response in &mut all {
            assert_eq!(next(response).await, "event: content\ndata: {\"html\":\"<p>1</p>\"}\n\n");
        }
        assert!((3..=4).contains(&made.load(Ordering::SeqCst)), "{made:?}");
        drop(all);
        while live.latest.receiver_count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(PAUSE * 2).await;
        let before = made.load(Ordering::SeqCst);
        tokio::time::sleep(PAUSE * 2).await;
        assert_eq!(made.load(Ordering::SeqCst), before);
        // Later viewers get the newest state.
        let expected = format!("<p>{}</p>", before / 2);
        assert!(next(&mut live.stream().unwrap()).await.contains(&expected));
    }

    #[test]
    fn tables_and_sentences_are_text() {
        let mut rows = Table::new(["<b>", "n"]);
        rows.push(["<script>", "1"]);
        let sections = Sections::new().text("a < b\n\n").titled("<i>", rows);
        let html = tables(&sections).into_string();
        assert!(html.contains("<p>a &lt; b</p><h2>&lt;i&gt;</h2>") && !html.contains("<script>"), "{html}");
    }
}
