//! What can go wrong, and what to do about it.

/// Why work cannot be handed over or taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The address is not that of a NATS server.
    #[error(
        "the address of the NATS server cannot be used: {problem}; write one such as nats://localhost:4222"
    )]
    Address {
        /// What is wrong with it, without what it says of users and passwords.
        problem: String,
    },
    /// The server refuses the connection, or lacks what is needed.
    #[error("{address}: {problem}")]
    Server {
        /// Host and port.
        address: String,
        /// What was expected and what to do.
        problem: String,
    },
    /// A name of a task, a kind or a queue cannot be part of a subject.
    #[error("{name:?} cannot name a part of a queue: expected letters, digits, `-` and `_`")]
    Name {
        /// The name that was given.
        name: String,
    },
    /// A task is larger than the server takes.
    #[error(
        "{about} has {bytes} bytes, and {address} takes {limit} in a message; raise `max_payload` in the server's \
         configuration"
    )]
    TooLarge {
        /// What the task is.
        about: String,
        /// Its size with its headers.
        bytes: usize,
        /// Host and port.
        address: String,
        /// The server's limit.
        limit: usize,
    },
    /// This machine cannot do its tasks.
    #[error("this worker cannot go on: {problem}; its work was given back")]
    Unable {
        /// In words, with what to do.
        problem: String,
    },
    /// The asynchronous runtime, or a thread, could not be started.
    #[error("a thread could not be started: {problem}")]
    Thread {
        /// What the system said.
        problem: String,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}
