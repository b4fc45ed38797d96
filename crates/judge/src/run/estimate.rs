//! Estimating the cost of judging in advance.

use quarry_llm::{Cost, Money};

use super::Judging;
use crate::error::JudgeError;
use crate::judge::{Judge, Next, Question};
use crate::pair::Pair;
use crate::plan::Plan;

/// Share of CoSQA+'s candidates that was not clear (§6 of its protocol: 33 %), for estimates.
const UNCLEAR_SHARE: f64 = 1.0 / 3.0;

/// Typical tokens of a verdict and of a test program, for estimates.
const VERDICT_TOKENS: u64 = 100;
const PROGRAM_TOKENS: u64 = 600;

/// Typical duration of an answer in seconds, where none has been measured.
pub const SECONDS_PER_ANSWER: f64 = 2.0;

/// Number of pairs with a verdict from which the cost of others is estimated.
const MIN_MEASURED: u64 = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Pairs without a verdict; with a majority, counted for each member.
    pub pairs: u64,
    /// The next question of each: those with stored answers, and the others with their worst case.
    pub first: quarry_llm::Estimate,
    /// Programs that run next: those of pairs whose questions so far are answered.
    pub programs: u64,
    /// Cost of all questions: by the mean of the pairs that this judge decided, or else assuming four bytes per token,
    /// answers of typical length, and the share of clear pairs of CoSQA+.
    pub typical: Cost,
    /// Their duration in seconds, with as many workers as the plan has.
    pub seconds: f64,
    /// Number of decided pairs by which both are estimated; 0 if they are assumed.
    pub measured: u64,
}

impl Estimate {
    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.first.stored += other.first.stored;
        self.first.calls += other.first.calls;
        self.first.worst += other.first.worst;
        self.programs += other.programs;
        self.typical += other.typical;
        self.seconds += other.seconds;
        self.measured += other.measured;
    }
}

impl Judging {
    /// The rest of the budget, in tokens and money; `None` if not limited.
    pub fn left(&self) -> (Option<u64>, Option<Money>) {
        let budget = self.client.budget();
        let (limits, spent) = (budget.limits(), budget.spending().spent);
        let money = |limit: Money| Money::from_units(limit.units().saturating_sub(spent.money.units()));
        (limits.tokens.map(|limit| limit.saturating_sub(spent.tokens)), limits.money.map(money))
    }

    /// Remaining work and its cost. No question is asked.
    pub fn estimate(&self) -> Result<Estimate, JudgeError> {
        let mut estimate = Estimate::default();
        for member in &self.members {
            estimate.add(&member.estimate()?);
        }
        if !self.members.is_empty() {
            return Ok(estimate);
        }
        let (mut input, mut output, mut questions) = (0, 0, 0.0);
        let tests = self.plan.judge.test_prompt_bytes();
        for waiting in self.waiting() {
            let waiting = waiting?;
            estimate.pairs += 1;
            let texts = waiting.pair.query.len() + waiting.pair.code.len();
            let question = match self.plan.judge.next(&waiting.pair, &waiting.events) {
                Ok(Next::Ask(question)) => question,
                Ok(Next::Run(_)) => {
                    estimate.programs += 1;
                    // The verdict on the test results.
                    input += (tests.unwrap_or(0) + texts) as u64 / 4 + PROGRAM_TOKENS;
                    output += VERDICT_TOKENS;
                    questions += 1.0;
                    continue;
                }
                _ => continue,
            };
            let one = self.client.estimate_chat(std::slice::from_ref(&question.request))?;
            estimate.first.stored += one.stored;
            estimate.first.calls += one.calls;
            estimate.first.worst += one.worst;
            if one.calls > 0 {
                let TypicalCost { questions: asked, input_tokens, output_tokens, .. } =
                    typical(&self.plan.judge, &question, texts);
                questions += asked;
                input += input_tokens as u64;
                output += output_tokens as u64;
            }
        }
        let usage = quarry_llm::Usage { input_tokens: input, output_tokens: output };
        let workers = self.plan.workers.max(1) as f64;
        estimate.typical = self.plan.price.cost(usage);
        estimate.seconds = questions * SECONDS_PER_ANSWER / workers;
        let counts = self.writer.ledger().counts(self.judge, &self.plan.judge)?;
        let decided = [counts.clear, counts.unclear];
        let n_decided: u64 = decided.iter().map(|effort| effort.pairs).sum();
        if n_decided >= MIN_MEASURED {
            let n_asked = (estimate.first.calls as u64 + estimate.programs) as f64;
            let share = |sum: f64| sum / n_decided as f64 * n_asked;
            let tokens: u64 = decided.iter().map(|effort| effort.cost.tokens).sum();
            let money: u64 = decided.iter().map(|effort| effort.cost.money.units()).sum();
            let money = Money::from_units(share(money as f64) as u64);
            estimate.typical = Cost { tokens: share(tokens as f64) as u64, money };
            estimate.seconds = share(decided.iter().map(|effort| effort.seconds).sum()) / workers;
            estimate.measured = n_decided;
        }
        Ok(estimate)
    }
}

/// Typical cost of judging pairs, without stored answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypicalCost {
    pub questions: f64,
    pub input_tokens: f64,
    pub output_tokens: f64,
    pub dollars: Option<f64>,
}

/// Typical cost of a first question and all that may follow it.
fn typical(judge: &Judge, first: &Question, n_bytes: usize) -> TypicalCost {
    let asked: usize = first.request.messages.iter().map(|message| message.content.len()).sum();
    let verdict = VERDICT_TOKENS as f64;
    let (mut questions, mut input_tokens, mut output_tokens) = (1.0, (asked / 4) as f64, verdict);
    if let Some(prompts) = judge.test_prompt_bytes() {
        let asked = (prompts + 2 * n_bytes) as f64 / 4.0 + PROGRAM_TOKENS as f64;
        let programs = judge.options().tests.questions_about_programs() as f64;
        questions += (programs + 1.0) * UNCLEAR_SHARE;
        input_tokens += programs * asked * UNCLEAR_SHARE;
        output_tokens += (programs * PROGRAM_TOKENS as f64 + verdict) * UNCLEAR_SHARE;
    }
    TypicalCost { questions, input_tokens, output_tokens, dollars: None }
}

impl Plan {
    /// Typical cost of judging pairs, on average. Nothing is read, written or asked.
    pub fn typical_cost(&self, pairs: &[Pair]) -> TypicalCost {
        let mut sum = TypicalCost::default();
        if !self.members.is_empty() {
            let members: Vec<TypicalCost> =
                self.members.iter().map(|member| member.typical_cost(pairs)).collect();
            sum.dollars = members.iter().map(|member| member.dollars).sum();
            for member in members {
                sum.questions += member.questions;
                sum.input_tokens += member.input_tokens;
                sum.output_tokens += member.output_tokens;
            }
            return sum;
        }
        for pair in pairs {
            if let Ok(Next::Ask(question)) = self.judge.next(pair, &[]) {
                let of_pair = typical(&self.judge, &question, pair.query.len() + pair.code.len());
                sum.questions += of_pair.questions;
                sum.input_tokens += of_pair.input_tokens;
                sum.output_tokens += of_pair.output_tokens;
            }
        }
        let n_pairs = pairs.len().max(1) as f64;
        sum.questions /= n_pairs;
        sum.input_tokens /= n_pairs;
        sum.output_tokens /= n_pairs;
        // Prices of single tokens are far below a cent: those of a million have all digits.
        let tokens = |of_pair: f64| (of_pair * 1e6) as u64;
        let usage = quarry_llm::Usage {
            input_tokens: tokens(sum.input_tokens),
            output_tokens: tokens(sum.output_tokens),
        };
        sum.dollars = self.price.cost(usage).dollars().map(|dollars| dollars / 1e6);
        sum
    }
}
