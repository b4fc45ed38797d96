//! Several people filling in a form at the same time, item by item.
//!
//! Every answer is in the ledger before the next item is shown. What is only in memory (who is looking at which item,
//! skipped items, and test programs that were not submitted yet) may be lost: then an item is shown to another person,
//! or again.
//!
//! A form with test programs asks twice: the answer before testing is stored under the same form without tests, so that
//! the tables of annotators have both.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quarry_judge::ledger::{FormReply, Item, ItemAnswer, Ledger, NewReply, Reply, Subject, Writer};
use quarry_judge::{JudgeError, Language, Programs, Run, RunResult};
use quarry_sandbox::Limits;

use crate::form::Form;
use crate::import::run_program;

/// Time for which an item is reserved for a person after it was shown.
const LEASE: Duration = Duration::from_secs(15 * 60);

pub struct Session {
    writer: Writer,
    form: Form,
    /// The name of the same form without tests, if this one has test programs.
    untested: Option<String>,
    sandbox: Option<TestSandbox>,
    overlap: usize,
    state: Mutex<State>,
}

/// Sandbox for test programs of people.
pub struct TestSandbox {
    pub programs: Box<dyn Programs>,
    pub limits: Limits,
}

#[derive(Default)]
struct State {
    /// Each person's last answer to each item, by position.
    answers: Vec<HashMap<String, ItemAnswer>>,
    /// Each person's answer before testing to each item, by position.
    untested: Vec<HashMap<String, ItemAnswer>>,
    /// The positions that each person has answered, without repetition, in this order.
    answered: HashMap<String, Vec<(usize, Stage)>>,
    /// When each person was shown an item that they have not answered, by position.
    shown: Vec<HashMap<String, Instant>>,
    /// The positions that each person skipped, in this order.
    skipped: HashMap<String, Vec<usize>>,
    /// Each person's last test program, with the position of its item.
    tests: HashMap<String, (usize, TestDraft)>,
    /// People who may have tested each item, by position: then the answer before testing stays unchanged. Tests are not
    /// stored, so that these are also all who answered before the session was opened.
    tested: Vec<HashSet<String>>,
}

/// Stage of an item: it has up to two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The answer before testing, in a form with test programs.
    Untested,
    /// The only answer, or the one after testing.
    Final,
}

impl Stage {
    /// The name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Untested => "untested",
            Self::Final => "final",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Untested, Self::Final].into_iter().find(|stage| stage.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TestDraft {
    pub source: String,
    pub comment: String,
    pub state: TestState,
}

/// The state of a test program.
#[derive(Clone, Debug, PartialEq)]
pub enum TestState {
    Running,
    Ran(Box<Run>, RunResult),
    /// It could not be run, for this reason.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    New,
    Known,
    /// The person gave this other answer before, and did not ask to change it.
    Other(ItemAnswer),
    /// The guideline has no such label, or the form has no such item.
    Unknown,
    /// The test program was changed since it ran.
    NotRun,
    /// There is neither a test program nor a comment with the reason.
    NoReason,
    /// It is the answer before testing, after testing, or the answer after testing, before the other one.
    OutOfTurn,
}

/// The names of the forms of a ledger, oldest first, without those that have the answers before testing of another form.
pub fn forms_to_fill(ledger: &Ledger) -> Result<Vec<String>, JudgeError> {
    let mut names = ledger.forms()?;
    let mut untested = HashSet::new();
    for name in &names {
        untested.extend(Form::read(ledger, name)?.and_then(|form| form.untested()).map(|form| form.name));
    }
    names.retain(|name| !untested.contains(name));
    Ok(names)
}

impl Session {
    /// Opens a form of a ledger, each item of which `overlap` people should answer; `sandbox` runs their test programs,
    /// if the form has them.
    pub fn open(
        writer: Writer,
        form: Form,
        overlap: usize,
        sandbox: Option<TestSandbox>,
    ) -> Result<Self, JudgeError> {
        let n = form.items.len();
        let mut state = State {
            answers: vec![HashMap::new(); n],
            untested: vec![HashMap::new(); n],
            shown: vec![HashMap::new(); n],
            tested: vec![HashSet::new(); n],
            ..State::default()
        };
        let untested = form.untested();
        if let Some(untested) = &untested {
            untested.record(&writer)?;
            for FormReply { item, person, answer, .. } in writer.ledger().replies_of(&untested.name)? {
                if let Some(position) = position(&form, item) {
                    state.note(position, &person, Stage::Untested, answer);
                    state.tested[position].insert(person);
                }
            }
        }
        let untested = untested.map(|untested| untested.name);
        for FormReply { item, person, answer, .. } in writer.ledger().replies_of(&form.name)? {
            if let Some(position) = position(&form, item) {
                state.note(position, &person, Stage::Final, answer);
            }
        }
        Ok(Self { writer, form, untested, sandbox, overlap, state: Mutex::new(state) })
    }

    pub fn form(&self) -> &Form {
        &self.form
    }

    pub(crate) fn untested(&self) -> Option<&str> {
        self.untested.as_deref()
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.writer.ledger()
    }

    pub fn item(&self, number: i64) -> Option<&Item> {
        self.form.items.get(position(&self.form, number)?)
    }

    /// The item to show to a person at `now`, which is then reserved for them for a while: first items that they were
    /// already shown, then new ones, then skipped ones. `None` if nothing is left for them.
    pub fn next(&self, person: &str, now: Instant) -> Option<&Item> {
        let mut state = self.state();
        let skipped = state.skipped.get(person).cloned().unwrap_or_default();
        let is_new = |at: &usize| !skipped.contains(at);
        let mine =
            |at: &usize| state.shown[*at].contains_key(person) || state.untested[*at].contains_key(person);
        let all = 0..self.form.items.len();
        let open = |at: &usize| state.is_open(*at, person, self.overlap, now);
        let found = (all.clone().filter(is_new).filter(mine).find(open))
            .or_else(|| all.filter(is_new).find(open))
            .or_else(|| skipped.iter().copied().find(open))?;
        state.shown[found].entry(person.to_owned()).or_insert(now);
        Some(&self.form.items[found])
    }

    /// Stage of the answer that a person should give next to an item.
    pub fn stage(&self, person: &str, item: i64) -> Stage {
        let is_open =
            position(&self.form, item).is_some_and(|at| self.is_untested(&self.state(), at, person));
        if is_open { Stage::Untested } else { Stage::Final }
    }

    /// Returns whether a person has yet to answer an item without testing it.
    fn is_untested(&self, state: &State, position: usize, person: &str) -> bool {
        let is_answered =
            [&state.untested, &state.answers].iter().any(|answers| answers[position].contains_key(person));
        self.form.tests && !is_answered
    }

    /// Stores an answer; one that differs from this person's earlier answer only if `is_change`.
    pub fn answer(
        &self,
        person: &str,
        item: i64,
        stage: Stage,
        answer: &ItemAnswer,
        is_change: bool,
        now: Instant,
    ) -> Result<Submission, JudgeError> {
        let (Some(position), Some(value)) =
            (position(&self.form, item), self.form.guideline.value(&answer.label))
        else {
            return Ok(Submission::Unknown);
        };
        let form = match (stage, &self.untested) {
            (Stage::Final, _) => &self.form.name,
            (Stage::Untested, Some(untested)) => untested,
            (Stage::Untested, None) => return Ok(Submission::Unknown),
        };
        let is_tested = self.form.tests && stage == Stage::Final;
        let answer = ItemAnswer {
            label: value.name().to_owned(),
            comment: answer.comment.trim().to_owned(),
            program: answer.program.clone().filter(|program| is_tested && self.is_test(position, program)),
        };
        // The lock is held until the answer is written; otherwise, answers from two tabs of a person would both count
        // as new.
        let mut state = self.state();
        let known = state.given(stage, position).get(person);
        match known {
            Some(known) if *known == answer => return Ok(Submission::Known),
            Some(known) if !is_change => return Ok(Submission::Other(known.clone())),
            _ => {}
        }
        // The answer before testing must not depend on the test.
        let is_in_turn = match stage {
            Stage::Untested => !state.has_tested(position, person),
            Stage::Final => !self.is_untested(&state, position, person),
        };
        if !is_in_turn {
            return Ok(known.cloned().map_or(Submission::OutOfTurn, Submission::Other));
        }
        let run = match &answer.program {
            Some(program) => match state.draft(position, person) {
                Some(TestDraft { source, state: TestState::Ran(run, _), .. }) if source == program => {
                    Some(run.as_ref().clone())
                }
                _ => return Ok(Submission::NotRun),
            },
            None if is_tested && answer.comment.is_empty() => return Ok(Submission::NoReason),
            None => None,
        };
        let minutes =
            state.shown[position].get(person).map(|shown| now.duration_since(*shown).as_secs_f64() / 60.0);
        let reply = Reply {
            label: answer.label.clone(),
            program: answer.program.clone(),
            edited: None,
            minutes,
            comment: answer.comment.clone(),
        };
        let (date, code) = (None, None);
        self.writer.add_reply(&NewReply {
            form,
            item,
            person,
            date,
            reply: &reply,
            run: run.as_ref(),
            code,
        })?;
        state.note(position, person, stage, answer);
        if stage == Stage::Untested {
            // The second answer is timed from now, and the item stays reserved.
            state.shown[position].insert(person.to_owned(), now);
        }
        Ok(Submission::New)
    }

    /// Skips an item: it is shown to this person again only if nothing else is left. This is not stored.
    pub fn skip(&self, person: &str, item: i64) {
        let Some(position) = position(&self.form, item) else { return };
        let mut state = self.state();
        state.shown[position].remove(person);
        let skipped = state.skipped.entry(person.to_owned()).or_default();
        skipped.retain(|at| *at != position);
        skipped.push(position);
    }

    /// The item that a person answered last, with the answer. `None` if it is an answer before testing that can no longer
    /// be changed.
    pub fn last(&self, person: &str) -> Option<(&Item, Stage, ItemAnswer)> {
        let state = self.state();
        let (position, stage) = *state.answered.get(person)?.last()?;
        if stage == Stage::Untested && state.has_tested(position, person) {
            return None;
        }
        let answer = state.given(stage, position).get(person)?;
        Some((&self.form.items[position], stage, answer.clone()))
    }

    pub fn answer_of(&self, person: &str, item: i64, stage: Stage) -> Option<ItemAnswer> {
        let position = position(&self.form, item)?;
        self.state().given(stage, position).get(person).cloned()
    }

    /// Registers a test program that [`Session::run_test`] then runs. False if one of this person is still running, they
    /// have not answered the item without a test yet, or there is nothing to run.
    pub fn begin_test(&self, person: &str, item: i64, source: &str, comment: &str) -> bool {
        let Some(position) = position(&self.form, item) else { return false };
        let mut state = self.state();
        let is_running =
            matches!(state.tests.get(person), Some((_, TestDraft { state: TestState::Running, .. })));
        let is_in_turn = self.form.tests && !self.is_untested(&state, position, person);
        if is_running || self.sandbox.is_none() || !is_in_turn || !self.is_test(position, source) {
            return false;
        }
        state.tested[position].insert(person.to_owned());
        let (source, comment) = (source.to_owned(), comment.to_owned());
        let draft = TestDraft { source, comment, state: TestState::Running };
        state.tests.insert(person.to_owned(), (position, draft));
        true
    }

    /// Returns whether a text is a program, and not only the given code.
    fn is_test(&self, position: usize, program: &str) -> bool {
        let Subject::Pair(pair) = &self.form.items[position].subject else { return false };
        !program.trim().is_empty() && program.trim() != pair.code.trim()
    }

    /// Runs the program that a person registered. Blocks until it ends.
    pub fn run_test(&self, person: &str) {
        let begun = self.state().tests.get(person).cloned();
        let (Some((position, draft)), Some(sandbox)) = (begun, &self.sandbox) else { return };
        let Subject::Pair(pair) = &self.form.items[position].subject else { return };
        let ran = run_program(&draft.source, pair, sandbox.programs.as_ref(), &sandbox.limits);
        let state = match (ran, Language::named(&pair.language)) {
            (Ok(run), Some(language)) => {
                let result = run.result(language);
                TestState::Ran(Box::new(run), result)
            }
            (Ok(_), None) => {
                TestState::Refused(format!("test programs cannot be written in {:?}", pair.language))
            }
            (Err(error), _) => TestState::Refused(error.to_string()),
        };
        self.state().tests.insert(person.to_owned(), (position, TestDraft { state, ..draft }));
    }

    /// The last test program of a person for an item, if it was written since the session was opened.
    pub fn test(&self, person: &str, item: i64) -> Option<TestDraft> {
        let position = position(&self.form, item)?;
        self.state().draft(position, person).cloned()
    }

    /// The numbers of items that a person answered and skipped.
    pub(crate) fn counts(&self, person: &str) -> (usize, usize) {
        let state = self.state();
        let answered = state.answers.iter().filter(|answers| answers.contains_key(person)).count();
        (answered, state.skipped.get(person).map_or(0, Vec::len))
    }

    /// The number of items with enough answers, and the number of all items.
    pub fn finished(&self) -> (usize, usize) {
        let state = self.state();
        let all = 0..self.form.items.len();
        (all.filter(|at| state.answers[*at].len() >= self.overlap).count(), self.form.items.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Each person's answer at a stage to the item at a position.
    fn given(&self, stage: Stage, position: usize) -> &HashMap<String, ItemAnswer> {
        match stage {
            Stage::Untested => &self.untested[position],
            Stage::Final => &self.answers[position],
        }
    }

    fn note(&mut self, position: usize, person: &str, stage: Stage, answer: ItemAnswer) {
        match stage {
            Stage::Untested => self.untested[position].insert(person.to_owned(), answer),
            Stage::Final => self.answers[position].insert(person.to_owned(), answer),
        };
        self.shown[position].remove(person);
        self.skipped.entry(person.to_owned()).or_default().retain(|at| *at != position);
        let answered = self.answered.entry(person.to_owned()).or_default();
        answered.retain(|(at, _)| *at != position);
        answered.push((position, stage));
    }

    /// Returns whether a person may be shown an item: they have not answered it, and it does not have `overlap` answers
    /// or reservations of others.
    fn is_open(&self, position: usize, person: &str, overlap: usize, now: Instant) -> bool {
        let (answers, shown) = (&self.answers[position], &self.shown[position]);
        let is_leased =
            |(other, shown): &(&String, &Instant)| *other != person && now.duration_since(**shown) < LEASE;
        !answers.contains_key(person) && answers.len() + shown.iter().filter(is_leased).count() < overlap
    }

    fn draft(&self, position: usize, person: &str) -> Option<&TestDraft> {
        let (at, draft) = self.tests.get(person)?;
        (*at == position).then_some(draft)
    }

    fn has_tested(&self, position: usize, person: &str) -> bool {
        self.tested[position].contains(person) || self.answers[position].contains_key(person)
    }
}

pub(crate) fn position(form: &Form, number: i64) -> Option<usize> {
    form.items.binary_search_by_key(&number, |item| item.number).ok()
}

#[cfg(test)]
mod tests {
    use quarry_judge::ledger::{Answers, Side};

    use super::*;
    use crate::guideline::Guideline;

    fn form(n: usize) -> Form {
        let pair = |number: usize| {
            let (query, code) = (format!("query {number}"), format!("def f{number}(): pass"));
            Subject::Answers(Answers {
                query_id: number.to_string(),
                query,
                sides: vec![Side { system: "s".to_owned(), codes: vec![code] }],
            })
        };
        Form::new(Guideline::named("results").unwrap(), false, 1, (0..n).map(pair).collect())
    }

    fn session(directory: &std::path::Path, n: usize, overlap: usize) -> Session {
        let writer = Writer::open(&directory.join("labels.ledger")).unwrap();
        let form = form(n);
        form.record(&writer).unwrap();
        Session::open(writer, form, overlap, None).unwrap()
    }

    fn answer(label: &str) -> ItemAnswer {
        ItemAnswer { label: label.to_owned(), ..ItemAnswer::default() }
    }

    /// An answer of `person`: the item, the label, and whether it may replace another one.
    fn submit(session: &Session, person: &str, answered: (i64, &str, bool), at: Instant) -> Submission {
        let (item, label, change) = answered;
        session.answer(person, item, Stage::Final, &answer(label), change, at).unwrap()
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
        assert_eq!(submit(&session, "a", (1, "3", false), now), Submission::New);
        assert_eq!(next("e", now), None);
        // An annotator left.
        assert_eq!(next("e", now + LEASE), Some(1));
        assert_eq!(session.finished(), (0, 2));
        assert_eq!(submit(&session, "e", (1, "0", false), now), Submission::New);
        assert_eq!(session.finished(), (1, 2));
    }

    #[test]
    fn answers_are_kept_once_and_change_on_purpose() {
        let directory = tempfile::tempdir().unwrap();
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(90));
        {
            let session = session(directory.path(), 3, 1);
            assert_eq!(session.next("a", now).unwrap().number, 1);
            for ((item, label, change), at, expected) in [
                ((1, "9", false), now, Submission::Unknown),
                ((7, "1", false), now, Submission::Unknown),
                ((1, "1", false), later, Submission::New),
                ((1, "1", false), later, Submission::Known),
                ((1, "2", false), later, Submission::Other(answer("1"))),
                ((1, "2", true), later, Submission::New),
            ] {
                assert_eq!(submit(&session, "a", (item, label, change), at), expected);
            }
            assert_eq!(session.last("a").unwrap().2, answer("2"));
            let minutes = session.writer.ledger().reply(&session.form.name, 1, "a").unwrap().unwrap().minutes;
            assert_eq!(minutes, None, "a change has no time of its own");
        }
        // Answers in the ledger are known when it is opened again.
        let session = session(directory.path(), 3, 1);
        assert_eq!(session.answer_of("a", 1, Stage::Final), Some(answer("2")));
        assert_eq!(session.next("a", now).unwrap().number, 2);
        session.skip("a", 2);
        assert_eq!(session.next("a", now).unwrap().number, 3);
        assert_eq!(submit(&session, "a", (3, "0", false), now), Submission::New);
        assert_eq!(session.next("a", now).unwrap().number, 2, "what was put off comes last");
        let other = session.next("b", now).map(|item| item.number);
        assert_eq!(other, None, "and is not open to others meanwhile");
        let progress = session.overview(&["a".to_owned(), "b".to_owned()]).unwrap().people;
        assert_eq!((progress[0].answered, progress[0].skipped, progress[1].answered), (2, 1, 0));
    }
}
