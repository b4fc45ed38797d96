//! Judging the pairs of a plan: workers ask, run and record until every pair has its verdict.

mod estimate;
mod generate;
pub(crate) mod waiting;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use quarry_llm::{Budget, CallControl, Client, Cost, Failure, LlmError, Origin};
use quarry_queue::Connection;
use quarry_sandbox::Runner;

use crate::error::JudgeError;
use crate::evidence::{Event, ModelAnswer, Run, TestProgram};
use crate::judge::{Next, Outcome, Question, Verdict};
use crate::language::Language;
use crate::ledger::{AnsweredQuestion, CallBegin, CallEnd, EventKey, Ledger, UnjudgedPair, Writer};
use crate::pairs::{self, CheckedPairs};
use crate::plan::Plan;
use crate::programs::{IsolatedPrograms, Programs};
use crate::remote::Remote;
use crate::reread::has_earlier_labels;

pub use estimate::{Estimate, SECONDS_PER_ANSWER, TypicalCost};
pub use generate::GenerationSummary;
use waiting::{RequestsInFlight, lock};

/// Number of pairs read from the ledger at a time.
const PAGE: usize = 64;

/// Number of consecutive failed pairs after which a common cause is assumed.
const MAX_FAILURES_IN_A_ROW: u32 = 25;

/// A plan whose pairs are in the ledger, ready to be judged.
pub struct Judging {
    plan: Plan,
    writer: Arc<Writer>,
    client: Client,
    executors: Executors,
    judge: i64,
    members: Vec<Judging>,
}

/// Runs programs and calls models.
#[derive(Clone, Default)]
struct Executors {
    programs: Option<Arc<dyn Programs>>,
    remote: Option<Arc<Remote>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Decided(Outcome),
    Failed,
}

enum StepError {
    Pair(String),
    All(JudgeError),
    Stop,
}

impl From<JudgeError> for StepError {
    fn from(error: JudgeError) -> Self {
        Self::All(error)
    }
}

impl Judging {
    /// Checks everything that a plan needs, and records its pairs in the ledger. No question is asked yet.
    ///
    /// # Errors
    /// When pairs cannot be judged, a runtime or the key is missing, or the ledger cannot be used.
    pub fn prepare(plan: Plan, sandbox: Option<IsolatedPrograms>) -> Result<Self, JudgeError> {
        let checked = pairs::check(&plan)?;
        if plan.judge.runs_tests() {
            let Some(programs) = &sandbox else {
                return Err(JudgeError::Plan {
                    path: plan.path,
                    problem: "this judge runs programs, but there is no sandbox".to_owned(),
                });
            };
            for language in &checked.languages {
                if let Some(packages) = &programs.packages {
                    packages.check(language)?;
                }
                if let Some(problem) = programs.problem(Runner::named(language)?)? {
                    let problem =
                        format!("there are pairs in {language}, but {problem}, or leave these pairs out");
                    return Err(JudgeError::Plan { path: plan.path, problem });
                }
            }
        }
        // Invalid settings are detected before a ledger is created.
        for member in plan.members.iter().chain([&plan]) {
            member.client(plan.budget(Cost::default()), None)?;
        }
        let programs = sandbox.map(|sandbox| Arc::new(sandbox) as Arc<dyn Programs>);
        Self::record(plan, &checked, |_| Ok(Executors { programs, remote: None }))
    }

    /// Like [`Judging::prepare`], but workers that are connected to the same server run programs and call models.
    /// Without a connection, the costs can be estimated, but nothing can be run.
    ///
    /// # Errors
    /// When pairs cannot be judged, or the ledger cannot be used; [`JudgeError::Stopped`] when the user stopped
    /// before the server was reached.
    pub fn prepare_for_workers(plan: Plan, connection: Option<&Connection>) -> Result<Self, JudgeError> {
        let plan = plan.for_workers()?;
        let packages = plan.packages.clone();
        let checked = pairs::check(&plan)?;
        Self::record(plan, &checked, |ledger| {
            let Some(connection) = connection else { return Ok(Executors::default()) };
            let remote = Arc::new(Remote::new(connection, &ledger.identity()?, packages)?);
            Ok(Executors { programs: Some(Arc::clone(&remote) as Arc<dyn Programs>), remote: Some(remote) })
        })
    }

    fn record(
        plan: Plan,
        checked: &CheckedPairs,
        executors: impl FnOnce(&Ledger) -> Result<Executors, JudgeError>,
    ) -> Result<Self, JudgeError> {
        let writer = Arc::new(Writer::open(&plan.ledger)?);
        // Judging everything again costs money; reading the evidence again does not.
        if has_earlier_labels(writer.ledger(), &plan)? {
            return Err(JudgeError::Ledger {
                path: plan.ledger,
                problem: "its labels of this plan are from an earlier version of quarry: `quarry judge run --reread \
                          PLAN` reinterprets them without asking a model; name another ledger to judge everything again"
                    .to_owned(),
                source: None,
            });
        }
        let executors = executors(writer.ledger())?;
        let budget = plan.budget(writer.ledger().spent()?[0]);
        pairs::note(checked, &plan, &writer)?;
        Self::start(plan, &writer, &executors, &budget)
    }

    /// Records the start of a plan, after those of its members.
    fn start(
        plan: Plan,
        writer: &Arc<Writer>,
        executors: &Executors,
        budget: &Budget,
    ) -> Result<Self, JudgeError> {
        let members = (plan.members.iter().cloned())
            .map(|member| Self::start(member, writer, executors, budget))
            .collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<i64> = members.iter().map(|member| member.judge).collect();
        let client = plan.client(budget.clone(), executors.remote.as_ref())?;
        let judge = writer.start(&plan, &numbers)?;
        let (writer, executors) = (Arc::clone(writer), executors.clone());
        Ok(Self { plan, writer, client, executors, judge, members })
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn ledger(&self) -> (&Ledger, i64) {
        (self.writer.ledger(), self.judge)
    }

    /// A pair without a verdict, and the reason: it failed this time or was never reached.
    pub fn unjudged(&self) -> Result<Option<(String, String)>, JudgeError> {
        for Self { judge, .. } in self.judges() {
            let found = self.writer.ledger().failed(*judge)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Amount booked on the budget, including earlier runs.
    pub fn spent(&self) -> Cost {
        self.client.budget().spending().spent
    }

    /// Judges until every pair has a verdict or has failed this time, or `stop` is set. All answers and runs are in
    /// the ledger at any moment. Members of a majority work concurrently if they use different servers; those with
    /// the same server work one after the other, so that its rate limits are kept and it needs to load only one model
    /// at a time.
    ///
    /// # Errors
    /// When an error affects all pairs: the key, the budget, the recording, the ledger, the sandbox.
    pub fn run(&self, stop: &AtomicBool, progress: &(dyn Fn(Progress) + Sync)) -> Result<(), JudgeError> {
        let mut of_server: BTreeMap<String, Vec<&Self>> = BTreeMap::new();
        for member in self.judges() {
            of_server.entry(member.plan.server()?).or_default().push(member);
        }
        let failed = AtomicBool::new(false);
        let is_over = || stop.load(Ordering::SeqCst) || failed.load(Ordering::SeqCst);
        let work = |members: Vec<&Self>| {
            let result = members.into_iter().try_for_each(|member| member.work(&is_over, progress));
            failed.fetch_or(result.is_err(), Ordering::SeqCst);
            result
        };
        let results: Vec<Result<(), JudgeError>> = thread::scope(|scope| {
            let start = |members| scope.spawn(|| work(members));
            let servers: Vec<_> = of_server.into_values().map(start).collect();
            servers
                .into_iter()
                .map(|server| server.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        // If one fails, the others are stopped.
        let (stopped, failed): (Vec<_>, Vec<_>) = (results.into_iter().filter_map(Result::err))
            .partition(|error| matches!(error, JudgeError::Stopped));
        if let Some(error) = failed.into_iter().chain(stopped).next() {
            return Err(error);
        }
        self.executors.remote.as_ref().map_or(Ok(()), |remote| remote.clear())
    }

    /// The judges whose verdicts decide: the members of a majority, otherwise the judge itself.
    fn judges(&self) -> &[Self] {
        if self.members.is_empty() { std::slice::from_ref(self) } else { &self.members }
    }

    /// Judges the pairs without a verdict.
    fn work(&self, is_over: &ShouldStop<'_>, progress: &(dyn Fn(Progress) + Sync)) -> Result<(), JudgeError> {
        let shared = SharedState::new(self, is_over);
        let waiting = Mutex::new(self.waiting());
        thread::scope(|scope| {
            for _ in 0..self.plan.workers {
                scope.spawn(|| shared.work(&waiting, progress));
            }
        });
        if let Some(error) = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        if is_over() { Err(JudgeError::Stopped) } else { Ok(()) }
    }

    fn waiting(&self) -> WaitingPairs<'_> {
        WaitingPairs { judging: self, page: Vec::new().into_iter(), after: 0 }
    }
}

/// Pairs without a verdict, which are read from the ledger in pages.
struct WaitingPairs<'a> {
    judging: &'a Judging,
    page: std::vec::IntoIter<UnjudgedPair>,
    /// The number of the last pair read.
    after: i64,
}

impl Iterator for WaitingPairs<'_> {
    type Item = Result<UnjudgedPair, JudgeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 {
            match self.judging.writer.ledger().waiting(self.judging.judge, self.after, PAGE) {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        let pair = self.page.next()?;
        self.after = pair.number;
        Some(Ok(pair))
    }
}

/// Returns true if no new work should be started.
type ShouldStop<'a> = dyn Fn() -> bool + Sync + 'a;

struct SharedState<'a> {
    judging: &'a Judging,
    stop: &'a ShouldStop<'a>,
    failed: Mutex<Option<JudgeError>>,
    failures_in_a_row: AtomicU32,
    asked: RequestsInFlight,
}

impl<'a> SharedState<'a> {
    fn new(judging: &'a Judging, stop: &'a ShouldStop<'a>) -> Self {
        Self {
            judging,
            stop,
            failed: Mutex::new(None),
            failures_in_a_row: AtomicU32::new(0),
            asked: RequestsInFlight::default(),
        }
    }

    fn is_over(&self) -> bool {
        (self.stop)() || lock(&self.failed).is_some()
    }

    fn work(&self, waiting: &Mutex<WaitingPairs<'_>>, progress: &(dyn Fn(Progress) + Sync)) {
        while !self.is_over() {
            let next = lock(waiting).next();
            let pair = match next {
                None => return,
                Some(Err(error)) => return self.fail(error),
                Some(Ok(pair)) => pair,
            };
            let number = pair.number;
            match self.judge(pair) {
                Ok(outcome) => {
                    self.passed();
                    progress(Progress::Decided(outcome));
                }
                Err(StepError::Stop) => return,
                Err(StepError::All(error)) => return self.fail(error),
                Err(StepError::Pair(reason)) => {
                    let key = EventKey::of_pair(self.judging.judge, number);
                    if let Err(error) = self.judging.writer.add_failure(key, &reason) {
                        return self.fail(error);
                    }
                    progress(Progress::Failed);
                    if let Err(error) = self.record_failure(&reason) {
                        return self.fail(error);
                    }
                }
            }
        }
    }

    /// Records a success, which resets the count of failures in a row.
    fn passed(&self) {
        self.failures_in_a_row.store(0, Ordering::Relaxed);
    }

    /// Records a failure; returns an error if there were too many in a row.
    fn record_failure(&self, reason: &str) -> Result<(), JudgeError> {
        let in_a_row = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        match in_a_row < MAX_FAILURES_IN_A_ROW {
            true => Ok(()),
            false => Err(JudgeError::Failures { in_a_row, last: reason.to_owned() }),
        }
    }

    fn fail(&self, error: JudgeError) {
        lock(&self.failed).get_or_insert(error);
        if let Some(remote) = &self.judging.executors.remote {
            remote.withdraw();
        }
    }

    fn judge(&self, waiting: UnjudgedPair) -> Result<Outcome, StepError> {
        let UnjudgedPair { number, pair, mut events } = waiting;
        let judge = &self.judging.plan.judge;
        let next =
            |events: &[Event]| judge.next(&pair, events).map_err(|wrong| StepError::Pair(wrong.to_string()));
        let mut step = next(&events)?;
        loop {
            if self.is_over() {
                return Err(StepError::Stop);
            }
            let position = events.len() as i64;
            let key =
                |optional_step| EventKey { judge: self.judging.judge, pair: number, position, optional_step };
            match step {
                Next::Decide(verdict) => {
                    let outcome = verdict.outcome;
                    self.judging.writer.add_verdict(key(None), verdict)?;
                    return Ok(outcome);
                }
                Next::Run(program) => {
                    let run = self.run(program, &pair.code)?;
                    if let Some(language) = Language::named(&run.program.language) {
                        self.judging.writer.add_run(key(run.program.optional_step), &run, language)?;
                        if let Some(programs) = &self.judging.executors.programs {
                            programs.noted(&run.program, &pair.code, &self.judging.plan.limits);
                        }
                    }
                    events.push(Event::Run(run));
                    step = next(&events)?;
                }
                Next::Ask(question) => {
                    // The verdict that follows from an answer is recorded in the same transaction.
                    let mut following = Err(StepError::Stop);
                    self.ask(number, Some(key(question.optional_step)), question, &mut |answer| {
                        events.push(Event::Answer(answer));
                        following = next(&events);
                        match &following {
                            Ok(Next::Decide(verdict)) => Some(verdict.clone()),
                            _ => None,
                        }
                    })?;
                    step = following?;
                    if let Next::Decide(Verdict { outcome, .. }) = step {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    fn run(&self, program: TestProgram, code: &str) -> Result<Run, StepError> {
        let Some(programs) = &self.judging.executors.programs else {
            return Err(StepError::Pair("there is no sandbox to run a program in".to_owned()));
        };
        match programs.run(program, code, &self.judging.plan.limits) {
            Err(JudgeError::Stopped) => Err(StepError::Stop),
            Err(error @ (JudgeError::Packages(_) | JudgeError::Unrunnable { .. })) => {
                Err(StepError::Pair(error.to_string()))
            }
            run => Ok(run?),
        }
    }

    /// Asks for a pair, and stores the answer, under its key if it has one, with the verdict that `take` derives.
    /// Questions with an answer in the ledger are not asked again.
    fn ask(
        &self,
        pair: i64,
        key: Option<EventKey>,
        question: Question,
        take: &mut dyn FnMut(ModelAnswer) -> Option<Verdict>,
    ) -> Result<(), StepError> {
        let Judging { writer, client, plan, .. } = self.judging;
        let Question { prompt, version, request, optional_step: _ } = question;
        let name = client.chat_name(&request);
        // If the same request is already in flight, its answer serves both.
        let _asked = self.asked.enter(&name);
        if let Some(text) = writer.ledger().answer(&name)? {
            let verdict = take(ModelAnswer { prompt: prompt.clone(), text });
            let Some(key) = key else { return Ok(()) };
            return Ok(writer.add_known_answer(key, &prompt, &name, verdict)?);
        }
        let estimate = client.estimate_chat(std::slice::from_ref(&request)).map_err(JudgeError::Model)?;
        // Recorded or cached answers, and ones missing from a recording, do not lead to a request.
        let begin = CallBegin { pair, request: &name, worst: estimate.worst };
        // Each attempt is recorded just before it is sent, so that no more than that is booked if it is interrupted.
        let mut calls: Vec<Result<i64, JudgeError>> = Vec::new();
        let start = Instant::now();
        let mut sending = || {
            calls.push(writer.begin_call(&begin));
            calls.last().is_some_and(Result::is_ok)
        };
        let watch = CallControl { sending: &mut sending, is_over: &|| self.is_over() };
        let (answer, booked) = client.chat_with_cost(&request, watch);
        let seconds = start.elapsed().as_secs_f64();
        let mut ends = Vec::new();
        for (attempt, call) in calls.into_iter().enumerate() {
            // The booking of all attempts is recorded with the first one.
            let (booked, seconds) = if attempt == 0 { (booked, seconds) } else { Default::default() };
            ends.push(CallEnd { call: call?, booked, seconds });
        }
        match answer {
            Ok(answer) => {
                let verdict = take(ModelAnswer { prompt: prompt.clone(), text: answer.text.clone() });
                let answered = AnsweredQuestion {
                    request: &name,
                    model: &client.name(),
                    prompt: &version,
                    messages: &request.messages,
                    money: answer.usage.map_or(0, |usage| plan.price.cost(usage).money.units()),
                    answer: &answer,
                    seconds: if answer.origin == Origin::Endpoint { seconds } else { 0.0 },
                };
                writer.add_answer(key, &prompt, &answered, ends, verdict)?;
                if let Some(remote) = &self.judging.executors.remote {
                    remote.noted(&name);
                }
                Ok(client.check_kept().map_err(JudgeError::from)?)
            }
            Err(error) => {
                let reason = error.to_string();
                writer.end_calls(ends, &reason)?;
                Err(match error {
                    LlmError::Failed { failure: Failure::Withdrawn, .. } => StepError::Stop,
                    error if affects_all_pairs(&error) => StepError::All(error.into()),
                    _ => StepError::Pair(reason),
                })
            }
        }
    }
}

/// Returns whether an error would affect the next pair as well.
pub(crate) fn affects_all_pairs(error: &LlmError) -> bool {
    match error {
        LlmError::Settings { .. }
        | LlmError::Key { .. }
        | LlmError::Budget { .. }
        | LlmError::NotRecorded { .. }
        | LlmError::Store { .. } => true,
        LlmError::Failed { failure, .. } => match failure {
            Failure::Unauthorized { .. } | Failure::AskedToWait { .. } => true,
            Failure::Status { status, quota_used_up, .. } => {
                // A permanent redirect means that the API is elsewhere.
                *quota_used_up || matches!(status, 300 | 301 | 308 | 404)
            }
            _ => false,
        },
    }
}
