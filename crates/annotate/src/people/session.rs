//! Several people filling in a form at the same time, item by item.
//!
//! Every answer is in the ledger before the next item is shown. What is only in memory (who is looking at which item,
//! and skipped items) may be lost: then an item is shown to another person, or again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::form::{Form, Item, Reply};
use crate::error::AnnotateError;
use crate::ledger::{NewReply, Writer};

/// How long an item is reserved for a person after it was shown.
const LEASE: Duration = Duration::from_secs(15 * 60);

/// A form that is being filled in.
pub struct Session {
    writer: Writer,
    form: Form,
    overlap: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each person's last answer to each item, by position.
    said: Vec<HashMap<String, Said>>,
    /// The positions that each person has answered, without repetition, in this order.
    answered: HashMap<String, Vec<usize>>,
    /// When each person was shown an item that they have not answered, by position.
    shown: Vec<HashMap<String, Instant>>,
    /// The positions that each person skipped, in this order.
    put_off: HashMap<String, Vec<usize>>,
}

/// A person's answer to an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// A word of the guideline, or the name of a value.
    pub label: String,
    /// A free-text comment; may be empty.
    pub comment: String,
}

/// Outcome of submitting an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// It was added to the ledger.
    New,
    /// It was already there.
    Known,
    /// The person gave this other answer before, and did not ask to change it.
    Other(Said),
    /// The guideline has no such label, or the form has no such item.
    Unknown,
}

/// The progress of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonProgress {
    /// The name of the person.
    pub person: String,
    /// Items that they answered.
    pub answered: usize,
    /// Items that they skipped.
    pub put_off: usize,
}

impl Session {
    /// Opens a form of a ledger, each item of which `overlap` people should answer.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn open(writer: Writer, form: Form, overlap: usize) -> Result<Self, AnnotateError> {
        let n = form.items.len();
        let (said, shown) = (vec![HashMap::new(); n], vec![HashMap::new(); n]);
        let mut state = State { said, shown, ..State::default() };
        for (item, person, said) in writer.ledger().replies_of(&form.name)? {
            if let Some(position) = position(&form, item) {
                state.note(position, &person, said);
            }
        }
        Ok(Self { writer, form, overlap, state: Mutex::new(state) })
    }

    /// The form that is being filled in.
    #[must_use]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The item with a number.
    #[must_use]
    pub fn item(&self, number: i64) -> Option<&Item> {
        self.form.items.get(position(&self.form, number)?)
    }

    /// The item to show to a person at `now`, which is then reserved for them for a while: first items that they were
    /// already shown, then new ones, then skipped ones. `None` if nothing is left for them.
    #[must_use]
    pub fn next(&self, person: &str, now: Instant) -> Option<&Item> {
        let mut state = self.state();
        let put_off = state.put_off.get(person).cloned().unwrap_or_default();
        let is_new = |at: &usize| !put_off.contains(at);
        let mine = |at: &usize| state.shown[*at].contains_key(person);
        let all = 0..self.form.items.len();
        let open = |at: &usize| state.is_open(*at, person, self.overlap, now);
        let found = (all.clone().filter(is_new).filter(mine).find(open))
            .or_else(|| all.filter(is_new).find(open))
            .or_else(|| put_off.iter().copied().find(open))?;
        state.shown[found].entry(person.to_owned()).or_insert(now);
        Some(&self.form.items[found])
    }

    /// Stores an answer; one that differs from this person's earlier answer only if `is_change`.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn answer(
        &self,
        person: &str,
        item: i64,
        said: &Said,
        is_change: bool,
        now: Instant,
    ) -> Result<Kept, AnnotateError> {
        let (Some(position), Some(value)) =
            (position(&self.form, item), self.form.guideline.value(&said.label))
        else {
            return Ok(Kept::Unknown);
        };
        let said = Said { label: value.name().to_owned(), comment: said.comment.trim().to_owned() };
        // The lock is held until the answer is written; otherwise, answers from two tabs of a person would both count
        // as new.
        let mut state = self.state();
        match state.said[position].get(person) {
            Some(known) if *known == said => return Ok(Kept::Known),
            Some(known) if !is_change => return Ok(Kept::Other(known.clone())),
            _ => {}
        }
        let minutes =
            state.shown[position].get(person).map(|shown| now.duration_since(*shown).as_secs_f64() / 60.0);
        let reply = Reply {
            label: said.label.clone(),
            program: None,
            edited: None,
            minutes,
            comment: said.comment.clone(),
        };
        let form = &self.form.name;
        self.writer.add_reply(&NewReply {
            form,
            item,
            person,
            date: None,
            reply: &reply,
            run: None,
            code: None,
        })?;
        state.note(position, person, said);
        Ok(Kept::New)
    }

    /// Skips an item: it is shown to this person again only if nothing else is left. This is not stored.
    pub fn put_off(&self, person: &str, item: i64) {
        let Some(position) = position(&self.form, item) else { return };
        let mut state = self.state();
        state.shown[position].remove(person);
        let put_off = state.put_off.entry(person.to_owned()).or_default();
        put_off.retain(|at| *at != position);
        put_off.push(position);
    }

    /// The item that a person answered last, with the answer.
    #[must_use]
    pub fn last(&self, person: &str) -> Option<(&Item, Said)> {
        let state = self.state();
        let position = *state.answered.get(person)?.last()?;
        let said = state.said[position].get(person)?.clone();
        Some((&self.form.items[position], said))
    }

    /// A person's answer to an item.
    #[must_use]
    pub fn said(&self, person: &str, item: i64) -> Option<Said> {
        let position = position(&self.form, item)?;
        self.state().said[position].get(person).cloned()
    }

    /// The progress of each of some people.
    #[must_use]
    pub fn progress(&self, people: &[String]) -> Vec<PersonProgress> {
        let state = self.state();
        let n = |map: &HashMap<String, Vec<usize>>, person: &String| map.get(person).map_or(0, Vec::len);
        let of = |person: &String| PersonProgress {
            person: person.clone(),
            answered: n(&state.answered, person),
            put_off: n(&state.put_off, person),
        };
        people.iter().map(of).collect()
    }

    /// The number of items with enough answers, and the number of all items.
    #[must_use]
    pub fn finished(&self) -> (usize, usize) {
        let state = self.state();
        let all = 0..self.form.items.len();
        (all.filter(|at| state.said[*at].len() >= self.overlap).count(), self.form.items.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, position: usize, person: &str, said: Said) {
        self.said[position].insert(person.to_owned(), said);
        self.shown[position].remove(person);
        self.put_off.entry(person.to_owned()).or_default().retain(|at| *at != position);
        let answered = self.answered.entry(person.to_owned()).or_default();
        answered.retain(|at| *at != position);
        answered.push(position);
    }

    /// Whether a person may be shown an item: they have not answered it, and it does not have `overlap` answers or
    /// reservations of others.
    fn is_open(&self, position: usize, person: &str, overlap: usize, now: Instant) -> bool {
        let (said, shown) = (&self.said[position], &self.shown[position]);
        let is_leased =
            |(other, shown): &(&String, &Instant)| *other != person && now.duration_since(**shown) < LEASE;
        !said.contains_key(person) && said.len() + shown.iter().filter(is_leased).count() < overlap
    }
}

fn position(form: &Form, number: i64) -> Option<usize> {
    form.items.binary_search_by_key(&number, |item| item.number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::{Guideline, Subject};

    fn form(n: usize) -> Form {
        let pair = |number: usize| {
            let (query, code) = (format!("query {number}"), format!("def f{number}(): pass"));
            Subject::Answers(crate::people::Answers {
                query_id: number.to_string(),
                query,
                sides: vec![crate::people::Side { system: "s".to_owned(), codes: vec![code] }],
            })
        };
        Form::new(Guideline::named("results").unwrap(), false, 1, (0..n).map(pair).collect())
    }

    fn session(directory: &std::path::Path, n: usize, overlap: usize) -> Session {
        let writer = Writer::open(&directory.join("labels.ledger")).unwrap();
        let form = form(n);
        writer.add_form(&form).unwrap();
        Session::open(writer, form, overlap).unwrap()
    }

    fn said(label: &str) -> Said {
        Said { label: label.to_owned(), comment: String::new() }
    }

    #[test]
    fn as_many_people_answer_as_are_to() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(directory.path(), 2, 2);
        let now = Instant::now();
        let next = |person: &str, now: Instant| session.next(person, now).map(|item| item.number);
        assert_eq!((next("a", now), next("a", now), next("b", now)), (Some(1), Some(1), Some(1)));
        // Two people are looking at the first item.
        assert_eq!((next("c", now), next("d", now), next("e", now)), (Some(2), Some(2), None));
        assert_eq!(session.answer("a", 1, &said("3"), false, now).unwrap(), Kept::New);
        assert_eq!(next("e", now), None);
        // An annotator left.
        assert_eq!(next("e", now + LEASE), Some(1));
        assert_eq!(session.finished(), (0, 2));
        assert_eq!(session.answer("e", 1, &said("0"), false, now).unwrap(), Kept::New);
        assert_eq!(session.finished(), (1, 2));
    }

    #[test]
    fn answers_are_kept_once_and_change_on_purpose() {
        let directory = tempfile::tempdir().unwrap();
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(90));
        {
            let session = session(directory.path(), 3, 1);
            assert_eq!(session.next("a", now).unwrap().number, 1);
            assert_eq!(session.answer("a", 1, &said("9"), false, now).unwrap(), Kept::Unknown);
            assert_eq!(session.answer("a", 7, &said("1"), false, now).unwrap(), Kept::Unknown);
            assert_eq!(session.answer("a", 1, &said("1"), false, later).unwrap(), Kept::New);
            assert_eq!(session.answer("a", 1, &said("1"), false, later).unwrap(), Kept::Known);
            assert_eq!(session.answer("a", 1, &said("2"), false, later).unwrap(), Kept::Other(said("1")));
            assert_eq!(session.answer("a", 1, &said("2"), true, later).unwrap(), Kept::New);
            assert_eq!(session.last("a").unwrap().1, said("2"));
            let minutes = session.writer.ledger().reply(&session.form.name, 1, "a").unwrap().unwrap().minutes;
            assert_eq!(minutes, None, "a change has no time of its own");
        }
        // Answers in the ledger are known when it is opened again.
        let session = session(directory.path(), 3, 1);
        assert_eq!(session.said("a", 1), Some(said("2")));
        assert_eq!(session.next("a", now).unwrap().number, 2);
        session.put_off("a", 2);
        assert_eq!(session.next("a", now).unwrap().number, 3);
        assert_eq!(session.answer("a", 3, &said("0"), false, now).unwrap(), Kept::New);
        assert_eq!(session.next("a", now).unwrap().number, 2, "what was put off comes last");
        assert_eq!(
            session.next("b", now).map(|item| item.number),
            None,
            "and is not open to others meanwhile"
        );
        let progress = session.progress(&["a".to_owned(), "b".to_owned()]);
        assert_eq!((progress[0].answered, progress[0].put_off, progress[1].answered), (2, 1, 0));
    }
}
