//! Rate limiting: concurrent calls and tokens per minute, which shrink when the server refuses calls and grow while
//! it does not.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// Minimum number of calls in a minute for a refusal to be evidence of a limit of tokens per minute.
const MIN_SIGNIFICANT_CALLS: usize = 12;

/// Minimum share of refusals for such evidence: a server that limits tokens refuses most calls for a while.
const SIGNIFICANT_SHARE: f64 = 0.25;

/// Relative increase, per answer, of a rate that is based on a single event.
const GUESS_GROWTH: f64 = 0.1;

/// The weight of one call in the moving share of refused calls.
const SHARE_WEIGHT: f64 = 0.05;

/// Time at which a call may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Now,
    /// Not before this time; ask again then.
    At(Duration),
    /// Not before this time, at the server's request; ask again then.
    Paused(Duration),
    /// When another call has ended; ask again then.
    Later,
}

/// Outcome of a call, for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Answered,
    /// The server refused it because of its load, possibly with a time to wait.
    Refused(Option<Duration>),
    /// It failed in a way that is unrelated to the load.
    Failed,
}

/// The state of a [`Limiter`]. Times are relative to its start, and passed by the caller.
///
/// The number of concurrent calls follows additive increase and multiplicative decrease, as TCP's window does (Chiu
/// and Jain, 1989): it is halved after a refusal, and grows by one for each round of answers. Tokens per minute are a
/// token bucket with a capacity of ten seconds; the first significant refusal without a time to wait sets its rate to
/// the tokens sent in the last minute, later ones lower it by a fifth, at most every half minute. Refusals are
/// significant if a quarter of the last calls were refused, a twelfth once there is a rate. Each minute's worth of
/// answers raises the rate by a quarter, and doubles it if it was not lowered for two minutes, up to the setting;
/// until it was lowered once, each answer raises it by a tenth, because the server's problem may have been
/// momentary.
#[derive(Debug)]
struct Pace {
    max_calls: f64,
    calls: f64,
    in_flight: u32,
    max_rate: Option<f64>,
    rate: Option<f64>,
    tokens: f64,
    refilled: Duration,
    sent: VecDeque<(Duration, u64)>,
    /// Earliest time for the next call, as requested by the server.
    pause_until: Duration,
    /// Time at which the number of calls was last lowered. Refusals of calls that started earlier belong to the
    /// same event.
    lowered: Option<Duration>,
    /// Time at which the rate was last lowered.
    rate_lowered: Option<Duration>,
    /// Share of refused calls: an exponential moving average.
    refused_share: f64,
    /// True if the rate is based on a single event, and nothing was refused since.
    guessed: bool,
}

impl Pace {
    fn new(max_calls: u32, max_rate: Option<u64>) -> Self {
        let max_rate = max_rate.map(|rate| rate as f64);
        Self {
            max_calls: f64::from(max_calls),
            calls: f64::from(max_calls),
            in_flight: 0,
            max_rate,
            rate: max_rate,
            tokens: max_rate.map_or(0.0, capacity),
            refilled: Duration::ZERO,
            sent: VecDeque::new(),
            pause_until: Duration::ZERO,
            lowered: None,
            rate_lowered: None,
            refused_share: 0.0,
            guessed: false,
        }
    }

    /// Starts a call of about `tokens`, or returns the time to ask again.
    fn start(&mut self, tokens: u64, now: Duration) -> Admission {
        if now < self.pause_until {
            return Admission::Paused(self.pause_until);
        }
        if f64::from(self.in_flight) + 1.0 > self.calls.max(1.0) {
            return Admission::Later;
        }
        if let Some(rate) = self.rate {
            let capacity = capacity(rate);
            let since = now.saturating_sub(self.refilled).as_secs_f64();
            self.tokens = (self.tokens + rate / 60.0 * since).min(capacity);
            // A call that is larger than the bucket starts when the bucket is full, and leaves a debt.
            let missing = (tokens as f64).min(capacity) - self.tokens;
            self.refilled = now;
            // Less than a token is a rounding error, not worth waiting for.
            if missing > 0.5 {
                return Admission::At(
                    now + Duration::from_secs_f64((missing / rate * 60.0).clamp(0.001, 3600.0)),
                );
            }
            self.tokens -= tokens as f64;
        }
        self.in_flight += 1;
        self.sent.push_back((now, tokens));
        while self.sent.front().is_some_and(|(at, _)| *at + MINUTE < now) {
            self.sent.pop_front();
        }
        Admission::Now
    }

    /// Ends a call of about `tokens` that started at `started`.
    fn end(&mut self, tokens: u64, started: Duration, now: Duration, ending: CallOutcome) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let refused = f64::from(u8::from(matches!(ending, CallOutcome::Refused(_))));
        self.refused_share += SHARE_WEIGHT * (refused - self.refused_share);
        match ending {
            CallOutcome::Failed => {}
            CallOutcome::Answered => {
                self.calls = (self.calls + 1.0 / self.calls).min(self.max_calls);
                if let Some(rate) = &mut self.rate {
                    let recent = self.rate_lowered.is_some_and(|lowered| now < lowered + 2 * MINUTE);
                    let share = if recent { 0.25 } else { 1.0 };
                    let more = if self.guessed { *rate * GUESS_GROWTH } else { share * tokens as f64 };
                    *rate = (*rate + more).min(self.max_rate.unwrap_or(f64::INFINITY));
                }
            }
            CallOutcome::Refused(wait) => {
                self.pause_until = self.pause_until.max(now.saturating_add(wait.unwrap_or_default()));
                if self.lowered.is_none_or(|lowered| lowered <= started) {
                    self.lowered = Some(now);
                    self.calls = (self.calls / 2.0).max(1.0);
                }
                self.sent.retain(|(at, _)| *at + MINUTE >= now);
                // If the server states a time to wait, its limit of tokens per minute need not be guessed.
                let is_unguided = self.rate.is_none()
                    && (wait.is_some()
                        || self.sent.len() < MIN_SIGNIFICANT_CALLS
                        || self.refused_share < SIGNIFICANT_SHARE);
                if is_unguided || self.refused_share < SIGNIFICANT_SHARE / 3.0 {
                    return;
                }
                let last_minute: u64 = self.sent.iter().map(|(_, tokens)| tokens).sum();
                // A server with a limit per minute refuses until the minute is over, regardless of the pace.
                if self.rate_lowered.is_none_or(|lowered| lowered + MINUTE / 2 <= now) {
                    self.rate_lowered = Some(now);
                    self.guessed = self.rate.is_none();
                    let rate = self.rate.map_or(last_minute as f64, |rate| rate * 0.8);
                    self.rate = Some(rate.max(60.0));
                }
                self.tokens = self.tokens.min(0.0);
                self.refilled = now;
            }
        }
    }
}

/// Interval at which waits check for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for `time`; returns false if `is_over` ended the wait early.
pub(crate) fn sleep(time: Duration, is_over: &dyn Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_over() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaceError {
    /// It would start after the deadline.
    Late,
    /// It would start after the deadline, because the server asks to wait this long.
    Paused(Duration),
    Canceled,
}

fn capacity(rate: f64) -> f64 {
    rate / 6.0
}

/// Delays calls to match the pace that a server accepts.
#[derive(Debug)]
pub(crate) struct Limiter {
    start: Instant,
    pace: Mutex<Pace>,
    changed: Condvar,
}

impl Limiter {
    /// At most `calls` concurrent calls and `rate` tokens per minute.
    pub(crate) fn new(calls: u32, rate: Option<u64>) -> Self {
        Self { start: Instant::now(), pace: Mutex::new(Pace::new(calls, rate)), changed: Condvar::new() }
    }

    /// Waits until a call of about `tokens` may start, or until `is_over` returns true.
    pub(crate) fn turn(
        &self,
        tokens: u64,
        deadline: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Permit<'_>, PaceError> {
        let last = deadline.saturating_duration_since(self.start);
        let mut pace = self.lock();
        loop {
            if is_over() {
                return Err(PaceError::Canceled);
            }
            let now = self.start.elapsed();
            let until = match pace.start(tokens, now) {
                Admission::Now => {
                    return Ok(Permit { limiter: self, tokens, started: now, ending: CallOutcome::Failed });
                }
                Admission::Paused(at) if at > last => return Err(PaceError::Paused(at.saturating_sub(now))),
                Admission::Paused(at) | Admission::At(at) => at,
                Admission::Later => last,
            };
            if now >= last || until > last {
                return Err(PaceError::Late);
            }
            let waited = self.changed.wait_timeout(pace, until.saturating_sub(now).min(POLL_INTERVAL));
            pace = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Permit<'a> {
    limiter: &'a Limiter,
    tokens: u64,
    started: Duration,
    ending: CallOutcome,
}

impl Permit<'_> {
    pub(crate) fn end(mut self, ending: CallOutcome) {
        self.ending = ending;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let now = self.limiter.start.elapsed();
        self.limiter.lock().end(self.tokens, self.started, now, self.ending);
        self.limiter.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_refusal_halves_the_calls_once_and_answers_bring_them_back() {
        let mut pace = Pace::new(16, None);
        for _ in 0..16 {
            assert_eq!(pace.start(100, SECOND), Admission::Now);
        }
        assert_eq!(pace.start(100, SECOND), Admission::Later);
        for _ in 0..16 {
            pace.end(100, SECOND, 2 * SECOND, CallOutcome::Refused(Some(3 * SECOND)));
        }
        assert_eq!((pace.calls, pace.rate), (8.0, None), "one event, and the server says when to come back");
        assert_eq!(
            pace.start(1, 4 * SECOND),
            Admission::Paused(5 * SECOND),
            "the server's wish holds for all calls"
        );
        for _ in 0..200 {
            pace.end(100, 6 * SECOND, 7 * SECOND, CallOutcome::Answered);
        }
        assert_eq!(pace.calls, 16.0);
        pace.end(100, 7 * SECOND, 8 * SECOND, CallOutcome::Refused(None));
        assert_eq!((pace.calls, pace.rate), (8.0, None), "one among many answers");
        for _ in 0..6 {
            pace.end(100, 7 * SECOND, 8 * SECOND, CallOutcome::Refused(None));
        }
        assert_eq!((pace.calls, pace.rate), (8.0, Some(1600.0)), "what was sent in the last minute");
    }

    /// Simulates a server that refuses more than `limit` tokens per minute: returns how many calls of 1000 tokens it
    /// answers in ten minutes, and how many it refuses.
    fn simulate(limit: u64) -> (usize, usize) {
        let mut pace = Pace::new(16, None);
        let mut running: Vec<(Duration, CallOutcome)> = Vec::new();
        let (mut taken, mut answered, mut refused) = (VecDeque::<Duration>::new(), 0, 0);
        for tick in 0..6000 {
            let now = Duration::from_millis(tick * 100);
            running.retain(|&(started, ending)| {
                let over = now >= started + SECOND;
                if over {
                    pace.end(1000, started, now, ending);
                }
                !over
            });
            while pace.start(1000, now) == Admission::Now {
                taken.retain(|at| *at + MINUTE > now);
                let ending = if taken.len() as u64 * 1000 < limit {
                    taken.push_back(now);
                    answered += 1;
                    CallOutcome::Answered
                } else {
                    refused += 1;
                    CallOutcome::Refused(None)
                };
                running.push((now, ending));
            }
        }
        (answered, refused)
    }

    #[test]
    fn the_pace_settles_near_what_a_server_takes() {
        for limit in [30_000, 120_000, 600_000] {
            let (answered, refused) = simulate(limit);
            let possible = limit as usize / 1000 * 10;
            assert!(answered * 100 >= possible * 70, "{limit}: {answered} of {possible} answered");
            assert!(refused * 100 <= answered * 20, "{limit}: {refused} refused, {answered} answered");
        }
    }

    #[test]
    fn a_server_that_refuses_now_and_then_is_not_taken_for_one_that_counts_tokens() {
        let (mut pace, mut now) = (Pace::new(16, None), Duration::ZERO);
        for round in 0..2000u32 {
            let mut started = 0;
            while pace.start(1000, now) == Admission::Now {
                started += 1;
            }
            assert!(started > 0, "round {round}");
            let before = now;
            now += SECOND / 20;
            for call in 0..started {
                let refused = (round * 7 + call * 5) % 13 == 0;
                pace.end(
                    1000,
                    before,
                    now,
                    if refused { CallOutcome::Refused(None) } else { CallOutcome::Answered },
                );
            }
        }
        assert_eq!(pace.rate, None);
    }

    #[test]
    fn a_moment_of_refusals_is_soon_forgotten() {
        let (mut pace, mut now, mut answered) = (Pace::new(16, None), SECOND, 0);
        for _ in 0..16 {
            assert_eq!(pace.start(1000, now), Admission::Now);
        }
        for _ in 0..16 {
            pace.end(1000, now, now, CallOutcome::Refused(None));
        }
        assert_eq!(pace.rate, Some(16_000.0));
        while now < 60 * SECOND {
            match pace.start(1000, now) {
                Admission::At(at) | Admission::Paused(at) => now = at,
                _ => {
                    pace.end(1000, now, now, CallOutcome::Answered);
                    answered += 1;
                    now += SECOND / 100;
                }
            }
        }
        assert!(answered > 1000, "{answered} of 6000");
    }

    proptest! {
        /// Regardless of the calls, no minute contains more tokens than the setting, a full bucket and one call
        /// together; and waiting for the stated time always leads to a turn.
        #[test]
        fn the_setting_bounds_each_minute(
            rate in 60u64..100_000, calls in prop::collection::vec((1u64..5000, 0u64..3000), 1..60),
        ) {
            let mut pace = Pace::new(1000, Some(rate));
            let (mut now, mut sent) = (Duration::ZERO, Vec::new());
            for (tokens, pause) in calls {
                now += Duration::from_millis(pause);
                let mut tries = 0;
                while let Admission::At(at) | Admission::Paused(at) = pace.start(tokens, now) {
                    prop_assert!(at > now);
                    now = at;
                    tries += 1;
                    prop_assert!(tries < 500);
                }
                sent.push((now, tokens));
            }
            for &(from, _) in &sent {
                let within = sent.iter().filter(|(at, _)| (from..from + MINUTE).contains(at));
                let sum: u64 = within.map(|(_, tokens)| tokens).sum();
                prop_assert!(sum as f64 <= rate as f64 + capacity(rate as f64) + 5000.0 + 60.0, "{sum} at {rate}");
            }
        }

        /// The number of concurrent calls stays between the minimum for making progress and the setting.
        #[test]
        fn calls_stay_within_bounds(most in 1u32..50, endings in prop::collection::vec(0u8..3, 0..200)) {
            let mut pace = Pace::new(most, None);
            for (index, ending) in endings.into_iter().enumerate() {
                let now = SECOND * index as u32;
                let ending = [CallOutcome::Answered, CallOutcome::Refused(None), CallOutcome::Failed][usize::from(ending)];
                pace.end(10, now, now, ending);
                prop_assert!((1.0..=f64::from(most)).contains(&pace.calls));
            }
        }
    }
}
