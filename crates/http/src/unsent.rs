//! Bounds buffered response bytes.
//!
//! The system takes a small answer at once, and a large one as fast as the client reads it. What is not taken yet counts
//! against a limit that all connections share, and is kept for a limited time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::problem::Problem;

/// The largest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Answers up to this size have a limit of their own, so that those who read large ones slowly do not keep others from them.
const SMALL_BYTES: usize = 128 << 10;
/// The limit of each kind, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Bytes that a permit of the limits stands for.
const UNIT_BYTES: usize = 1 << 10;
/// Bytes that are handed on at a time.
const PIECE_BYTES: usize = 16 << 10;
/// The longest that a client may take to read an answer.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The room for what is not sent yet.
#[derive(Clone)]
pub(crate) struct Unsent {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Unsent {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(MAX_BYTES / UNIT_BYTES));
        Self { small: room(), large: room() }
    }
}

impl Unsent {
    /// Room for an answer, until that is dropped.
    pub(crate) fn room(&self, n_bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        if n_bytes > MAX_ANSWER_BYTES {
            return Err(Problem::bad_request(format!(
                "the answer has {n_bytes} bytes, at most {MAX_ANSWER_BYTES} are sent; request less, or narrow it to a \
                 directory"
            )));
        }
        let room = if n_bytes <= SMALL_BYTES { &self.small } else { &self.large };
        let n_units = n_bytes.div_ceil(UNIT_BYTES) as u32;
        Arc::clone(room).try_acquire_many_owned(n_units).map_err(|_| {
            Problem::busy(
                "too many answers are waiting for clients to read them; try again after the time in Retry-After",
            )
        })
    }

    /// An answer that takes room until it is sent. One whose size is not known is not held: it is made as it is read.
    fn hold(&self, response: Response) -> Response {
        let Some(n_bytes) = response.body().size_hint().exact() else { return response };
        let room = match self.room(usize::try_from(n_bytes).unwrap_or(usize::MAX)) {
            Ok(room) => room,
            Err(problem) => return problem.into_response(),
        };
        response.map(|body| {
            Body::new(BufferedBody {
                body,
                rest: Bytes::new(),
                deadline: Instant::now() + MAX_TIME,
                _room: room,
            })
        })
    }
}

/// Has every answer take room until it is sent.
pub(crate) async fn hold(State(unsent): State<Unsent>, request: Request, next: Next) -> Response {
    unsent.hold(next.run(request).await)
}

/// The body of an answer, in pieces that are handed on as the client reads them.
struct BufferedBody {
    body: Body,
    /// Bytes taken from the body that are not handed on yet.
    rest: Bytes,
    deadline: Instant,
    _room: OwnedSemaphorePermit,
}

impl HttpBody for BufferedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if Instant::now() > self.deadline {
            return Poll::Ready(Some(Err(axum::Error::new("the client is too slow to read"))));
        }
        while self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let n_bytes = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(n_bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        self.body
            .size_hint()
            .exact()
            .map_or_else(SizeHint::default, |exact| SizeHint::with_exact(exact + rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        Some(frame.map(|frame| frame.into_data().unwrap()))
    }

    fn answer(n_bytes: usize) -> Response {
        vec![b'x'; n_bytes].into_response()
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_streamed_and_counted_until_they_are_sent() {
        let unsent = Unsent::default();
        let all = unsent.large.available_permits();
        let mut body = unsent.hold(answer(1 << 20)).into_body();
        assert_eq!(unsent.large.available_permits(), all - 1024);
        assert_eq!(body.size_hint().exact(), Some(1 << 20));
        let mut n_bytes = 0;
        while let Some(piece) = next(&mut body).await {
            let piece = piece.unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            n_bytes += piece.len();
            assert_eq!(body.size_hint().exact(), Some((1 << 20) - n_bytes as u64));
        }
        assert!(n_bytes == 1 << 20 && body.is_end_stream());
        drop(body);
        assert_eq!(unsent.large.available_permits(), all);
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_are_bounded_and_small_ones_pass() {
        let unsent = Unsent::default();
        let mut unread: Vec<Response> = (0..MAX_BYTES >> 20).map(|_| unsent.hold(answer(1 << 20))).collect();
        assert!(unread.iter().all(|response| response.status() == 200));
        let refused = unsent.hold(answer(1 << 20));
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(unsent.hold(answer(1 << 10)).status(), 200);
        assert_eq!(unsent.hold(answer(MAX_ANSWER_BYTES + 1)).status(), 400);
        // A client that has not read it by then does not get the rest.
        let mut slow = unread.remove(0).into_body();
        assert!(next(&mut slow).await.unwrap().is_ok());
        tokio::time::advance(MAX_TIME + Duration::from_secs(1)).await;
        assert!(next(&mut slow).await.unwrap().is_err());
        drop(unread);
        assert_eq!(unsent.hold(answer(1 << 20)).status(), 200);
    }
}
