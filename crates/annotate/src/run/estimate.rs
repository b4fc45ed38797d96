//! What judging would take, before anything is asked.

use quarry_llm::{Cost, Money};

use super::Judging;
use crate::error::AnnotateError;
use crate::judge::Next;

/// Share of CoSQA+'s candidates that was not clear (§6 of its protocol: 33 %), for estimates.
const UNCLEAR_SHARE: f64 = 1.0 / 3.0;

/// Tokens of a verdict and of a test program as they usually are, for estimates.
const VERDICT_TOKENS: u64 = 100;
const PROGRAM_TOKENS: u64 = 600;

/// What judging would take, before anything is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Pairs without a verdict; where the label is a majority, of each member.
    pub pairs: u64,
    /// What is asked of each next: questions whose answers are stored, and the others with their worst case.
    pub first: quarry_llm::Estimate,
    /// Programs that run next: of pairs whose questions so far are answered.
    pub programs: u64,
    /// What all questions would cost if a token had four bytes, answers were as long as they usually are, and as many
    /// pairs were clear as in CoSQA+.
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
    /// What the budget leaves, of what is limited: tokens and money.
    pub fn left(&self) -> (Option<u64>, Option<Money>) {
        let budget = self.client.budget();
        let (limits, spent) = (budget.limits(), budget.spending().spent);
        let money = |limit: Money| Money::from_units(limit.units().saturating_sub(spent.money.units()));
        (limits.tokens.map(|limit| limit.saturating_sub(spent.tokens)), limits.money.map(money))
    }

    /// What is left to do, and what that would cost. Nothing is asked.
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
                    // The verdict on what comes of it.
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
                let bytes: usize =
                    question.request.messages.iter().map(|message| message.content.len()).sum();
                input += bytes as u64 / 4;
                output += VERDICT_TOKENS;
                if let Some(prompts) = tests {
                    let asked = (prompts + 2 * texts) as u64 / 4 + PROGRAM_TOKENS;
                    let programs = self.plan.judge.options().tests.questions_about_programs();
                    input += ((programs * asked) as f64 * UNCLEAR_SHARE) as u64;
                    output += ((programs * PROGRAM_TOKENS + VERDICT_TOKENS) as f64 * UNCLEAR_SHARE) as u64;
                }
            }
            Ok(true)
        })?;
        let usage = quarry_llm::Usage { input_tokens: input, output_tokens: output };
        estimate.typical = self.plan.price.of(usage);
        Ok(estimate)
    }
}
