//! Distributes tasks to other machines over NATS JetStream, and collects the replies.
//!
//! A [`Dispatcher`] submits tasks, workers ([`serve`]) do them; neither knows the other, and either may crash at any
//! moment. A task is a byte string with a name that identifies its content. It is delivered at least once, under a
//! lease; its reply is stored until the dispatcher has saved it, so that nothing is done twice because of a restart.
//! It requires nats-server 2.9 with JetStream.

mod connection;
mod dispatcher;
mod error;
mod message;
mod subject;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use connection::{Connection, Notice};
pub use dispatcher::{Dispatcher, Reply, Task};
pub use error::QueueError;
pub use worker::{Group, Outcome, SHORTEST_LEASE, Work, serve};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
