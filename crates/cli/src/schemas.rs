//! The published schemas of JSON output, `docs/reference/output.schema.json`, from the types that commands print.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;
use quarry_related::{Commits, Related};
use quarry_session::{Answer, Callees, Callers, SearchQuestion, SimilarQuestion};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::{
    agent, cache, config, context, data, doctor, eval, index, judge, languages, log, models, status, train,
    tune,
};

type Object = Map<String, Value>;

/// Maximum width of a line of the file, if its content can be broken.
const WIDTH: usize = 120;

/// A schema that is part of others.
type Part = fn(&mut SchemaGenerator) -> Schema;

fn fields<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Schemas of the `--json` output of each command, and the condition that decides between several.
fn commands() -> Vec<(&'static str, Vec<Part>, &'static str)> {
    let one = |name, part: Part| (name, vec![part], "");
    vec![
        (
            "search",
            vec![schema_of::<Answer<SearchQuestion>>, schema_of::<Commits>],
            "With `--kind commit`, the second form.",
        ),
        one("similar", fields::<Answer<SimilarQuestion>>),
        one("callers", fields::<Callers>),
        one("callees", fields::<Callees>),
        one("related", fields::<Related>),
        one("context", fields::<context::Printed<'_>>),
        one("outline", fields::<context::Printed<'_>>),
        one("index", fields::<index::Summary<'_>>),
        one("agent-list", fields::<agent::AgentList>),
        one("status", fields::<status::Printed>),
        one("doctor", fields::<doctor::DoctorReport>),
        one("cache-list", fields::<cache::Listed>),
        one("cache-prune", fields::<cache::Removed>),
        (
            "log",
            vec![schema_of::<log::State>, schema_of::<log::Savings>],
            "With `show --savings`, what agents were given.",
        ),
        one("languages", fields::<languages::LanguageList>),
        one("config", fields::<config::SettingsView>),
        one("eval", fields::<eval::benchmark::BenchmarkReport<'_>>),
        one("eval-score", fields::<eval::benchmark::BenchmarkReport<'_>>),
        one("eval-compare", fields::<eval::compare::ComparisonReport<'_>>),
        one("eval-next", fields::<eval::next::NextReport>),
        one("eval-agreement", fields::<eval::agreement::AgreementReport<'_>>),
        (
            "eval-verdicts",
            vec![schema_of::<eval::verdicts::Classification<'_>>, schema_of::<eval::verdicts::Calibration>],
            "With columns of probabilities, the second form.",
        ),
        (
            "eval-repo",
            vec![schema_of::<eval::repo::RepositoryReport<'_>>, schema_of::<eval::repo::AgreementReport<'_>>],
            "With `--agreement`, the second form.",
        ),
        (
            "eval-repo-search",
            vec![schema_of::<eval::repo_search::RepoSearchReport>, schema_of::<eval::reading::Printed<'_>>],
            "With `--policy`, the second form.",
        ),
        (
            "eval-localize",
            vec![schema_of::<eval::localize::Printed<'_>>, schema_of::<eval::reading::Printed<'_>>],
            "With `--policy`, the second form.",
        ),
        one("eval-related", fields::<quarry_eval::related::RelatedReport>),
        (
            "eval-protocol",
            vec![
                schema_of::<eval::protocol::ProtocolReport<'_>>,
                schema_of::<Vec<eval::protocol::ProtocolDescription>>,
                schema_of::<eval::protocol::ProtocolDescription>,
                schema_of::<BTreeMap<String, Option<f64>>>,
            ],
            "With `--list`, all protocols, or one; with `--reliability`, Cronbach's alpha and average variance, by \
             measure and statistic.",
        ),
        (
            "eval-tune",
            vec![
                schema_of::<eval::tune::TuningReport>,
                schema_of::<quarry_eval::repo_search::intent::Fitted>,
                schema_of::<eval::tune::Confidence>,
            ],
            "With `--intent` or `--confidence`, the other forms.",
        ),
        (
            "eval-run",
            vec![schema_of::<quarry_eval::plan::Results>, schema_of::<eval::plan::DryRun>],
            "With `--dry-run`, the second form.",
        ),
        (
            "judge-run",
            vec![
                schema_of::<judge::status::Status<'_>>,
                schema_of::<judge::run::JudgeEstimate>,
                schema_of::<quarry_judge::GenerationSummary>,
                schema_of::<judge::generate::GenerationEstimate>,
                schema_of::<quarry_judge::RereadSummary>,
            ],
            "The state of the plan after the run, or with `--dry-run` an estimate; with `--generate` or `--reread` what \
             these did.",
        ),
        one("judge-status", fields::<judge::status::Status<'_>>),
        (
            "judge-study",
            vec![schema_of::<quarry_people::study::Study>, schema_of::<quarry_judge::Calibration>],
            "With `--calibration`, the second form.",
        ),
        (
            "judge-audit",
            vec![schema_of::<quarry_judge::AuditReport>, schema_of::<quarry_build::LivingReport>],
            "With `--now`, the second form.",
        ),
        one("data-check", fields::<data::check::CheckedFiles>),
        one("data-dedupe", fields::<quarry_corpus::dataset::dedupe::DedupeReport>),
        one("data-describe", fields::<data::describe::DescriptionReport<'_>>),
        (
            "data-formats",
            vec![schema_of::<data::formats::FormatList>, schema_of::<data::formats::FormatFields>],
            "All formats, or the fields of one.",
        ),
        (
            "data-intent",
            vec![schema_of::<data::intent::IntentReport<'_>>, schema_of::<data::intent::study::StudyReport>],
            "The queries by what they look for, or with `--labels` how well the rules agree with people.",
        ),
        (
            "data-pull",
            vec![schema_of::<data::pull::SetList>, schema_of::<data::pull::Pulled<'_>>],
            "The known data sets, or the downloaded one.",
        ),
        ("data-build", vec![schema_of::<data::build::BuildStatus<'_>>], "With `--status`."),
        (
            "data-report",
            vec![
                schema_of::<quarry_build::WrittenReport>,
                schema_of::<data::written::BuiltSteps>,
                schema_of::<data::depth::DepthReport>,
                schema_of::<quarry_build::Comparison>,
            ],
            "Of a build without written queries, its steps; with `--depth` or `--against`, the last two forms.",
        ),
        one("model-list", fields::<models::list::ModelList>),
        one("model-convert", fields::<models::convert::Loss>),
        one("train-encoder", fields::<train::sweep::SweepReport>),
        (
            "tune",
            vec![schema_of::<tune::report::Report>, schema_of::<tune::TuningUndone>],
            "With `--undo`, the second form.",
        ),
    ]
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut definitions = Object::new();
    for (name, parts, about) in commands() {
        let mut parts: Vec<Value> = parts.iter().map(|part| part(&mut generator).into()).collect();
        let mut schema = match parts.len() {
            1 => parts.remove(0),
            _ => json!({ "anyOf": parts }),
        };
        if !about.is_empty() {
            schema["description"] = about.into();
        }
        definitions.insert(name.to_owned(), titled(&schema, name));
    }
    let shared: BTreeMap<String, Value> = generator
        .take_definitions(true)
        .into_iter()
        .map(|(name, schema)| (published(&name), schema))
        .collect();
    for (name, schema) in shared {
        definitions.entry(name).or_insert(schema);
    }
    definitions.values_mut().for_each(plain);
    let mut text = "{\n".to_owned();
    for (key, value) in [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("title", "What quarry prints with --json"),
        (
            "description",
            "`$defs` has the output of each command by its name, such as `eval-compare`, and below these the objects \
             that they share. New versions may add fields.",
        ),
    ] {
        let _ = writeln!(text, "  \"{key}\": {},", json!(value));
    }
    text.push_str("  \"$defs\": ");
    write(&mut text, &Value::Object(definitions.clone()), 2, 0);
    text.push_str("\n}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/output.schema.json");
    expect_file![path].assert_eq(&text);

    let without: Vec<String> =
        definitions.iter().flat_map(|(name, schema)| undescribed(name, schema)).collect();
    assert!(without.is_empty(), "these fields have no doc comment: {without:?}");
    let links: BTreeSet<&str> = text.lines().filter(|line| line.contains("[`")).collect();
    assert!(links.is_empty(), "doc comments of output are for users, without links to code: {links:#?}");
}

/// A schema with the name of its command before everything else.
fn titled(schema: &Value, name: &str) -> Value {
    let mut titled = json!({ "title": format!("quarry {}", name.replacen('-', " ", 1)) });
    for (key, value) in schema.as_object().into_iter().flatten() {
        titled[key] = value.clone();
    }
    titled
}

/// The published name of a type: `call-site` for `CallSite`, `result` for `ResultView`.
fn published(name: &str) -> String {
    let mut text = String::new();
    let name = name.strip_suffix("View").filter(|rest| !rest.is_empty()).unwrap_or(name);
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// Keywords that reflect Rust's types only, such as the format `uint32`.
const ONLY_RUST: [&str; 6] = ["format", "minimum", "maximum", "minItems", "maxItems", "default"];

/// Removes keywords that reflect Rust's types only, and replaces names in references by the published ones.
fn plain(schema: &mut Value) {
    let keys = match schema {
        Value::Object(keys) => keys,
        Value::Array(items) => return items.iter_mut().for_each(plain),
        _ => return,
    };
    for key in ONLY_RUST {
        keys.remove(key);
    }
    if let Some(Value::String(target)) = keys.get_mut("$ref")
        && let Some((place, name)) = target.rsplit_once('/')
    {
        *target = format!("{place}/{}", published(name));
    }
    if let Some(names) = keys.get("oneOf").and_then(names_of) {
        keys.remove("oneOf");
        keys.insert("enum".to_owned(), names.into());
    }
    if keys.contains_key("enum") {
        keys.remove("type");
    }
    // The names of fields that are numbers.
    if let Some(Value::Object(patterns)) = keys.remove("patternProperties")
        && let Some((_, values)) = patterns.into_iter().next()
    {
        keys.insert("additionalProperties".to_owned(), values);
    }
    if let Some(Value::String(about)) = keys.get_mut("description") {
        *about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for (key, value) in keys.iter_mut() {
        match value {
            // A field may have the name of a keyword.
            Value::Object(fields) if key == "properties" => {
                fields.values_mut().for_each(plain);
            }
            value => plain(value),
        }
    }
}

/// The values of an enumeration, if these choices are one, with a description of each or of some.
fn names_of(choices: &Value) -> Option<Vec<Value>> {
    let mut names = Vec::new();
    for choice in choices.as_array()? {
        match (choice.get("const"), choice.get("enum")) {
            (Some(name), _) => names.push(name.clone()),
            (None, Some(Value::Array(several))) => names.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    Some(names)
}

/// The fields of a schema without a description.
fn undescribed(path: &str, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        if field.get("description").is_none() && field.get("const").is_none() {
            found.push(path.clone());
        }
        found.extend(undescribed(&path, field));
    }
    let parts = ["items", "additionalProperties"].iter().filter_map(|part| schema.get(part));
    let choices = ["anyOf", "oneOf"].iter().filter_map(|part| schema.get(part)?.as_array()).flatten();
    found.extend(parts.chain(choices).flat_map(|part| undescribed(path, part)));
    found
}

/// Writes JSON, each value on one line if it fits; `used` columns of the line are already taken.
fn write(text: &mut String, value: &Value, indent: usize, used: usize) {
    let line = on_one_line(value);
    // The definitions themselves are always broken.
    if indent > 2 && used + line.chars().count() < WIDTH {
        text.push_str(&line);
        return;
    }
    let mut items = |open: char, close: char, parts: Vec<(String, &Value)>| {
        text.push(open);
        for (number, (key, value)) in parts.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n{}{key}", " ".repeat(indent + 2));
            write(text, value, indent + 2, indent + 2 + key.len());
        }
        let _ = write!(text, "\n{}{close}", " ".repeat(indent));
    };
    match value {
        Value::Object(keys) if !keys.is_empty() => {
            items('{', '}', keys.iter().map(|(key, value)| (format!("{}: ", json!(key)), value)).collect());
        }
        Value::Array(values) if !values.is_empty() => {
            items('[', ']', values.iter().map(|value| (String::new(), value)).collect());
        }
        _ => text.push_str(&line),
    }
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(keys) => {
            let parts: Vec<String> =
                keys.iter().map(|(key, value)| format!("{}: {}", json!(key), on_one_line(value))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(on_one_line).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}
