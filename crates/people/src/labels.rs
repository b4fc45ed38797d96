//! All labels of people in ledgers.

use std::collections::HashSet;

use quarry_judge::JudgeError;
use quarry_judge::ledger::{Ledger, PersonReply};

use crate::guideline::Guideline;

/// People's current labels: if a person labeled something several times by one guideline, with tests or without, in
/// one form or in several, the last label counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeopleLabels {
    pub guidelines: Vec<Guideline>,
    /// The replies, in the order in which they were imported.
    pub replies: Vec<PersonReply>,
}

impl PeopleLabels {
    /// The labels in one ledger.
    ///
    /// # Errors
    /// When the ledger cannot be read, or one of its guidelines cannot be parsed.
    pub fn read(ledger: &Ledger) -> Result<Self, JudgeError> {
        Self::read_all(&[ledger])
    }

    pub(crate) fn read_all(ledgers: &[&Ledger]) -> Result<Self, JudgeError> {
        let mut all = Vec::new();
        for ledger in ledgers {
            let (guidelines, replies) = ledger.all_replies()?;
            let guidelines = guidelines.iter().map(|stored| Guideline::stored(stored, ledger));
            all.push(Self { guidelines: guidelines.collect::<Result<_, _>>()?, replies });
        }
        Ok(Self::joined(all))
    }

    fn joined(ledgers: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for Self { guidelines, replies } in ledgers {
            let positions: Vec<usize> = guidelines
                .into_iter()
                .map(|guideline| {
                    let known = joined.guidelines.iter().position(|known| *known == guideline);
                    known.unwrap_or_else(|| {
                        joined.guidelines.push(guideline);
                        joined.guidelines.len() - 1
                    })
                })
                .collect();
            joined.replies.extend(
                replies
                    .into_iter()
                    .map(|reply| PersonReply { guideline: positions[reply.guideline], ..reply }),
            );
        }
        joined.replies.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut seen = HashSet::new();
        let mut is_last: Vec<bool> = (joined.replies.iter().rev())
            .map(|reply| {
                seen.insert((&reply.person, reply.tests, reply.guideline, &reply.pair, &reply.content))
            })
            .collect();
        joined.replies.retain(|_| is_last.pop().unwrap_or_default());
        joined
    }
}
