//! What is called how on the server.
//!
//! A task lies under `quarry.task.KIND.QUEUE.NAME` and its reply under `quarry.reply.QUEUE.NAME`, each at most once:
//! the kind says who can do it, the queue whom it belongs to, the name what it is.

use crate::error::QueueError;

/// The stream of tasks. A task leaves it when somebody did it.
pub(crate) const TASKS: &str = "QUARRY_TASKS";
/// The stream of replies. A reply leaves it once the dispatcher has saved it.
pub(crate) const REPLIES: &str = "QUARRY_REPLIES";

/// All tasks, and all replies.
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

/// Kind, queue and name of a task.
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

/// Where workers tell how far a task is.
pub(crate) fn signal(queue: &str, name: &str) -> String {
    format!("quarry.signal.{queue}.{name}")
}

pub(crate) fn signals_of_queue(queue: &str) -> String {
    format!("quarry.signal.{queue}.*")
}

/// A name that can be part of a subject, and of a consumer's name.
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
    fn a_subject_says_whose_task_it_is() {
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
