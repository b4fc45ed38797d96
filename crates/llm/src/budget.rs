//! Budgets: limits, spending, and reservations for calls in flight.
//!
//! A call reserves its worst case before it is sent. Its actual cost is then booked instead; if that is unknown, the
//! worst case is booked. So bookings and reservations together stay within the limits, unless a server counts more
//! than a call could use. That is booked too, as it may be billed, and from then on nothing can be reserved: only
//! calls that are in flight at that moment can exceed a limit.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Tokens of a call, as counted by the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    /// Tokens written by the model, including hidden reasoning.
    pub output_tokens: u64,
}

/// An amount of money in units of 10⁻¹² dollars, in which the price of one token is an integer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Money(u64);

impl Money {
    const PER_DOLLAR: f64 = 1e12;

    /// `dollars`, rounded up; `None` if negative, not finite, or above 18 million.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        // The error of a decimal price as a binary fraction is not rounded up.
        let units = (dollars * Self::PER_DOLLAR - 1e-3).ceil();
        (dollars >= 0.0 && units < u64::MAX as f64).then_some(Self(units as u64))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR
    }

    /// The amount in units of 10⁻¹² dollars, for storage.
    pub fn units(self) -> u64 {
        self.0
    }

    /// The amount from units of 10⁻¹² dollars.
    pub fn from_units(units: u64) -> Self {
        Self(units)
    }

    fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "${:.6}", self.dollars())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    pub input: Money,
    pub output: Money,
}

impl Price {
    pub fn cost(&self, usage: Usage) -> Cost {
        Cost {
            tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            money: self.input.times(usage.input_tokens) + self.output.times(usage.output_tokens),
        }
    }
}

/// Tokens in both directions, and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub tokens: u64,
    /// Their price; zero if the settings specify no price.
    pub money: Money,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.money = self.money + other.money;
    }
}

impl Cost {
    fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            money: Money(self.money.0.saturating_sub(other.money.0)),
        }
    }

    fn plus(mut self, other: Self) -> Self {
        self += other;
        self
    }

    /// The price in dollars; `None` for tokens without a price, whose cost is unknown rather than zero.
    pub fn dollars(&self) -> Option<f64> {
        (self.money > Money::default() || self.tokens == 0).then(|| self.money.dollars())
    }

    /// Returns whether it is more than `other` in tokens or in money.
    fn exceeds(&self, other: Self) -> bool {
        self.tokens > other.tokens || self.money > other.money
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} tokens", self.tokens)?;
        if self.money > Money::default() { write!(formatter, ", {}", self.money) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Booked {
    pub cost: Cost,
    /// Part of that booked at the worst case, for attempts of unknown cost.
    pub unconfirmed: Cost,
}

impl Booked {
    /// A cost that a server reported.
    pub fn counted(cost: Cost) -> Self {
        Self { cost, unconfirmed: Cost::default() }
    }

    /// The worst case, for an unknown cost.
    pub fn worst(worst: Cost) -> Self {
        Self { cost: worst, unconfirmed: worst }
    }
}

impl AddAssign for Booked {
    fn add_assign(&mut self, other: Self) {
        self.cost += other.cost;
        self.unconfirmed += other.unconfirmed;
    }
}

/// Limits on spending; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub tokens: Option<u64>,
    pub money: Option<Money>,
}

impl Limits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn allow(&self, cost: Cost) -> bool {
        self.tokens.is_none_or(|limit| cost.tokens <= limit)
            && self.money.is_none_or(|limit| cost.money <= limit)
    }
}

/// Why a call cannot be paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error(
        "the budget is too small for the next call: {spent} are spent, the call may cost {worst}, and the limit is {}; \
         raise the limit, or lower `max_output_tokens` of the request",
        describe(.limits)
    )]
    Exhausted { limits: Limits, spent: Cost, worst: Cost },
    #[error(
        "the server counted {counted} for a call for which {reserved} were reserved, so the limit of {} cannot be \
         guaranteed, and nothing more is sent; check how the server counts, or remove the limit",
        describe(.limits)
    )]
    Overrun { limits: Limits, counted: Cost, reserved: Cost },
}

fn describe(limits: &Limits) -> String {
    let parts =
        [limits.tokens.map(|tokens| format!("{tokens} tokens")), limits.money.map(|money| money.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A snapshot of a budget's spending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spending {
    pub spent: Cost,
    /// Part of that booked at the worst case, because the answer was late, truncated or unparsable.
    pub unconfirmed: Cost,
    /// Total reserved for calls in flight.
    pub reserved: Cost,
    pub calls: u64,
}

/// A shared budget. Clones refer to the same budget.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    limits: Limits,
    accounts: Arc<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spending: Spending,
    /// The counted and the reserved cost of the first call that cost more than was reserved.
    overrun: Option<(Cost, Cost)>,
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    /// A budget with `limits`, of which `spent` is already used, for example by an earlier run.
    pub fn new(limits: Limits, spent: Cost) -> Self {
        let state = State { spending: Spending { spent, ..Spending::default() }, overrun: None };
        Self { limits, accounts: Arc::new(Accounts { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Current bookings and reservations.
    pub fn spending(&self) -> Spending {
        self.accounts.lock().spending
    }

    /// Reserves `worst`. If it does not fit because of other reservations, waits for these until `deadline`: most
    /// calls cost less than their worst case.
    ///
    /// # Errors
    /// [`BudgetError`] if it does not fit beside the booked amount, nothing was released in time, or limits can no
    /// longer be guaranteed.
    pub fn reserve(&self, worst: Cost, deadline: Instant) -> Result<Reservation, BudgetError> {
        let limits = self.limits;
        let mut state = self.accounts.lock();
        loop {
            self.check(&state)?;
            let Spending { spent, reserved, .. } = state.spending;
            if limits.allow(spent.plus(reserved).plus(worst)) {
                state.spending.reserved += worst;
                return Ok(Reservation { accounts: Arc::clone(&self.accounts), worst, settled: false });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !limits.allow(spent.plus(worst)) || left.is_zero() {
                return Err(BudgetError::Exhausted { limits, spent, worst });
            }
            let waited = self.accounts.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether calls with an earlier reservation may still be sent.
    ///
    /// # Errors
    /// [`BudgetError::Overrun`] if limits can no longer be guaranteed.
    pub(crate) fn check_overrun(&self) -> Result<(), BudgetError> {
        self.check(&self.accounts.lock())
    }

    fn check(&self, state: &State) -> Result<(), BudgetError> {
        match state.overrun {
            Some((counted, reserved)) if !self.limits.is_none() => {
                Err(BudgetError::Overrun { limits: self.limits, counted, reserved })
            }
            _ => Ok(()),
        }
    }
}

/// The reservation of a call in flight. Dropping it books the worst case, so that no code path can forget it.
#[derive(Debug)]
pub struct Reservation {
    accounts: Arc<Accounts>,
    worst: Cost,
    settled: bool,
}

impl Reservation {
    /// Books the actual cost. If a server counts more than was reserved, a budget with a limit allows no more
    /// reservations.
    pub fn settle(mut self, cost: Cost) {
        self.close(cost, Cost::default(), 1);
    }

    /// Books nothing: the call was not made, or was rejected.
    pub fn release(mut self) {
        self.close(Cost::default(), Cost::default(), 0);
    }

    fn close(&mut self, cost: Cost, unconfirmed: Cost, calls: u64) {
        self.settled = true;
        let mut state = self.accounts.lock();
        let spending = &mut state.spending;
        spending.reserved = spending.reserved.minus(self.worst);
        spending.spent += cost;
        spending.unconfirmed += unconfirmed;
        spending.calls += calls;
        if cost.exceeds(self.worst) {
            state.overrun.get_or_insert((cost, self.worst));
        }
        drop(state);
        self.accounts.changed.notify_all();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.settled {
            self.close(self.worst, self.worst, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;
    use std::time::Duration;

    fn cost(tokens: u64) -> Cost {
        Cost { tokens, money: Money(tokens * 3) }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn prices_are_exact_per_token() {
        let price = Price {
            input: Money::from_dollars(0.15e-6).unwrap(),
            output: Money::from_dollars(0.6e-6).unwrap(),
        };
        let cost = price.cost(Usage { input_tokens: 1_000_000, output_tokens: 500_000 });
        assert_eq!((cost.tokens, cost.money), (1_500_000, Money::from_dollars(0.45).unwrap()));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Money::from_dollars(bad), None);
        }
    }

    #[test]
    fn unsettled_reservations_are_booked_at_the_worst_case() {
        let budget = Budget::new(Limits { tokens: Some(100), money: None }, Cost::default());
        drop(budget.reserve(cost(60), soon()).unwrap());
        assert_eq!(budget.spending().unconfirmed, cost(60));
        let refused = budget.reserve(cost(41), soon()).unwrap_err();
        assert!(matches!(refused, BudgetError::Exhausted { spent, .. } if spent == cost(60)));
        assert!(refused.to_string().contains("100 tokens"), "{refused}");
        budget.reserve(cost(40), soon()).unwrap().release();
        budget.reserve(cost(40), soon()).unwrap().settle(cost(7));
        assert_eq!(
            budget.spending(),
            Spending { spent: cost(67), unconfirmed: cost(60), reserved: cost(0), calls: 2 }
        );
    }

    #[test]
    fn a_server_that_exceeds_its_reservation_is_sent_no_more_calls() {
        let budget = Budget::new(Limits { tokens: Some(1000), money: None }, Cost::default());
        let [first, second] = [(); 2].map(|()| budget.reserve(cost(100), soon()).unwrap());
        first.settle(cost(100));
        budget.check_overrun().unwrap();
        let waiting = budget.reserve(cost(800), soon()).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| budget.reserve(cost(100), soon()).map(Reservation::release));
            thread::sleep(Duration::from_millis(20));
            // More expensive than reserved, with no more tokens.
            let counted = Cost { tokens: 100, money: Money(301) };
            second.settle(counted);
            let refused = next.join().unwrap().unwrap_err();
            assert!(
                matches!(refused, BudgetError::Overrun { counted: found, .. } if found == counted),
                "{refused}"
            );
        });
        assert!(budget.check_overrun().is_err());
        waiting.settle(cost(900));
        assert_eq!(budget.spending().spent.tokens, 1100, "what was under way is booked");
        let refused = budget.reserve(cost(0), soon()).unwrap_err().to_string();
        assert!(
            refused.contains("100 tokens, $0.000000 for") && refused.contains("1000 tokens"),
            "{refused}"
        );
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_exceed() {
        let budget = Budget::default();
        budget.reserve(cost(10), soon()).unwrap().settle(cost(20));
        budget.reserve(cost(10), soon()).unwrap().settle(cost(10));
        assert_eq!(budget.spending().spent, cost(30));
    }

    #[test]
    fn tokens_without_a_price_are_not_said_to_be_free() {
        let unpriced = Cost { tokens: 7, money: Money::default() };
        assert_eq!((unpriced.to_string().as_str(), unpriced.dollars()), ("7 tokens", None));
        let priced = Cost { tokens: 7, money: Money::from_dollars(0.5).unwrap() };
        assert_eq!((priced.to_string().as_str(), priced.dollars()), ("7 tokens, $0.500000", Some(0.5)));
        assert_eq!(Cost::default().dollars(), Some(0.0));
    }

    #[test]
    fn a_call_waits_for_budget_that_others_may_release() {
        let budget = Budget::new(Limits { tokens: Some(100), money: None }, Cost::default());
        let first = budget.reserve(cost(80), soon()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| budget.reserve(cost(80), soon()).map(Reservation::release));
            thread::sleep(Duration::from_millis(20));
            first.settle(cost(20));
            assert_eq!(second.join().unwrap(), Ok(()));
        });
        let _held = budget.reserve(cost(80), soon()).unwrap();
        assert!(budget.reserve(cost(80), Instant::now()).is_err(), "does not wait beyond the deadline");
    }

    proptest! {
        /// With many threads spending at random, no snapshot ever exceeds the limits, and the totals add up.
        #[test]
        fn never_exceeded(
            limit in 1u64..2000, earlier in 0u64..100,
            calls in prop::collection::vec((1u64..200, 0u8..3, 0u64..=100), 1..40),
        ) {
            let limits = Limits { tokens: Some(limit), money: Some(Money(limit * 2)) };
            let budget = Budget::new(limits, cost(earlier.min(limit / 2)));
            let before = budget.spending().spent;
            let booked: u64 = thread::scope(|scope| {
                let workers: Vec<_> = calls.chunks(calls.len().div_ceil(4)).map(|calls| {
                    let budget = budget.clone();
                    scope.spawn(move || calls.iter().map(|&(worst, fate, percent)| {
                        let Ok(reservation) = budget.reserve(cost(worst), soon()) else { return 0 };
                        let seen = budget.spending();
                        assert!(limits.allow(seen.spent.plus(seen.reserved)), "{seen:?}");
                        let real = worst * percent / 100;
                        match fate {
                            0 => { reservation.settle(cost(real)); real }
                            1 => { reservation.release(); 0 }
                            _ => { drop(reservation); worst }
                        }
                    }).sum::<u64>())
                }).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            let after = budget.spending();
            prop_assert_eq!(after.spent, before.plus(cost(booked)));
            prop_assert_eq!(after.reserved, Cost::default());
            prop_assert!(limits.allow(after.spent));
        }
    }
}
