//! Estimating the cost of judging in advance.

use quarry_llm::{Cost, Money};

use super::Judging;
use crate::error::AnnotateError;
use crate::judge::{Judge, Next, Question};
use crate::pair::Pair;
use crate::plan::Plan;

/// Share of CoSQA+'s candidates that was not clear (§6 of its protocol: 33 %), for estimates.
const UNCLEAR_SHARE: f64 = 1.0 / 3.0;

/// TypicalCost tokens of a verdict and of a test program, for estimates.
const VERDICT_TOKENS: u64 = 100;
const PROGRAM_TOKENS: u64 = 600;

/// Estimated cost of judging.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Pairs without a verdict; with a majority, counted for each member.
    pub pairs: u64,
    /// The next question of each: those with stored answers, and the others with their worst case.
    pub first: quarry_llm::Estimate,
    /// Programs that run next: those of pairs whose questions so far are answered.
    pub programs: u64,
    /// Cost of all questions assuming four bytes per token, answers of typical length, and the share of clear pairs
    /// of CoSQA+.
    pub typical: Cost,
}

impl Estimate {
    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.first.stored += other.first.stored;
        self.first.calls += other.first.calls;
        self.first.worst += other.first.worst;
        self.programs += other.programs;
        self.typical += other.typical;
    }
}

impl Judging {
    /// What is left of the budget, in tokens and money; `None` if not limited.
    pub fn left(&self) -> (Option<u64>, Option<Money>) {
        let budget = self.client.budget();
        let (limits, spent) = (budget.limits(), budget.spending().spent);
        let money = |limit: Money| Money::from_units(limit.units().saturating_sub(spent.money.units()));
        (limits.tokens.map(|limit| limit.saturating_sub(spent.tokens)), limits.money.map(money))
    }

    /// What remains to be done, and its cost. No question is asked.
    ///
    /// # Errors
    /// When the ledger or the cache cannot be read.
    pub fn estimate(&self) -> Result<Estimate, AnnotateError> {
        let mut estimate = Estimate::default();
        for member in &self.members {
            estimate.add(&member.estimate()?);
        }
        if !self.members.is_empty() {
            return Ok(estimate);
        }
        let (mut input, mut output) = (0, 0);
        let tests = self.plan.judge.test_prompt_bytes();
        self.for_each_waiting(&mut |waiting| {
            estimate.pairs += 1;
            let texts = waiting.pair.query.len() + waiting.pair.code.len();
            let question = match self.plan.judge.next(&waiting.pair, &waiting.events) {
                Ok(Next::Ask(question)) => question,
                Ok(Next::Run(_)) => {
                    estimate.programs += 1;
                    // The verdict on the test results.
                    input += (tests.unwrap_or(0) + texts) as u64 / 4 + PROGRAM_TOKENS;
                    output += VERDICT_TOKENS;
                    return Ok(true);
                }
                _ => return Ok(true),
            };
            let one = self.client.estimate_chat(std::slice::from_ref(&question.request))?;
            estimate.first.stored += one.stored;
            estimate.first.calls += one.calls;
            estimate.first.worst += match &self.batches {
                Some(batches) if one.calls > 0 => batches.worst(&question.request),
                _ => one.worst,
            };
            if one.calls > 0 {
                let TypicalCost { input_tokens, output_tokens, .. } =
                    typical(&self.plan.judge, &question, texts);
                input += input_tokens as u64;
                output += output_tokens as u64;
            }
            Ok(true)
        })?;
        let usage = quarry_llm::Usage { input_tokens: input, output_tokens: output };
        estimate.typical = self.plan.price.of(usage);
        Ok(estimate)
    }
}

/// What judging pairs usually takes, without stored answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypicalCost {
    /// Number of questions.
    pub questions: f64,
    /// Tokens of questions.
    pub input_tokens: f64,
    /// Tokens of answers.
    pub output_tokens: f64,
    /// Their price, if the plan has prices.
    pub dollars: Option<f64>,
}

/// What a first question and all that may follow it usually take.
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
    /// What judging pairs usually takes, on average. Nothing is read, written or asked.
    #[must_use]
    pub fn typical_of(&self, pairs: &[Pair]) -> TypicalCost {
        let mut sum = TypicalCost::default();
        if !self.members.is_empty() {
            let members: Vec<TypicalCost> =
                self.members.iter().map(|member| member.typical_of(pairs)).collect();
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
        sum.dollars = self.price.of(usage).dollars().map(|dollars| dollars / 1e6);
        sum
    }
}
