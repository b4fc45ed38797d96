//! The speed of a running judge.

use std::fs::{File, TryLockError};

use rusqlite::params;
use serde::Serialize;

use super::{Ledger, lock_file, now};
use crate::error::JudgeError;

/// Length of the window over which the pace is measured; shorter after a recent start.
const WINDOW_SECONDS: f64 = 300.0;

/// The rate of verdicts, and the estimated time for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pace {
    /// Verdicts per second.
    pub pairs_per_second: f64,
    /// Estimated seconds until all pairs have a verdict.
    pub seconds_left: f64,
}

impl Ledger {
    /// Returns true if a process is currently writing to this ledger.
    pub fn is_written(&self) -> bool {
        let Ok(lock) = File::open(lock_file(&self.path)) else { return false };
        matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// The pace of `judge` on the pairs of the last start; `None` if no process is judging, or there is no verdict
    /// yet.
    pub fn pace(&self, judge: i64) -> Result<Option<Pace>, JudgeError> {
        if !self.is_written() {
            return Ok(None);
        }
        let waiting = self.n_waiting(judge)?;
        self.read(|connection| {
            let start = "SELECT max(time) FROM starts WHERE judge = ?1";
            let start: f64 = connection.query_row(start, [judge], |row| row.get(0))?;
            let (until, from) = (now(), start.max(now() - WINDOW_SECONDS));
            let count = "SELECT count(*) FROM verdicts WHERE judge = ?1 AND time >= ?2";
            let decided: i64 = connection.query_row(count, params![judge, from], |row| row.get(0))?;
            Ok(pace(decided.max(0) as u64, until - from, waiting))
        })
    }
}

fn pace(decided: u64, seconds: f64, waiting: u64) -> Option<Pace> {
    let pairs_per_second = decided as f64 / seconds;
    (decided > 0 && seconds > 0.0)
        .then(|| Pace { pairs_per_second, seconds_left: waiting as f64 / pairs_per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_share() {
        assert_eq!(pace(50, 10.0, 200), Some(Pace { pairs_per_second: 5.0, seconds_left: 40.0 }));
        assert_eq!((pace(0, 10.0, 200), pace(1, 0.0, 200)), (None, None));
    }
}
