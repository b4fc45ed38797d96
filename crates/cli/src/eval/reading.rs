//! Tokens to the answer: the tokens that an agent reads until the function that it looks for is shown.

use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use quarry_embed::StaticModel;
use quarry_eval::EvalError;
use quarry_eval::reading::grep::{Files, Grep, GrepPolicy};
use quarry_eval::reading::report::{PolicyReport, ReadingReport, report};
use quarry_eval::reading::trees::AskedTree;
use quarry_eval::reading::{BUDGETS, Policy, Question, Read, Reader, positions, read_all};
use quarry_index::{Filter, Index, RankingWeights};
use quarry_mcp::{Call, Workspace};
use quarry_metrics::significance::Bootstrap;
use quarry_metrics::table::{Sections, Table};
use quarry_session::context::{ContextRequest, context};
use quarry_session::outline::outline;
use quarry_session::{MeasuredSearch, OpenChoice, TOKENIZER, count_tokens};
use quarry_text::query_terms;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::OutputArgs;
use crate::eval::shown;
use crate::new_file;

/// Number of tokens of the map that is read first.
const MAP_TOKENS: usize = 2_000;

/// Number of results of a second search, after all of the first were read.
const MORE_RESULTS: usize = 30;

/// Maximum tokens of a unit.
const UNIT_TOKENS: usize = 20_000;

/// The agent's policy of reading.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Measure the tokens that an agent reads until the function is fully shown, instead of ranks: search (then read_unit),
    /// context, outline (then read_unit), grep-files, grep-lines, grep-functions (the rarest 3 words, or N: grep-files:N); may
    /// be repeated: the others are compared with the first
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<PolicyName>,
}

impl PolicyArgs {
    /// Returns true if tokens are measured.
    pub fn is_given(&self) -> bool {
        !self.policies.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum PolicyName {
    Search,
    Context,
    Outline,
    Grep(Grep),
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "search" => Ok(Self::Search),
            "context" => Ok(Self::Context),
            "outline" => Ok(Self::Outline),
            _ if text.starts_with("grep-") => Ok(Self::Grep(text.parse()?)),
            _ => Err(format!(
                "expected search, context, outline, grep-files, grep-lines or grep-functions, found {text}"
            )),
        }
    }
}

/// Reads about the questions of a tree.
pub fn ask(args: &PolicyArgs, tree: AskedTree<'_>, questions: &[Question]) -> Result<Vec<Read>, EvalError> {
    let greps = args.policies.iter().any(|name| matches!(name, PolicyName::Grep(_)));
    let files = if greps { Some(Files::read(tree.index)?) } else { None };
    let workspace = workspace(tree);
    let policy = |name: &PolicyName| -> Option<Box<dyn Policy + '_>> {
        Some(match name {
            PolicyName::Search => Box::new(SearchPolicy { workspace: &workspace }),
            PolicyName::Outline => Box::new(OutlinePolicy { workspace: &workspace, index: tree.index }),
            PolicyName::Context => {
                let (index, ranking) = (tree.index, tree.ranking);
                Box::new(ContextPolicy { workspace: &workspace, index, ranking })
            }
            PolicyName::Grep(grep) => Box::new(GrepPolicy { grep: *grep, files: files.as_ref()? }),
        })
    };
    let policies: Vec<Box<dyn Policy + '_>> = args.policies.iter().filter_map(policy).collect();
    let policies: Vec<&dyn Policy> = policies.iter().map(AsRef::as_ref).collect();
    read_all(questions, &policies, &count_tokens)
}

fn workspace(tree: AskedTree<'_>) -> Workspace {
    let model = tree.embedder.cloned().unwrap_or_else(|| Arc::new(StaticModel::builtin()));
    let choice = OpenChoice {
        directory: Some(tree.index_directory.to_owned()),
        measured: Some(MeasuredSearch { model, ranking: tree.ranking.clone() }),
        ..OpenChoice::default()
    };
    Workspace::new(vec![tree.root.to_owned()], choice)
}

/// The answer of a tool; a refusal is an answer as well.
fn call(workspace: &Workspace, policy: &str, tool: &str, arguments: Value) -> Result<String, EvalError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| EvalError::Policy {
        policy: policy.to_owned(),
        source,
    };
    let Value::Object(arguments) = arguments else { return Ok(String::new()) };
    let call = match Call::new(tool, arguments) {
        Some(Ok(call)) => call,
        Some(Err(error)) => return Ok(error.report()),
        None => return Err(failed(format!("unknown tool {tool}").into())),
    };
    match workspace.answer(&call, &|_| {}) {
        Ok(answer) => Ok(answer.text),
        Err(error @ quarry_mcp::ToolError::Index(quarry_index::Error::EmptyQuery)) => Ok(error.report()),
        Err(error) => Err(failed(Box::new(error))),
    }
}

/// Reads units in their order, each once; returns false when the reader stops.
fn read_units<'a>(
    workspace: &Workspace,
    policy: &str,
    units: impl Iterator<Item = (&'a str, u32)>,
    seen: &mut HashSet<(String, u32)>,
    reader: &mut Reader<'_>,
) -> Result<bool, EvalError> {
    for (path, line) in units {
        if !seen.insert((path.to_owned(), line)) {
            continue;
        }
        let arguments = json!({"path": path, "line": line, "max_tokens": UNIT_TOKENS});
        if !reader.read_answer(&call(workspace, policy, "read_unit", arguments)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `search`: its results are read with read_unit in their order; then those of a search for 30. If nothing clearly
/// answers, all results are requested.
struct SearchPolicy<'a> {
    workspace: &'a Workspace,
}

impl Policy for SearchPolicy<'_> {
    fn name(&self) -> String {
        "search".to_owned()
    }

    fn read(&self, question: &str, reader: &mut Reader<'_>) -> Result<(), EvalError> {
        let mut seen = HashSet::new();
        let mut arguments = json!({"query": question});
        for k in [None, None, Some(MORE_RESULTS)] {
            if let Some(k) = k {
                arguments["k"] = json!(k);
            }
            let answer = call(self.workspace, "search", "search", arguments.clone())?;
            let is_unsure = answer.starts_with("Nothing");
            if !reader.read_answer(&answer)
                || !read_units(self.workspace, "search", positions(&answer), &mut seen, reader)?
            {
                break;
            }
            if is_unsure {
                arguments["detail"] = json!("full");
            } else if k.is_none() {
                arguments["k"] = json!(MORE_RESULTS);
            }
        }
        Ok(())
    }
}

/// `context`: one call with the smallest of the budgets whose answer shows the function. If nothing clearly answers,
/// all results of a search are requested and read.
struct ContextPolicy<'a> {
    workspace: &'a Workspace,
    index: &'a Index,
    ranking: &'a RankingWeights,
}

impl Policy for ContextPolicy<'_> {
    fn name(&self) -> String {
        "context".to_owned()
    }

    fn read(&self, question: &str, reader: &mut Reader<'_>) -> Result<(), EvalError> {
        for max_tokens in BUDGETS {
            let request = ContextRequest {
                query: question,
                filter: &Filter::default(),
                ranking: self.ranking,
                max_tokens,
                prefixes: &[],
            };
            match context(self.index, &request) {
                Ok(found) if !reader.replace_answer(&found.text) => break,
                Ok(found) if found.confident == Some(false) => {
                    let arguments = json!({"query": question, "detail": "full"});
                    let answer = call(self.workspace, "context", "search", arguments)?;
                    if reader.read_answer(&answer) {
                        read_units(
                            self.workspace,
                            "context",
                            positions(&answer),
                            &mut HashSet::new(),
                            reader,
                        )?;
                    }
                    break;
                }
                Ok(_) => {}
                Err(quarry_index::Error::EmptyQuery) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// `outline`: the map of the tree, then its definitions with words of the question, those with most first.
struct OutlinePolicy<'a> {
    workspace: &'a Workspace,
    index: &'a Index,
}

impl Policy for OutlinePolicy<'_> {
    fn name(&self) -> String {
        "outline".to_owned()
    }

    fn read(&self, question: &str, reader: &mut Reader<'_>) -> Result<(), EvalError> {
        let map = outline(self.index, &Filter::default(), MAP_TOKENS, &[])?;
        if !reader.read_answer(&map) {
            return Ok(());
        }
        let terms = query_terms(question);
        let mut file = "";
        let mut units: Vec<(usize, &str, u32)> = Vec::new();
        for line in map.lines() {
            let numbered = line.split_once("| ").map(|(number, code)| (number.trim().parse::<u32>(), code));
            let Some((Ok(number), code)) = numbered else {
                file = line;
                continue;
            };
            let found: HashSet<String> =
                query_terms(code).into_iter().filter(|term| terms.contains(term)).collect();
            units.push((found.len(), file, number));
        }
        units.retain(|(n_terms, ..)| *n_terms > 0);
        units.sort_by_key(|(n_terms, ..)| std::cmp::Reverse(*n_terms));
        let units = units.into_iter().map(|(_, path, line)| (path, line));
        read_units(self.workspace, "outline", units, &mut HashSet::new(), reader)?;
        Ok(())
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TokensToAnswer"))]
pub struct Printed<'a> {
    /// File of the questions.
    dataset: String,
    /// Name of the tokenizer.
    tokenizer: &'static str,
    #[serde(flatten)]
    report: &'a ReadingReport,
    /// Resampling for intervals and p-values.
    bootstrap: &'a Bootstrap,
}

/// Prints what was read, and writes it question by question if requested.
pub fn print(
    args: &PolicyArgs,
    file: &Path,
    reads: &[Read],
    output: &OutputArgs,
    bootstrap: &Bootstrap,
) -> anyhow::Result<()> {
    let names: Vec<String> = args.policies.iter().map(PolicyName::to_string).collect();
    if let Some(path) = &output.per_query {
        new_file::write_records(path, reads.iter())?;
    }
    let report = report(&names, reads, bootstrap)?;
    let printed =
        Printed { dataset: shown::file_name(file), tokenizer: TOKENIZER, report: &report, bootstrap };
    output.layout.print(&printed, || sections(&printed))
}

impl std::fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Search => formatter.write_str("search"),
            Self::Context => formatter.write_str("context"),
            Self::Outline => formatter.write_str("outline"),
            Self::Grep(grep) => write!(formatter, "{grep}"),
        }
    }
}

fn sections(printed: &Printed<'_>) -> Sections {
    let report = printed.report;
    let budgets = BUDGETS.map(|budget| format!("{budget}"));
    let columns = ["policy"].into_iter().chain(budgets.iter().map(String::as_str));
    let mut table = Table::new(columns.chain(["all", "median tokens", "interval"]));
    for PolicyReport { policy, shares, answered, median, median_interval, .. } in &report.policies {
        let interval = median_interval
            .map_or_else(String::new, |found| format!("[{:.0}, {:.0}]", found.low, found.high));
        let shares = shares.values().chain([answered]).map(|share| format!("{share:.3}"));
        table.push([policy.clone()].into_iter().chain(shares).chain([median.to_string(), interval]));
    }
    let mut compared = Table::new(["compared with the first", "tokens", "difference", "interval", "p"]);
    for comparison in &report.comparisons {
        for (budget, found) in &comparison.budgets {
            compared.push([
                comparison.policy.clone(),
                budget.to_string(),
                format!("{:+.3}", found.difference.difference),
                shown::format_interval(found.difference.interval),
                found
                    .tests
                    .get("randomisation")
                    .map_or_else(String::new, |test| format!("{:.4}", test.p_holm)),
            ]);
        }
    }
    let heading = format!(
        "{}: share of {} questions about {} repositories answered within tokens of {}",
        printed.dataset, report.questions, report.repositories, printed.tokenizer
    );
    let sections = Sections::new().text(heading).table(table);
    if report.comparisons.is_empty() { sections } else { sections.table(compared) }
}
