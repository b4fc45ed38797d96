//! Server-sent events.
//!
//! A stream costs what its last events take: they are made when the client has read those before, a client that reads
//! nothing is dropped as with any answer, and a stream ends with the server, or after [`MAX_TIME`]. Browsers then ask
//! again by themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::problem::Problem;

/// Streams at a time.
const MAX_STREAMS: usize = 1024;
/// Events that wait for a client to read.
const WAITING: usize = 16;
/// The longest that a stream stays open.
const MAX_TIME: Duration = Duration::from_secs(600);
/// Time between signs of life, by which the end of a client is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
pub(crate) const MEDIA_TYPE: &str = "text/event-stream";

/// The streams of a server.
#[derive(Clone)]
pub(crate) struct Streams {
    free: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Streams {
    /// Streams that end once `stopped` is true.
    pub(crate) fn new(stopped: watch::Receiver<bool>) -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_STREAMS)), stopped }
    }

    pub(crate) fn n_open(&self) -> usize {
        MAX_STREAMS - self.free.available_permits()
    }

    /// Opens a stream of the events that a future sends, until that ends.
    pub(crate) fn open<F>(&self, send: impl FnOnce(Events) -> F) -> Result<Response, Problem>
    where
        F: Future<Output = Result<(), Closed>> + Send + 'static,
    {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            let detail = "too many streams are open; try again after the time in Retry-After";
            return Err(Problem::busy(detail));
        };
        let (sender, events) = mpsc::channel(WAITING);
        let sending = send(Events(sender.clone()));
        let mut stopped = self.stopped.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = sending => {}
                () = sender.closed() => {}
                // If nothing can stop the server any longer, it is as good as stopped.
                _ = stopped.wait_for(|stopped| *stopped) => {}
                () = tokio::time::sleep(MAX_TIME) => {}
            }
            drop(permit);
        });
        let mut signs = interval(SIGN_OF_LIFE);
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        signs.reset();
        let headers = [
            (header::CONTENT_TYPE, MEDIA_TYPE),
            // Proxies that collect answers would keep the events back.
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        Ok((headers, Body::new(Stream { events, signs })).into_response())
    }
}

/// Nobody reads the stream any longer.
#[derive(Debug)]
pub(crate) struct Closed;

pub(crate) struct Events(mpsc::Sender<Bytes>);

impl Events {
    /// Sends an event, once the client has read enough of those before.
    pub(crate) async fn send(&self, name: &str, data: &impl Serialize) -> Result<(), Closed> {
        // Serialized values have text for their keys; JSON has no line ends, which would end the event.
        let data = serde_json::to_string(data).map_err(|_| Closed)?;
        self.0.send(Bytes::from(format!("event: {name}\ndata: {data}\n\n"))).await.map_err(|_| Closed)
    }

    /// Sends what went wrong, as the last event.
    pub(crate) async fn fail(&self, problem: &Problem) -> Result<(), Closed> {
        self.send("problem", &problem.view()).await
    }
}

/// The body of an answer: events, and comments while there are none.
struct Stream {
    events: mpsc::Receiver<Bytes>,
    signs: Interval,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(event) = self.events.poll_recv(cx) {
            self.signs.reset();
            return Poll::Ready(event.map(|event| Ok(Frame::data(event))));
        }
        self.signs.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> (watch::Sender<bool>, Streams) {
        let (stop, stopped) = watch::channel(false);
        (stop, Streams::new(stopped))
    }

    async fn next(body: &mut Body) -> Option<String> {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    }

    async fn all_closed(streams: &Streams) {
        while streams.n_open() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_come_in_order_with_signs_of_life_between() {
        let (_stop, streams) = streams();
        let response = streams.open(async |events: Events| {
            events.send("result", &serde_json::json!({ "text": "two\nlines" })).await?;
            tokio::time::sleep(SIGN_OF_LIFE + Duration::from_secs(1)).await;
            events.fail(&Problem::bad_request("say what")).await
        });
        let mut body = response.unwrap().into_body();
        assert_eq!(next(&mut body).await.unwrap(), "event: result\ndata: {\"text\":\"two\\nlines\"}\n\n");
        assert_eq!(next(&mut body).await.unwrap(), ":\n\n");
        let last = next(&mut body).await.unwrap();
        assert!(last.starts_with("event: problem\ndata: {") && last.contains("\"status\":400"), "{last}");
        assert_eq!(next(&mut body).await, None);
        all_closed(&streams).await;
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_hold_up_a_few_events_and_not_the_server() {
        let (stop, streams) = streams();
        let (count, counted) = watch::channel(0);
        let endless = async move |events: Events| loop {
            events.send("more", &0).await?;
            count.send_modify(|n| *n += 1);
        };
        let unread = streams.open(endless).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((*counted.borrow(), streams.n_open()), (WAITING, 1));
        // A stream that nobody has any longer is free.
        drop(unread);
        all_closed(&streams).await;
        let silent = || streams.open(async |_: Events| std::future::pending().await).unwrap();
        let mut old = silent().into_body();
        tokio::time::sleep(MAX_TIME + Duration::from_secs(1)).await;
        all_closed(&streams).await;
        while let Some(sign) = next(&mut old).await {
            assert_eq!(sign, ":\n\n");
        }
        let mut last = silent().into_body();
        stop.send_replace(true);
        assert_eq!(next(&mut last).await, None);
        all_closed(&streams).await;
    }

    #[tokio::test]
    async fn streams_beyond_the_limit_are_asked_to_retry() {
        let (_stop, streams) = streams();
        let open = || streams.open(async |_: Events| std::future::pending().await);
        let opened: Vec<Response> = (0..MAX_STREAMS).map(|_| open().unwrap()).collect();
        let problem = open().unwrap_err();
        assert_eq!((problem.status.as_u16(), problem.retry_after), (503, Some(1)));
        drop(opened);
        all_closed(&streams).await;
        assert!(open().is_ok());
    }
}
