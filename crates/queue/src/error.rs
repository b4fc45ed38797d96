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
    #[error("{address}: {problem}")]
    Server {
        /// Host and port.
        address: String,
        problem: String,
    },
    #[error("{name:?} cannot name a part of a queue: expected letters, digits, `-` and `_`")]
    Name { name: String },
    #[error(
        "{about} has {bytes} bytes, but {address} accepts at most {limit} in a message; raise `max_payload` in the \
         server's configuration"
    )]
    TooLarge {
        about: String,
        /// Its size including headers, in bytes.
        bytes: usize,
        address: String,
        limit: usize,
    },
    #[error("this worker cannot continue: {problem}; its work was returned to the queue")]
    Unable { problem: String },
    #[error("a thread could not be started: {problem}")]
    Thread { problem: String },
    #[error("stopped")]
    Stopped,
}
