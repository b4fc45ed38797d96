//! Estimating the cost of writing queries in advance.

use std::path::Path;

use quarry_judge::{AuthorPlan, SECONDS_PER_ANSWER};
use serde::Deserialize;

use crate::error::BuildError;
use crate::jsonl;
use crate::labels::annotation::{targets, wanted};
use crate::labels::calibration;
use crate::plan::{Plan, QueryKind};
use crate::queries::categories;
use crate::sources::documented::Documented;
use crate::sources::graph::{GRAPH, Node};
use crate::sources::pool::POOL;
use crate::step::{self, Step};

/// Typical tokens of a prompt besides code and summary, and of answers: summaries, queries, validations.
const PROMPT_TOKENS: f64 = 350.0;
const SUMMARY_TOKENS: f64 = 60.0;
const QUERY_TOKENS: f64 = 20.0;
const VALIDATION_TOKENS: f64 = 60.0;
const CATEGORY_TOKENS: f64 = 5.0;

const BYTES_PER_TOKEN: f64 = 4.0;

/// The typical cost of writing queries. Cached answers cost nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WrittenEstimate {
    /// Number of functions of other packages that the model is asked about to calibrate what is explained to it.
    pub known: u64,
    pub functions: u64,
    pub queries: u64,
    /// Number of questions for calibration, summaries, queries and validations.
    pub questions: u64,
    /// Tokens in both directions.
    pub tokens: u64,
    /// Their price, if the plan has prices.
    pub dollars: Option<f64>,
    /// Duration in seconds, with as many concurrent questions as the plan allows.
    pub seconds: f64,
}

impl WrittenEstimate {
    /// Adds the cost of `questions` with these numbers of prompt and answer tokens.
    fn with_cost(self, author: &AuthorPlan, questions: f64, input: f64, output: f64) -> Self {
        let prices = author.model.input_price.zip(author.model.output_price);
        Self {
            questions: questions as u64,
            tokens: (input + output) as u64,
            dollars: prices.map(|(of_input, of_output)| (input * of_input + output * of_output) / 1e6),
            seconds: questions * SECONDS_PER_ANSWER / f64::from(author.model.concurrency.max(1)),
            ..self
        }
    }
}

/// The cost of the steps of a plan that write queries; `None` if there is nothing to write, or the pool and the call
/// graph have not been built yet.
pub fn estimate_written(
    plan: &Plan,
    root: &Path,
    steps: &[(Step, bool)],
) -> Result<Option<WrittenEstimate>, BuildError> {
    let done = |name: &str| step::finished(steps, root, name);
    let pool = done(if plan.categories.is_some() { categories::STEP } else { "pool" });
    let (Some(author), Some(pool), Some(graph)) = (&plan.author, pool, done("calls")) else {
        return Ok(None);
    };
    let nodes: Vec<Node> = jsonl::read_all(&graph.join(GRAPH))?;
    let known = nodes.iter().map(|node| node.id.as_str()).collect();
    let code_tokens = mean_code_bytes(&pool)? / BYTES_PER_TOKEN;
    let mut estimate = WrittenEstimate::default();
    let (mut input, mut output) = (0.0, 0.0);
    if steps.iter().any(|(step, is_done)| !is_done && step.name == calibration::STEP) {
        let documented = Documented::open(plan.annotation.documentation.as_deref())?;
        let apis = calibration::sample(plan, &documented, &graph)?;
        estimate.known = apis.len() as u64;
        for api in &apis {
            let documentation = documented.text(&api.name)?.len() as f64 / BYTES_PER_TOKEN;
            input += 2.0 * PROMPT_TOKENS + SUMMARY_TOKENS + documentation;
            output += SUMMARY_TOKENS + VALIDATION_TOKENS;
        }
    }
    if done("annotations").is_none() && plan.has_summaries() {
        estimate.functions = wanted(plan, &pool, &nodes)?.len() as u64;
        input += estimate.functions as f64 * (code_tokens + PROMPT_TOKENS);
        output += estimate.functions as f64 * SUMMARY_TOKENS;
    }
    for queries in plan.queries.iter().filter(|queries| queries.kind == QueryKind::Written) {
        if done(&format!("queries {}", queries.name)).is_none() {
            let functions = targets(&pool, &known, queries.maximum, plan.seed)?.len();
            let n_queries = (functions * queries.styles.len()) as f64;
            estimate.queries += n_queries as u64;
            input += n_queries * 2.0 * (code_tokens + PROMPT_TOKENS) + n_queries * SUMMARY_TOKENS;
            output += n_queries * (QUERY_TOKENS + VALIDATION_TOKENS);
        }
    }
    estimate.questions = 2 * estimate.known + estimate.functions + 2 * estimate.queries;
    if estimate.questions == 0 {
        return Ok(None);
    }
    Ok(Some(estimate.with_cost(author, estimate.questions as f64, input, output)))
}

/// The typical cost of writing `n_queries` queries for codes of a mean size, with summaries of `n_functions` functions.
pub(crate) fn typical_writing_cost(
    author: &AuthorPlan,
    n_functions: f64,
    n_queries: f64,
    code_bytes: f64,
) -> WrittenEstimate {
    let code_tokens = code_bytes / BYTES_PER_TOKEN;
    let input = (n_functions + 2.0 * n_queries) * (code_tokens + PROMPT_TOKENS) + n_queries * SUMMARY_TOKENS;
    let output = n_functions * SUMMARY_TOKENS + n_queries * (QUERY_TOKENS + VALIDATION_TOKENS);
    let estimate = WrittenEstimate {
        functions: n_functions as u64,
        queries: n_queries as u64,
        ..WrittenEstimate::default()
    };
    estimate.with_cost(author, n_functions + 2.0 * n_queries, input, output)
}

/// The typical cost of asking for the categories of `n_codes` codes.
pub(crate) fn typical_categories_cost(author: &AuthorPlan, n_codes: f64, code_bytes: f64) -> WrittenEstimate {
    let input = n_codes * (code_bytes / BYTES_PER_TOKEN + PROMPT_TOKENS);
    let output = n_codes * CATEGORY_TOKENS;
    WrittenEstimate::default().with_cost(author, n_codes, input, output)
}

fn mean_code_bytes(pool: &Path) -> Result<f64, BuildError> {
    #[derive(Deserialize)]
    struct Code {
        code: String,
    }
    let (mut n_codes, mut n_bytes) = (0_u64, 0_u64);
    jsonl::for_each(&pool.join(POOL), &mut |Code { code }, _| {
        n_codes += 1;
        n_bytes += code.len() as u64;
        Ok(())
    })?;
    Ok(n_bytes as f64 / n_codes.max(1) as f64)
}
