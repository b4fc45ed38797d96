//! Plans over tiny data.

use super::*;
use crate::method::ModelName;
use crate::method::tests::TestEmbedder;
use crate::report::{self, Question};
use quarry_embed::Embedder;
use quarry_metrics::table::Layout;
use quarry_test_support::files::write_below as write;
use quarry_text::counted;
use std::fs;
use std::sync::Arc;

const PLAN: &str = r#"
    title = "Numbers"
    introduction = "Measured."
    page = "out/page.md"
    json = "out/page.json"
    bootstrap = { resamples = 500 }

    [[datasets]]
    name = "Tiny"
    protocol = "cosqa-search"
    files = { queries = "pairs.json", codes = "codes.json" }
    measures = ["mrr", "recall@1"]
    methods = ["bow", "bm25"]
    baseline = "bow"
    references = [{ name = "Them | us", values = { mrr = 0.5 }, source = "a paper" }]

    [[datasets]]
    name = "Whole repositories"
    description = "Pinned."
    protocol = "repo-search"
    files = { table = "table.tsv" }
    measures = ["ndcg@10"]
    methods = ["bm25"]
    baseline = "bm25"
    references = [{ name = "Other", values = { "ndcg@10" = 0.8 }, parts = { demo = 0.7 }, source = "here" }]
"#;

fn read(plan: &str) -> Result<Plan, String> {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &[("plan.toml", plan)]);
    Plan::read(&directory.path().join("plan.toml")).map_err(|error| error.to_string())
}

fn data() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write(
        directory.path(),
        &[
            ("codes.json", r#"{"def read_csv(path): pass": 0, "def sort_list(xs): pass": 1, "x = 1": 2}"#),
            (
                "pairs.json",
                r#"[{"idx":"a","doc":"python read csv","label":1,"retrieval_idx":0},
                    {"idx":"b","doc":"sort a list please now","label":1,"retrieval_idx":1}]"#,
            ),
            (
                "table.tsv",
                "repo\trevision\troot\tcategory\tquery\trelevant\n\
                 demo\tr\tsrc\tsymbol\tread_csv\tsrc/a.py\ndemo\tr\tsrc\tsymbol\tnothing\tsrc/b.py\n",
            ),
            ("repos/demo/src/a.py", "def read_csv(path):\n    pass\n"),
            ("repos/demo/src/b.py", "def sort_list(xs):\n    pass\n"),
        ],
    );
    directory
}

fn locations(directory: &Path) -> Locations {
    Locations {
        data: directory.to_owned(),
        plan: directory.to_owned(),
        measured: Vec::new(),
        repositories: Vec::new(),
    }
}

fn run_in(
    directory: &Path,
    plan: &Plan,
    with_repositories: bool,
) -> (Result<Results, EvalError>, Vec<Event>) {
    let repositories = if with_repositories { vec![directory.join("repos")] } else { Vec::new() };
    let locations = Locations { repositories, ..locations(directory) };
    let store = Store::open(&directory.join("results")).unwrap();
    let mut events = Vec::new();
    let program = Program {
        build: "a build".into(),
        load: &|_: ModelName<'_>| unreachable!("no method here has a model"),
        api: &|_| unreachable!("no method here asks a server"),
        chat: &|_| unreachable!("no method here asks a server"),
    };
    let results =
        plan.run(&locations, &store, &program, &TrainedModels::default(), |event, _, _| events.push(event));
    (results, events)
}

fn run(plan: &Plan, with_repositories: bool) -> Result<Results, EvalError> {
    run_in(data().path(), plan, with_repositories).0
}

#[test]
fn a_plan_becomes_a_page() {
    let results = run(&read(PLAN).unwrap(), true).unwrap();
    let tiny = &results.datasets[0].parts[0];
    assert_eq!((tiny.queries, tiny.documents), (2, 3));
    // Bag of words does not match whole identifiers; search splits them into parts.
    assert_eq!(tiny.methods[1].metrics["mrr"], 1.0);
    assert!(tiny.methods[0].metrics["mrr"] < 1.0);
    assert!(tiny.methods[0].over_baseline.is_empty());
    assert!(tiny.methods[1].over_baseline["mrr"].difference > 0.0);
    let page = results.page();
    for line in [
        "# Numbers",
        "Measured.",
        "## Tiny",
        "| method | mrr | p | recall@1 | p |",
        "| Them \\| us | 0.500 | a paper |",
        "Differences in mrr, query by query:",
        "| method | mrr | difference from bow | interval | p |",
        &format!("| bow | {:.3} |  |  |  |", tiny.methods[0].metrics["mrr"]),
        "Queries by words, mrr:",
        "| words | queries | bow | bm25 |",
        "| 1-3 | 1 | 0.333 | 1.000 |",
        "## Whole repositories",
        "Pinned.",
        "| bm25 | 0.500 [0.000, 1.000] |",
        "| repository | bm25 | Other |",
        "| demo | 0.500 | 0.700 |",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert!(page.contains("2 queries, 3 documents. In brackets: 95 % bootstrap interval"), "{page}");
    assert!(page.lines().any(|line| line.starts_with("| bm25 | 1.000 [1.000, 1.000] | ")), "{page}");
    let latex = results.sections().render(Layout::Latex);
    assert!(latex.contains("method & mrr & p & recall@1 & p \\\\"), "{latex}");
}

#[test]
fn a_page_of_html_needs_no_other_file_and_shows_texts_as_they_are() {
    let mut results = run(&read(PLAN).unwrap(), true).unwrap();
    results.introduction = "Some *markdown* <script>alert(1)</script>".into();
    let page = report::page(&results);
    for part in [
        "<em>markdown</em>",
        "&lt;script&gt;alert(1)",
        "def read_csv(path): pass",
        "<svg",
        "Queries that differ most",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script>alert") && !page.contains("src=") && !page.contains("<link"));
    let moved = &results.datasets[0].parts[0].moved[0];
    assert!(moved.after > moved.before && moved.first_after.relevant, "{moved:?}");
}

#[test]
fn two_methods_are_compared_query_by_query() {
    let (directory, plan) = (data(), read(PLAN).unwrap());
    let results = run_in(directory.path(), &plan, true).0.unwrap();
    let dataset = &results.datasets[0];
    let part = &dataset.parts[0];
    let queries = |number: usize| {
        let method = &part.methods[number];
        QueryCells { dataset, part, method }.read(&directory.path().join("results"))
    };
    let question = Question { methods: [0, 1], ..Question::default() };
    let compared =
        |question: &Question| report::comparison(&results, question, queries, ("/compare", &[])).unwrap();
    let page = compared(&question).unwrap();
    assert!(page.policy.contains("form-action 'self'") && page.policy.contains("frame-ancestors 'none'"));
    for part in [
        "mrr: 2 better, 0 worse, 0 even. 2 queries shown.",
        "def read_csv(path): pass",
        "action=\"/compare\"",
    ] {
        assert!(page.html.contains(part), "{part}: {}", page.html);
    }
    assert_eq!(page.html.matches("<article").count(), 2);
    let hostile = Question { words: "\"><script>".into(), ..question.clone() };
    let page = compared(&hostile).unwrap().html;
    assert!(page.contains("0 queries shown") && !page.contains("\"><script>"), "{page}");
    for wrong in
        [Question { dataset: 9, ..question.clone() }, Question { methods: [0, 9], ..question.clone() }]
    {
        assert_eq!(compared(&wrong), None);
    }
    // Without the cells there is nothing to show, which the page says.
    fs::remove_dir_all(directory.path().join("results/cells")).unwrap();
    fs::create_dir(directory.path().join("results/cells")).unwrap();
    assert!(compared(&question).unwrap().html.contains("run the plan again"));
    let served = report::served_page(&results, "/compare", &[("All".into(), "/".into())]).html;
    assert!(served.contains("href=\"/compare?dataset=0&amp;part=0\""), "{served}");
}

#[test]
fn measured_cells_are_reused_with_the_same_results() {
    let (directory, plan) = (data(), read(PLAN).unwrap());
    let (first, events) = run_in(directory.path(), &plan, true);
    assert_eq!(events, [Event::Started; 3]);
    let (again, events) = run_in(directory.path(), &plan, true);
    assert_eq!(events, [Event::Known; 3]);
    let json = |results: &Results| serde_json::to_string(results).unwrap();
    let first = first.unwrap();
    assert_eq!(json(&first), json(&again.unwrap()));
    assert_eq!(first, serde_json::from_str(&json(&first)).unwrap());
    // A truncated cell counts as missing; changed data lead to another cell.
    let cells =
        || fs::read_dir(directory.path().join("results/cells")).unwrap().map(|cell| cell.unwrap().path());
    let cut = cells().filter(|cell| cell.extension().is_some()).min().unwrap();
    let text = fs::read(&cut).unwrap();
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    fs::write(directory.path().join("results/cells/.partial-killed"), "x").unwrap();
    write(directory.path(), &[("repos/demo/src/b.py", "def nothing():\n    pass\n")]);
    let (changed, events) = run_in(directory.path(), &plan, true);
    let started = events.iter().filter(|event| **event == Event::Started).count();
    assert!(started >= 1 && changed.unwrap().datasets[1].parts[0].methods[0].metrics["ndcg@10"] == 1.0);
    assert!(cells().all(|cell| !cell.to_string_lossy().contains("partial")));
}

/// Embeds every text to the same vector.
fn constant(id: &'static str) -> Arc<dyn Embedder> {
    TestEmbedder::shared(id, |_| [1.0], |_| [1.0])
}

#[test]
fn each_build_model_and_server_is_measured_for_itself() {
    let directory = data();
    let methods = r#"["bow", "rrf(bow, static)", "api:small"]"#;
    let mut plan = read(&PLAN.replacen(r#"["bow", "bm25"]"#, methods, 1)).unwrap();
    plan.datasets.truncate(1);
    let measured = |build: &str, model: &'static str, server: &str| {
        let program = Program {
            build: build.into(),
            load: &|_: ModelName<'_>| Ok(constant(model)),
            api: &|api| Ok(format!("{} at {server}", api.model)),
            chat: &|chat| Ok(format!("{} at {server}", chat.model)),
        };
        let locations = locations(directory.path());
        let store = Store::open(&directory.path().join("results")).unwrap();
        let mut started = Vec::new();
        let run = plan.run(&locations, &store, &program, &TrainedModels::default(), |event, _, method| {
            if event == Event::Started {
                started.push(method.to_owned());
            }
        });
        run.unwrap();
        started
    };
    let all = ["bow", "rrf(bow, static)", "api:small"];
    assert_eq!(measured("one", "first", "here"), all);
    assert!(measured("one", "first", "here").is_empty());
    assert_eq!(measured("two", "first", "here"), all);
    assert_eq!(measured("two", "second", "here"), all[1..2]);
    assert_eq!(measured("two", "second", "there"), all[2..]);
    // Results of another build or model are kept.
    assert!(measured("one", "first", "here").is_empty());
}

#[test]
fn two_runs_at_once_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _held = Store::open(directory.path()).unwrap();
    let error = Store::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("another process writes these results"), "{error}");
}

#[test]
fn repository_search_needs_checkouts() {
    let error = run(&read(PLAN).unwrap(), false).unwrap_err().to_string();
    assert!(error.contains("table.tsv: needs checkouts; name the directory"), "{error}");
}

#[test]
fn wrong_plans_are_refused() {
    for (from, to, expected) in [
        (
            "baseline = \"bow\"",
            "baseline = \"static\"",
            "expected the baseline of \"Tiny\" among its methods bow",
        ),
        ("[\"ndcg@10\"]", "[\"mrr\"]", "expected measures = [\"ndcg@10\"] for \"Whole repositories\""),
        ("\"recall@1\"", "\"recall\"", "expected a measure (mrr,"),
        ("cosqa-search", "cosqa-seek", "is not a protocol (\"Tiny\"); expected one of full-corpus, "),
        ("cosqa-search", "cosqa-serach", "(\"Tiny\"); did you mean `cosqa-search`?"),
        (
            "{ table =",
            "{ tables =",
            "expected files = { table = \"FILE\" } for \"Whole repositories\", found tables",
        ),
        ("files = { queries = \"pairs.json\"", "files = { queries = 3", "a path or a list of paths"),
        ("title", "titel", "unknown field `titel`; did you mean `title`?"),
    ] {
        let plan = PLAN.replacen(from, to, 1);
        let error = read(&plan).unwrap_err();
        let line = plan.lines().position(|line| line.contains(to)).unwrap() + 1;
        assert!(error.contains(expected) && error.contains(&format!("plan.toml:{line}: ")), "{error}");
    }
}

/// The entries allowed in a table of a plan, as listed in the message about an unknown entry.
fn known_entries(plan: &str, table: &str) -> Vec<String> {
    let message = read(&plan.replace(table, &format!("{table}\nsurprise = 1"))).unwrap_err();
    let (_, list) = message.split_once("expected one of ").unwrap_or_else(|| panic!("{table}: {message}"));
    list.lines().next().unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_entry_is_documented_and_nothing_else_is() {
    let page = include_str!("../../../../docs/reference/evaluation-plans.md");
    let plan = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let documented: toml::Table = plan.parse().unwrap();
    // Everything that the example names exists: baseline, protocol, options.
    read(plan).unwrap();
    let dataset = documented["datasets"][0].as_table().unwrap();
    for (table, found) in [
        ("title = \"Results\"", &documented),
        ("[bootstrap]", documented["bootstrap"].as_table().unwrap()),
        ("[[training]]", documented["training"][0].as_table().unwrap()),
        ("[[datasets]]", dataset),
        ("[datasets.options]", dataset["options"].as_table().unwrap()),
        ("[[datasets.references]]", dataset["references"][0].as_table().unwrap()),
    ] {
        let known = known_entries(plan, table);
        let mut names: Vec<&String> = found.keys().collect();
        for entry in &known {
            assert!(names.contains(&entry), "docs/reference/evaluation-plans.md lacks {entry} of {table}");
        }
        names.retain(|name| !known.contains(name));
        assert!(names.is_empty(), "there are no {names:?} in {table}");
    }
}

/// Models of a plan: the name of a run's file is its number of letters, as long as it takes.
struct Letters;

impl Trainer for Letters {
    fn settings(&self, run: &TrainingRun) -> Result<String, TrainerError> {
        match run.settings.iter().any(|setting| setting.contains("bad")) {
            true => Err("a bad setting".into()),
            false => Ok(run.settings.join(" ")),
        }
    }

    fn compare(&self, run: &TrainingRun) -> Result<String, TrainerError> {
        match run.measured.iter().find(|path| run.pairs.contains(path) && !run.tolerate.contains(path)) {
            Some(path) => Err(format!("shares {}", path.display()).into()),
            None => Ok(format!("compared with {}", counted(run.measured.len(), "file"))),
        }
    }

    fn train(&self, run: &TrainingRun, directory: &Path) -> Result<(), TrainerError> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("weights"), run.settings.join(" "))?;
        Ok(())
    }

    fn finished(&self, directory: &Path) -> Result<Option<TrainedRun>, TrainerError> {
        let Ok(weights) = fs::read_to_string(directory.join("weights")) else { return Ok(None) };
        let value = Some(weights.len() as f64);
        Ok(Some(TrainedRun { measure: "MRR".into(), value, epoch: Some(1), examples: 1 }))
    }

    fn estimate(&self, run: &TrainingRun) -> Result<TrainingEstimate, TrainerError> {
        assert!(run.model.is_dir(), "a model on disk is measured: {}", run.model.display());
        Ok(TrainingEstimate { examples: 1, steps: 2, step_seconds: 0.5, measure_seconds: 1.0 })
    }
}

const TRAINING: &str = r#"
    [[training]]
    name = "first"
    model = "base"
    pairs = "own.json"
    grid = { rate = [1, 10] }
    seeds = [1, 22]

    [[training]]
    name = "{kind}-second"
    each = { kind = ["small", "large"] }
    model = "trained:first"
    set = { kind = "{kind}" }
    pairs = "own.json"

    [[datasets]]"#;

#[test]
fn models_are_trained_once_for_each_combination_and_seed() {
    let directory = data();
    write(directory.path(), &[("base/config.json", "{}"), ("own.json", "[1]")]);
    let methods = r#"["bow", "trained:first", "trained:large-second:mean"]"#;
    let text = PLAN.replacen("[[datasets]]", TRAINING, 1).replacen(r#"["bow", "bm25"]"#, methods, 1);
    let mut plan = read(&text).unwrap();
    plan.datasets.truncate(1);
    let measured = plan.measured_files(directory.path());
    let locations = Locations { measured, ..locations(directory.path()) };
    let store = Store::open(&directory.path().join("results")).unwrap();
    let planned = plan.planned_runs(&locations, &store, &Letters).unwrap();
    assert_eq!(planned.len(), 4 + 4);
    let estimated =
        planned.iter().filter(|run| run.estimate.is_some_and(|estimate| estimate.seconds() == 2.0));
    assert_eq!((estimated.count(), planned.iter().filter(|run| run.trained).count()), (8, 0));
    let train = || {
        let mut started = 0;
        let models = plan.train(&locations, &store, &Letters, |event, _, _| {
            started += usize::from(event == Event::Started)
        });
        (models.unwrap(), started)
    };
    let (models, started) = train();
    assert_eq!((started, train().1), (8, 0));
    let [first, small, _] = &models.results[..] else { panic!("{:?}", models.results) };
    // The settings of the second combination are longer.
    assert_eq!(
        (first.chosen, first.combinations[1].settings.as_slice()),
        (1, ["rate=10".to_owned()].as_slice())
    );
    assert_eq!((small.name.as_str(), small.combinations[0].epochs.len()), ("small-second", 2));
    let program = Program {
        build: "a build".into(),
        load: &|name: ModelName<'_>| match name {
            ModelName::Path(path)
                if path.to_string_lossy().ends_with(":mean") || path.join("weights").is_file() =>
            {
                Ok(constant("trained"))
            }
            other => panic!("{other:?}"),
        },
        api: &|_| unreachable!("no method here asks a server"),
        chat: &|_| unreachable!("no method here asks a server"),
    };
    let mut started = Vec::new();
    let results =
        plan.run(&locations, &store, &program, &models, |_, _, method| started.push(method.to_owned()));
    let part = &results.unwrap().datasets[0].parts[0];
    assert_eq!(started.len(), 1 + 2 + 2);
    assert_eq!(part.methods[1].deviations["mrr"], 0.0);
    assert!(part.methods[0].deviations.is_empty() && part.methods[1].over_baseline.contains_key("mrr"));
    let differences = part.differences_table("bow").unwrap().render(Layout::Markdown);
    let lines: Vec<&str> = differences.lines().collect();
    assert_eq!(
        lines[0], "| method | mrr | deviation | difference from bow | interval | p |",
        "{differences}"
    );
    assert!(lines[3].starts_with("| trained:first | ") && lines[3].contains(" | 0.000 | "), "{differences}");
    assert_eq!(first.evaluation_data, "compared with 2 files");
    // Pairs that are measured on are refused before anything is trained, even if the model is there, unless the entry names
    // them.
    let pairs = plan.training[0].pairs.clone();
    plan.training[1].pairs = Paths(vec![plan.datasets[0].files.values().next().unwrap().0[0].clone()]);
    let refused = |plan: &Plan| {
        plan.train(&locations, &store, &Letters, |_, _, _| panic!("nothing is trained")).unwrap_err()
    };
    assert!(matches!(refused(&plan), EvalError::Training { name, .. } if name == "small-second"));
    plan.training[1].tolerate = plan.training[1].pairs.clone();
    let models = plan.train(&locations, &store, &Letters, |_, _, _| {}).unwrap();
    assert_eq!(models.results[1].evaluation_data, "compared with 2 files");
    plan.training[1].pairs = pairs;
    // All mistakes are found before the first run, and other pairs make other models.
    write(directory.path(), &[("own.json", "[]")]);
    let again = plan.planned_runs(&locations, &store, &Letters).unwrap();
    assert!(again.iter().all(|run| !run.trained));
    plan.training[2].set.insert("kind".into(), "bad".into());
    let error = plan.train(&locations, &store, &Letters, |_, _, _| panic!("nothing is trained")).unwrap_err();
    assert!(matches!(error, EvalError::Training { name, .. } if name == "large-second"));
}

#[test]
fn wrong_models_to_train_are_refused() {
    let many = format!("rate = {:?}", vec![1; 2_000]);
    for (from, to, expected) in [
        (
            "\"trained:first\"",
            "\"trained:last\"",
            "\"small-second\" needs \"last\", which no earlier entry trains",
        ),
        ("name = \"first\"", "name = \"a:b\"", "expected a name of letters"),
        ("{kind}-second", "second", "two trained models are called \"second\""),
        ("rate = [1, 10]", &many, "expected at most 1000 combinations for \"first\", found 2000"),
        ("rate = [1, 10]", "rate = []", "expected values of \"rate\""),
        ("rate = [1, 10]", "seed = [1]", "seeds are listed in `seeds`"),
    ] {
        let text = PLAN.replacen("[[datasets]]", TRAINING, 1).replacen(from, to, 1);
        let error = read(&text).unwrap_err();
        assert!(error.contains(expected) && error.contains("plan.toml:"), "{error}");
    }
    let text = PLAN.replacen("[[datasets]]", TRAINING, 1).replacen(
        r#"["bow", "bm25"]"#,
        r#"["bow", "trained:frist"]"#,
        1,
    );
    let error = read(&text).unwrap_err();
    assert!(error.contains("no model \"frist\" is trained here; did you mean `first`?"), "{error}");
}

#[test]
fn labels_that_err_widen_intervals_and_may_not_keep_an_order() {
    let plan = r#"
        title = "Labels"
        bootstrap = { resamples = 200 }

        [[datasets]]
        name = "Judged"
        protocol = "cosqa-plus-v1"
        files = { pairs = "plus.json" }
        label_errors = "errors.json"
        measures = ["mrr", "map", "judged@10"]
        methods = ["bow", "bm25"]
        reliable = ["bow", "bm25"]
        baseline = "bow"
    "#;
    let directory = data();
    let pairs: Vec<serde_json::Value> = (0..40)
        .flat_map(|query| (0..4).map(move |code| (query, code)))
        .map(|(query, code)| {
            let names = ["read_csv", "sort_list", "open_file", "join_words"];
            let text = names[query % 4].replace('_', " ");
            serde_json::json!({
                "pair-idx": query * 4 + code, "query-idx": query, "query": format!("{text} {query}"), "code-idx": code,
                "code": format!("def {}(x):\n    return x", names[code]), "label": u8::from(code == query % 4 || code + 1 == query % 4)
            })
        })
        .collect();
    let errors = |hits: f64, misses: f64| {
        serde_json::json!({
            "judge": "a judge", "truth": "people",
            "strata": {"tested": {"true_positives": hits, "false_negatives": misses, "false_positives": misses, "true_negatives": hits}},
            "pairs": {"0": {"0": "tested"}}
        })
        .to_string()
    };
    let noisy = |hits, misses| {
        write(
            directory.path(),
            &[("plus.json", &serde_json::to_string(&pairs).unwrap()), ("errors.json", &errors(hits, misses))],
        );
        run_in(directory.path(), &read(plan).unwrap(), false).0.unwrap()
    };
    let right = noisy(1e6, 1.0);
    let part = &right.datasets[0].parts[0];
    let mean = |results: &Results, method: usize, measure: &str| {
        results.datasets[0].parts[0].methods[method].with_label_errors[measure]
    };
    assert!(!part.methods[0].with_label_errors.contains_key("judged@10"));
    for method in 0..2 {
        let found = mean(&right, method, "mrr");
        assert!((found.mean - part.methods[method].metrics["mrr"]).abs() < 0.02, "{found:?}");
    }
    let often = noisy(13.0, 7.0);
    let width =
        |results: &Results| mean(results, 1, "mrr").interval.high - mean(results, 1, "mrr").interval.low;
    assert!(width(&often) > width(&right));
    let page = right.page();
    assert!(page.contains("With the errors of labels") && page.contains("survives"), "{page}");
    assert!(report::page(&right).contains("interval with errors"));
    let missing = read(&plan.replace("errors.json", "none.json")).unwrap();
    let error = run_in(directory.path(), &missing, false).0.unwrap_err().to_string();
    assert!(error.contains("none.json"), "{error}");
}

#[test]
fn reliability_is_of_the_methods_that_a_plan_names() {
    let plan = r#"
        title = "Reliability"

        [[datasets]]
        name = "Judged"
        protocol = "cosqa-plus-v1"
        files = { pairs = "plus.json" }
        measures = ["mmrr", "mrr"]
        methods = ["bow", "bm25", "overlap"]
        reliable = ["bow", "bm25"]
        baseline = "bow"
    "#;
    let directory = data();
    let words = ["read", "csv", "sort", "list", "open", "file", "join", "word"];
    let pairs: Vec<serde_json::Value> = (0..24)
        .flat_map(|query| (0..8).map(move |code| (query, code)))
        .map(|(query, code)| {
            serde_json::json!({
                "pair-idx": query * 8 + code, "query-idx": query, "query": format!("{} {} {query}", words[query % 8], words[(query + 3) % 8]),
                "code-idx": code, "code": format!("def {}_{}(x):\n    return x", words[code], words[(code * 3 + 1) % 8]),
                "label": u8::from((code + 8 - query % 8) % 8 < 2 + query % 4)
            })
        })
        .collect();
    write(directory.path(), &[("plus.json", &serde_json::to_string(&pairs).unwrap())]);
    let results = run_in(directory.path(), &read(plan).unwrap(), false).0.unwrap();
    let reliability = &results.datasets[0].reliability;
    assert!(
        reliability["mrr: average variance"] > 0.0 && reliability.contains_key("mmrr: cronbach alpha"),
        "{reliability:?}"
    );
    assert!(results.page().contains("| mmrr: cronbach alpha |"));
    let all = read(&plan.replace("reliable = [\"bow\", \"bm25\"]", "")).unwrap();
    let of_all = run_in(directory.path(), &all, false).0.unwrap();
    assert_ne!(&of_all.datasets[0].reliability, reliability);
    let error = read(&plan.replace("reliable = [\"bow\"", "reliable = [\"static\"")).unwrap_err();
    assert!(
        error.contains("expected methods of \"Judged\", bow, bm25, overlap, found \"static\""),
        "{error}"
    );
}
