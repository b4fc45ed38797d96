//! Builds from sources to exports; models are a server on loopback that follows a script.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod answers;
mod categories;
mod histories;
mod people;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_build::{BuildError, Built, Plan, Tools, WrittenReport, build};
use quarry_embed::{EmbedError, Embedder};
use quarry_eval::method::ModelName;
use quarry_judge::ledger::{GeneratedStatus, NewCode, Writer};
use quarry_judge::{Author, Judging};
use quarry_test_support::files::contents_below;
use quarry_test_support::model_server::{Reply, Seen, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

const SOURCE: &str = "import rare\n\n\
def clean(text):\n    \"\"\"Remove spaces at both ends.\"\"\"\n    return strip_all(text)\n\n\n\
def strip_all(text):\n    return rare.squeeze(text)\n\n\n\
def shout(text):\n    return clean(text) + bang(text)\n\n\n\
def bang(text):\n    if len(text) > 9:\n        return shout(text[1:])\n    return \"!\"\n\n\n\
def vague(value):\n    return value * 2 + 1\n\n\n\
def odd(value):\n    return value * 3 + 7\n";

/// A plan whose author is a server, with its directory, and the one for its output in there.
fn plan(server: &Server, concurrency: u32) -> (TempDir, Plan, PathBuf) {
    let whole = tempfile::tempdir().unwrap();
    let (directory, url) = (whole.path(), server.url());
    fs::create_dir_all(directory.join("src/pkg")).unwrap();
    fs::create_dir_all(directory.join("apis")).unwrap();
    fs::write(directory.join("src/pkg/text.py"), SOURCE).unwrap();
    fs::write(directory.join("apis/rare.squeeze.txt"), "squeeze(text): removes all white space.").unwrap();
    let text = format!(
        r#"
[[sources]]
name = "text"
kind = "directory"
path = "src"
[author.model]
provider = "openai-compatible"
base_url = "{url}"
model = "scripted"
concurrency = {concurrency}
attempts = 1
input_price = 1.0
output_price = 2.0
[annotation]
documentation = "apis"
[[queries]]
name = "asked"
kind = "written"
styles = ["keyword", "question"]
"#
    );
    let formats = ["query4code", "query4code-summaries", "query4code-triples"];
    let text = text + &rest(2, &["pairing", "negative"], "train", &formats);
    let (plan, out) = (open_plan(directory, &text).unwrap(), directory.join("out"));
    (whole, plan, out)
}

/// The entries of a plan after its queries: `k` candidates by BM25, sources of labels, the only part, and formats.
fn rest(k: usize, labels: &[&str], part: &str, formats: &[&str]) -> String {
    let entries = |table: &str, key: &str, values: &[&str]| -> String {
        values.iter().map(|value| format!("[[{table}]]\n{key} = \"{value}\"\n")).collect()
    };
    let (labels, exports) = (entries("labels", "kind", labels), entries("exports", "format", formats));
    format!(
        "[candidates]\nencoders = []\nunion = [\"bm25\"]\nk = {k}\n{labels}[splits.parts]\n{part} = 1\n{exports}"
    )
}

/// The entry of a plan for a source `src`, the directory of that name beside the plan, in which `a.py` is written.
fn source(directory: &Path, code: &str) -> String {
    fs::create_dir_all(directory.join("src")).unwrap();
    fs::write(directory.join("src/a.py"), code).unwrap();
    "[[sources]]\nname = \"src\"\nkind = \"directory\"\npath = \"src\"\n".to_owned()
}

/// The entry of a plan for queries `typed`, the lines of a file beside the plan, which is written.
fn typed_queries(directory: &Path, queries: &str) -> String {
    fs::write(directory.join("queries.txt"), queries).unwrap();
    "[[queries]]\nname = \"typed\"\nkind = \"file\"\npath = \"queries.txt\"\n".to_owned()
}

/// The entry of a plan for the documentation of functions as queries.
const DOCSTRINGS: &str = "[[queries]]\nname = \"docstrings\"\nkind = \"docstrings\"\n";

fn write_judge(directory: &Path, settings: &str, server: &Server) {
    let model =
        format!("[model]\nprovider = 'openai-compatible'\nbase_url = '{}'\nmodel = 'm'\n", server.url());
    fs::write(directory.join("judge.toml"), format!("{settings}judge = 'cosqa-plus'\n{model}")).unwrap();
}

fn open_plan(directory: &Path, text: &str) -> Result<Plan, BuildError> {
    let path = directory.join("plan.toml");
    fs::write(&path, text).unwrap();
    Plan::open(&path)
}

fn with_tools<T>(use_them: impl FnOnce(&Tools<'_>) -> T) -> T {
    let prepare = |plan: quarry_judge::Plan| -> Result<Judging, Box<dyn Error + Send + Sync>> {
        Ok(Judging::prepare(plan, None)?)
    };
    // No model is needed to find candidates by words.
    let load = |_: ModelName<'_>| -> Result<Arc<dyn Embedder>, EmbedError> { panic!("expected no model") };
    let stop = AtomicBool::new(false);
    use_them(&Tools {
        load: &load,
        open_author: &Author::open,
        prepare_judging: &prepare,
        judge: &|judging, stop| judging.run(stop, &|_| {}),
        counted: &|_, _| {},
        stop: &stop,
    })
}

fn made(plan: &Plan, out: &Path) -> Result<Built, BuildError> {
    with_tools(|tools| build(plan, out, tools, &mut |_| {}))
}

/// Makes all steps again; nothing is asked again.
#[track_caller]
fn remake(plan: &Plan, out: &Path, server: &Server) {
    let n_asked = server.count();
    fs::remove_dir_all(out.join("steps")).unwrap();
    made(plan, out).unwrap();
    assert_eq!(server.count(), n_asked);
}

fn counts(built: &Built, name: &str) -> BTreeMap<String, u64> {
    built.steps.iter().find(|step| step.name == name).unwrap().counts.clone()
}

fn directory_of(built: &Built, out: &Path, name: &str) -> PathBuf {
    let step = built.steps.iter().find(|step| step.name == name).unwrap();
    out.join("steps").join(step.key().as_str())
}

fn answered(text: &str) -> Reply {
    let choice = json!({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    Reply::ok(json!({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}))
}

/// System message and question.
fn texts(seen: &Seen) -> (String, String) {
    let text =
        |number: usize| seen.body["messages"][number]["content"].as_str().unwrap_or_default().to_owned();
    (text(0), text(1))
}

fn asked_function(question: &str) -> String {
    let code = question.split("<code>").nth(1).unwrap_or_default();
    code.split("def ").nth(1).unwrap_or_default().split('(').next().unwrap_or_default().to_owned()
}

/// Summaries and queries are the names of functions; `vague` hardly answers its query, and no query for `odd` can be
/// parsed.
fn script(seen: &Seen) -> Reply {
    let (system, question) = texts(seen);
    let name = asked_function(&question);
    if system.contains("You document") {
        answered(&format!("It does {name}."))
    } else if system.contains("documentation says") {
        answered("It squeezes; text must be given.")
    } else if system.contains("search engine") {
        let style = if system.contains("keywords") { "words" } else { "how" };
        match name.as_str() {
            "odd" => answered("{\"Query\": 7}"),
            name => {
                let words = name.replace('_', " ");
                answered(&json!({"Query": format!("{style} {words} text")}).to_string())
            }
        }
    } else {
        let score = if name == "vague" { "1" } else { "3" };
        answered(&json!({"explanation": "Because.", "related_score": score}).to_string())
    }
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let text = |(path, bytes)| (path, String::from_utf8(bytes).unwrap());
    contents_below(directory).into_iter().map(text).collect()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn callees_are_summarized_first_and_queries_are_validated() {
    let server = Server::script(|_, seen| script(seen));
    let (_directory, plan, out) = plan(&server, 8);
    let built = made(&plan, &out).unwrap();

    let step = |name: &str| built.steps.iter().find(|step| step.name == name).unwrap();
    let asked = &step("queries asked").counts;
    assert_eq!((asked["class 1"], asked["class 3"]), (8, 2), "{asked:?}");
    assert_eq!((asked["removed by reverse validation"], asked["removed by unreadable answers"]), (2, 2));
    assert_eq!((asked["kept"], asked["written"], asked["functions"]), (8, 12, 6));
    let summaries = &step("annotations").counts;
    assert_eq!((summaries["summaries"], summaries["summaries with explanations of packages"]), (6, 1));
    // Every summary, and the explanation.
    assert_eq!(
        (summaries["questions"], summaries["tokens"], summaries["millionths of a dollar"]),
        (7, 770, 840)
    );
    // Ten queries that were parsed and validated, and two that were asked twice.
    assert_eq!((asked["questions"], asked["tokens"]), (24, 2640));
    let report = WrittenReport::read(&out).unwrap();
    assert_eq!((report.classes, report.kept, report.unreadable), ([8, 0, 2, 0], 8, 2));
    assert_eq!((report.tokens, report.dollars), (3410, 0.00372));
    // `clean`, `shout` (twice) and `bang` call functions of the project; one call was removed from a cycle.
    let [project, third_party] = report.calls;
    assert_eq!((report.functions, project.calls, project.maximum, third_party.calls), (6, 4, 2, 1));
    assert_eq!((project.share, third_party.share), (0.8, 0.2));
    let shown: u64 = report.quality.iter().filter(|row| row.with_callees).map(|row| row.queries).sum();
    let called: u64 = report.quality.iter().filter(|row| row.calls > 0).map(|row| row.queries).sum();
    assert!(called == 6 && (4..=6).contains(&shown), "{:?}", report.quality);
    assert_eq!(step("calls").counts["calls removed from cycles"], 1);
    let excluded = directory_of(&built, &out, "queries asked").join("excluded.jsonl");
    let excluded = lines(&fs::read_to_string(excluded).unwrap());
    assert_eq!(excluded.len(), 4);
    assert!(
        excluded.iter().any(|line| line["rule"] == "class 3: Because." && line["text"] == "how vague text")
    );

    // Callees are summarized before their callers.
    let questions: Vec<(String, String)> = server.seen().iter().map(texts).collect();
    let question = |name: &str| {
        let is_asked = |(system, question): &&(String, String)| {
            system.contains("You document") && asked_function(question) == name
        };
        &questions.iter().find(is_asked).unwrap().1
    };
    assert!(question("clean").contains("- strip_all: It does strip_all."), "{}", question("clean"));
    assert!(question("shout").contains("- clean: It does clean."), "{}", question("shout"));
    assert!(
        question("strip_all").contains("- rare.squeeze: It squeezes; text must be given."),
        "{}",
        question("strip_all")
    );
    // One of `shout` and `bang` lacks the other's summary, and neither prompt contains its own documentation.
    let circle = [question("shout").contains("- bang: "), question("bang").contains("- shout: ")];
    assert_eq!(circle.iter().filter(|is_shown| **is_shown).count(), 1);
    assert!(!question("clean").contains("both ends"));

    // Written once, and read from the cache after that.
    let exports = files(&out.join("exports"));
    remake(&plan, &out, &server);
    assert_eq!(files(&out.join("exports")), exports);

    let triples = lines(&exports["query4code-triples/train.jsonl"]);
    assert_eq!(triples.len(), 8);
    let how = triples.iter().find(|triple| triple["query"] == "how clean text").unwrap();
    assert_eq!(how["summary"], "It does clean.");
    assert!(
        how["code"].as_str().unwrap().starts_with("def clean(text):")
            && !how.to_string().contains("both ends")
    );
    assert_eq!(lines(&exports["query4code-summaries/train.jsonl"]).len(), 4);
    assert_eq!(lines(&exports["query4code/train.jsonl"]).len(), 8);

    // Without concurrency, the result is the same.
    let (_directory, plan, out) = self::plan(&server, 1);
    made(&plan, &out).unwrap();
    assert_eq!(files(&out.join("exports")), exports);
}

#[test]
fn a_build_within_its_source_reads_neither_itself_nor_its_plan() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.toml");
    fs::write(
        directory.path().join("a.py"),
        "def clean(text):\n    \"\"\"Strip a text.\"\"\"\n    return text.strip()\n",
    )
    .unwrap();
    let text = r#"
[[sources]]
name = "all"
kind = "directory"
path = "."
[[queries]]
name = "docstrings"
kind = "docstrings"
"#
    .to_owned()
        + &rest(1, &["pairing"], "test", &["beir"]);
    fs::write(&path, &text).unwrap();
    let keys = |plan: &Path| -> Vec<String> {
        let plan = Plan::open(plan).unwrap();
        let built = made(&plan, &plan.default_out()).unwrap();
        built.steps.iter().map(|step| step.key().as_str().to_owned()).collect()
    };
    let first = keys(&path);
    assert_eq!(keys(&path), first);
    // Another plan with another build beside it; the source and the pool stay the same.
    let other = directory.path().join("other.toml");
    fs::rename(&path, &other).unwrap();
    fs::write(&other, text.replace("k = 1", "k = 2")).unwrap();
    let second = keys(&other);
    assert_eq!(second[..2], first[..2]);
    assert_ne!(second, first);
}

/// Calls `popular.read` sixteen times, `some.fold` three times and `rare.squeeze` once.
fn callers() -> String {
    let mut text = "import popular\nimport some\nimport rare\n\n".to_owned();
    for number in 0..16 {
        text += &format!("def read_{number}(path):\n    return popular.read(path, {number})\n\n\n");
    }
    for number in 0..3 {
        text += &format!("def fold_{number}(values):\n    return some.fold(values, {number})\n\n\n");
    }
    text + "def tighten(text):\n    return rare.squeeze(text)\n"
}

#[test]
fn unknown_functions_are_explained_to_the_model() {
    let server = Server::script(|_, seen| {
        let (system, question) = texts(seen);
        let knows = !question.contains("rare.squeeze");
        if system.contains("If you do not know the function") {
            return answered(if knows { "It reads or folds." } else { "Perhaps it does something." });
        }
        if system.contains("without looking at its documentation") {
            // No documentation was shown before, and the explanation is the model's own.
            assert!(
                question.contains("what it does.") && question.contains("It reads") == knows,
                "{question}"
            );
            let score = if knows { "2" } else { "0" };
            return answered(&json!({"explanation": "Compared.", "score": score}).to_string());
        }
        script(seen)
    });
    let (directory, plan, out) = plan(&server, 4);
    fs::write(directory.path().join("src/pkg/text.py"), callers()).unwrap();
    for name in ["popular.read", "some.fold", "rare.squeeze"] {
        fs::write(directory.path().join(format!("apis/{name}.txt")), format!("{name}: what it does."))
            .unwrap();
    }
    let text = fs::read_to_string(&plan.path).unwrap();
    let calibrated = text.replace("[annotation]", "[annotation]\nunpopular_below = \"calibrated\"");
    fs::write(&plan.path, calibrated).unwrap();
    let plan = Plan::open(&plan.path).unwrap();
    let built = made(&plan, &out).unwrap();
    let calibration = counts(&built, "calibration");
    assert_eq!(
        (calibration["functions"], calibration["unpopular below"], calibration["questions"]),
        (3, 2, 6)
    );
    // `some.fold` is called often enough to be known, although three calls are fewer than the default.
    assert_eq!(counts(&built, "annotations")["explanations of packages"], 1);
    let recalled: Vec<String> = server
        .seen()
        .iter()
        .map(texts)
        .filter(|(system, _)| system.contains("If you do not know"))
        .map(|(_, question)| question)
        .collect();
    assert!(recalled.len() == 3 && recalled.iter().all(|question| !question.contains("what it does.")));
    assert!(fs::read_to_string(out.join("card.md")).unwrap().contains("called fewer than 2 times"));

    let report = WrittenReport::read(&out).unwrap();
    let rows: Vec<_> =
        report.understanding.iter().map(|row| ((row.fewest_calls, row.most_calls), row.score)).collect();
    assert_eq!(rows, [((1, 1), 0.0), ((2, 3), 2.0), ((16, 31), 2.0)]);
    assert_eq!(report.unpopular_below, Some(2));

    remake(&plan, &out, &server);
    // Without anything to compare, a number is required.
    for name in ["popular.read", "some.fold"] {
        fs::remove_file(directory.path().join(format!("apis/{name}.txt"))).unwrap();
    }
    let error = made(&plan, &out).unwrap_err().to_string();
    assert!(error.contains("found that of 1 in 1 ranges") && error.contains("unpopular_below"), "{error}");
}

#[test]
fn answers_are_kept_when_a_question_fails() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let server = Server::script(move |_, seen| {
        let (system, question) = texts(seen);
        let fails = system.contains("search engine") && asked_function(&question) == "shout";
        if fails && is_broken.load(Ordering::SeqCst) {
            return Reply::status(500, "{\"error\": {\"message\": \"down\"}}");
        }
        script(seen)
    });
    let (_directory, plan, out) = plan(&server, 4);
    let error = made(&plan, &out).unwrap_err().to_string();
    assert!(error.contains("step queries asked: questions that failed: 2"), "{error}");
    let n_asked = server.count();
    broken.store(false, Ordering::SeqCst);
    made(&plan, &out).unwrap();
    // Two queries and their two validations.
    assert_eq!(server.count() - n_asked, 4);
}

#[test]
fn a_question_that_the_server_rejects_has_no_answer_unless_it_rejects_most() {
    let rejects_all = Arc::new(AtomicBool::new(true));
    let is_all = Arc::clone(&rejects_all);
    let server = Server::script(move |_, seen| {
        let (system, question) = texts(seen);
        let is_rejected = system.contains("search engine") && asked_function(&question) == "shout";
        if is_rejected || is_all.load(Ordering::SeqCst) {
            return Reply::status(400, "{\"error\": {\"message\": \"content policy\"}}");
        }
        script(seen)
    });
    let (_directory, plan, out) = plan(&server, 4);
    let error = made(&plan, &out).unwrap_err().to_string();
    assert!(error.contains("questions that failed") && error.contains("content policy"), "{error}");
    rejects_all.store(false, Ordering::SeqCst);
    let built = made(&plan, &out).unwrap();
    // Two of `shout`, and two of `odd`, whose answers cannot be read.
    assert_eq!(counts(&built, "queries asked")["removed by unreadable answers"], 4);
}

#[test]
fn a_budget_holds_over_several_builds() {
    let server = Server::script(|_, seen| script(seen));
    let (_directory, plan, out) = plan(&server, 1);
    let text = fs::read_to_string(&plan.path).unwrap();
    let limited = text.replacen("[author.model]", "[author.budget]\ntokens = 3000\n[author.model]", 1);
    fs::write(&plan.path, &limited).unwrap();
    let plan = Plan::open(&plan.path).unwrap();
    for _ in 0..3 {
        let error = made(&plan, &out).unwrap_err().to_string();
        assert!(error.contains("the budget is too small"), "{error}");
    }
    // 110 tokens are counted for each.
    assert!((3..=27).contains(&server.count()), "{}", server.count());
}

#[test]
fn code_is_written_for_queries_that_nothing_answers() {
    // The judge accepts code with the requested name; the first generated code is rejected.
    let server = Server::script(|_, seen| {
        let (system, question) = texts(seen);
        if system.contains("a reviewer says") {
            return answered("def pick_largest(values):\n    return max(values)\n");
        }
        if system.contains("Write one function that does all") {
            return answered("def attempt(values):\n    return values[0]\n");
        }
        let is_yes = question.contains("pick the largest") && question.contains("def pick_largest");
        let judgement = if is_yes { "yes" } else { "no" };
        answered(&json!({"analysis": "So it is.", "judgement": judgement}).to_string())
    });
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let code = "def clean(text):\n    \"\"\"Remove spaces at both ends.\"\"\"\n    return text.strip()\n\n\n\
                def smallest(values):\n    return min(values)\n";
    write_judge(directory.path(), "pairs = ['none']\n", &server);
    let text = source(directory.path(), code)
        + DOCSTRINGS
        + &typed_queries(directory.path(), "pick the largest of values\n")
        + &rest(2, &["pairing", "judge"], "test", &["beir", "cosqa-plus", "training-pairs"])
            .replace("\"judge\"", "\"judge\"\npath = \"judge.toml\"\ngenerate = true");
    let plan = open_plan(directory.path(), &text).unwrap();
    let out = path("out");
    let built = made(&plan, &out).unwrap();
    let labels = counts(&built, "labels");
    assert_eq!(labels["positive by generation by the model of judge 2"], 1, "{labels:?}");
    assert_eq!((labels["positive by pairing"], labels["queries with a positive"]), (1, 2));
    // The other query has a positive that the judge was not asked about: no code is written for it.
    let written = server
        .seen()
        .iter()
        .filter(|seen| texts(seen).0.contains("Write one function that does all"))
        .count();
    assert_eq!(written, 1);

    let exports = files(&out.join("exports"));
    let corpus = lines(&exports["beir/corpus.jsonl"]);
    let found =
        corpus.iter().find(|code| code["text"].as_str().unwrap().contains("def pick_largest")).unwrap();
    assert_eq!(corpus.len(), 3);
    assert!(exports["beir/qrels/test.tsv"].contains(found["_id"].as_str().unwrap()));
    assert!(exports["cosqa-plus/test.json"].contains("def pick_largest"));
    assert!(exports["training-pairs/test.jsonl"].contains("def pick_largest"));

    remake(&plan, &out, &server);
    assert_eq!(files(&out.join("exports")), exports);

    // Code that a person rejects is not exported by the next build.
    let ledger = out.join("judging-1.ledger");
    let judging = quarry_judge::Plan::open(&path("judge.toml"), Some(&ledger)).unwrap();
    let writer = Writer::open(&ledger).unwrap();
    let judge = writer.ledger().judge(&judging.version).unwrap().unwrap();
    let code = writer.ledger().generated(judge).unwrap().remove(0);
    writer
        .add_generated(NewCode {
            judge,
            query_id: code.pair.query_id,
            query: code.pair.query,
            code: code.pair.code,
            language: code.pair.language,
            round: code.round,
            model: code.model,
            prompt: code.prompt,
            request: None,
            status: GeneratedStatus::Rejected,
            person: Some("Ann".to_owned()),
        })
        .unwrap();
    drop(writer);
    let labels = counts(&made(&plan, &out).unwrap(), "labels");
    assert!(!labels.contains_key("positive by generation by the model of judge 2"), "{labels:?}");
    assert_eq!(labels["generated codes that people rejected"], 1, "{labels:?}");
    let exports = files(&out.join("exports"));
    assert!(exports.values().all(|text| !text.contains("def pick_largest")), "{exports:?}");
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    assert!(card.contains("| that people rejected | 1 |"), "{card}");
}
