//! Errors, with what to do about them.

/// Why tasks cannot be submitted or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    #[error(
        "the address of the NATS server cannot be used: {problem}; write one such as nats://localhost:4222"
    )]
    Address {
        /// The problem, without user and password.
        problem: String,
    },
    /// The server refuses the connection, or lacks a required feature.
    #[error("{address}: {problem}")]
    Server {
        /// Host and port.
        address: String,
        /// Expectation and remedy.
        problem: String,
    },
    /// The name of a task, a kind or a queue is not valid in a subject.
    #[error("{name:?} cannot name a part of a queue: expected letters, digits, `-` and `_`")]
    Name { name: String },
    /// A task exceeds the server's maximum message size.
    #[error(
        "{about} has {bytes} bytes, but {address} accepts at most {limit} in a message; raise `max_payload` in the \
         server's configuration"
    )]
    TooLarge {
        about: String,
        /// Its size including headers, in bytes.
        bytes: usize,
        /// Host and port.
        address: String,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// This machine cannot do the tasks that it takes.
    #[error("this worker cannot continue: {problem}; its work was returned to the queue")]
    Unable {
        /// A description with what to do.
        problem: String,
    },
    /// The asynchronous runtime, or a thread, could not be started.
    #[error("a thread could not be started: {problem}")]
    Thread { problem: String },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}
