//! Names on the server.
//!
//! A task has the subject `quarry.task.KIND.QUEUE.NAME` and its reply `quarry.reply.QUEUE.NAME`, at most one message
//! each: the kind decides which workers can do it, the queue is that of its dispatcher, and the name identifies it.

use crate::error::QueueError;

/// The stream of tasks. A task is removed from it when it is done.
pub(crate) const TASKS: &str = "QUARRY_TASKS";
/// The stream of replies. A reply is removed from it once the dispatcher has saved it.
pub(crate) const REPLIES: &str = "QUARRY_REPLIES";

/// Matches all tasks, and all replies.
pub(crate) const ALL_TASKS: &str = "quarry.task.>";
pub(crate) const ALL_REPLIES: &str = "quarry.reply.>";

pub(crate) fn task(kind: &str, queue: &str, name: &str) -> String {
    format!("quarry.task.{kind}.{queue}.{name}")
}

pub(crate) fn tasks_of_kind(kind: &str) -> String {
    format!("quarry.task.{kind}.>")
}

pub(crate) fn tasks_of_queue(queue: &str) -> String {
    format!("quarry.task.*.{queue}.>")
}

pub(crate) fn parse_task(subject: &str) -> Option<(&str, &str, &str)> {
    let mut parts = subject.strip_prefix("quarry.task.")?.splitn(3, '.');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

pub(crate) fn reply(queue: &str, name: &str) -> String {
    format!("quarry.reply.{queue}.{name}")
}

pub(crate) fn replies_of_queue(queue: &str) -> String {
    format!("quarry.reply.{queue}.>")
}

/// The subject on which workers signal the progress of a task.
pub(crate) fn signal(queue: &str, name: &str) -> String {
    format!("quarry.signal.{queue}.{name}")
}

pub(crate) fn signals_of_queue(queue: &str) -> String {
    format!("quarry.signal.{queue}.*")
}

/// Checks that a name is valid in subjects and names of consumers.
pub(crate) fn check(name: &str) -> Result<&str, QueueError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(fits) {
        Ok(name)
    } else {
        Err(QueueError::Name { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_identifies_its_task() {
        assert_eq!(parse_task(&task("run-python", "q", "n1")), Some(("run-python", "q", "n1")));
        assert_eq!(parse_task("quarry.task.k"), None);
        assert_eq!(parse_task("else"), None);
    }

    #[test]
    fn names_stay_within_their_part() {
        for name in ["a", "run-python", "0_1"] {
            assert!(check(name).is_ok());
        }
        for name in ["", "a.b", "*", ">", "a b", "ä", "a\n"] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
