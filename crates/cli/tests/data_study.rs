//! `quarry data intent --labels`, and training on labeled data, as a user runs them.

use crate::fixture::schema::check;
use crate::fixture::{Fixture, check_error, copy_examples, stderr};

fn pair(query: &str, code: &str, label: u8) -> String {
    format!(
        "{{\"query\": \"{query}\", \"code\": \"{code}\", \"label\": {label}, \"language\": \"python\"}}\n"
    )
}

#[test]
fn people_label_queries_and_rules_are_compared_with_them() {
    let fixture = Fixture::new();
    let queries: Vec<String> = (0..30)
        .flat_map(|n| [format!("python reverse list {n}"), format!("why is python slow {n}")])
        .collect();
    fixture.write("tree/queries.txt", &queries.join("\n"));
    fixture.succeed("data intent queries.txt --form form.csv --sample 40");
    let form = fixture.read("tree/form.csv");
    assert_eq!((form.lines().count(), form.lines().next()), (41, Some("query,intent")));
    let instructions = fixture.read("tree/form.md");
    assert!(instructions.contains("- `code-search`: "), "{instructions}");
    // All labels are as the rules have them, but for one; the second rater leaves some out.
    let fill = |skip: usize| {
        let row = |(number, line): (usize, &str)| match line.strip_suffix(',') {
            Some(query) if number % 10 == 1 && skip > 0 => format!("{query},\n"),
            Some(query) if number == 2 => format!("{query},vague\n"),
            Some(query) if query.contains("why") => format!("{query},conceptual\n"),
            Some(query) => format!("{query},Code-Search\n"),
            None => format!("{line}\n"),
        };
        form.lines().enumerate().map(row).collect::<String>()
    };
    fixture.write("tree/one.csv", &fill(0));
    fixture.write("tree/two.csv", &fill(1));
    let value = fixture.json("data intent --labels one.csv two.csv --json");
    check("data-intent", &value);
    assert_eq!((value["queries"].as_u64(), value["raters"].as_u64()), (Some(40), Some(2)));
    assert_eq!(value["alpha"], 1.0);
    assert!(value["rules"]["accuracy"].as_f64().unwrap() >= 0.975, "{value}");
    fixture.check_error("data intent --labels form.csv", "fill in the column `intent`");
    fixture.write("tree/bad.csv", "query,intent\na,search\n");
    fixture.check_error("data intent --labels bad.csv", "expected one of code-search, debugging");
}

#[test]
fn labeled_data_is_trained_on_with_its_negatives() {
    let fixture = Fixture::new();
    let rows: String = (0..40)
        .flat_map(|n| {
            let query = format!("read file number {n}");
            [
                pair(&query, &format!("def read_{n}(path): return open(path).read({n})"), 1),
                pair(&query, &format!("def read_all_{n}(path): return list(open(path, {n}))"), 1),
                pair(&query, &format!("def write_{n}(path): return open(path).write({n})"), 0),
            ]
        })
        .collect();
    fixture.write("tree/pairs.jsonl", &rows);
    let settings = "--set batch=16 --set epochs=1 --set dimension=16 --set validation=0.0";
    let output = fixture.run(&format!("train static --pairs pairs.jsonl --out model {settings}"));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("80 pairs of labeled data, with 80 hard negatives"), "{said}");
    fixture.write("tree/none.jsonl", &pair("read", "def f(): pass", 0));
    let output = fixture.run("train static --pairs none.jsonl --out none");
    check_error(&output, "expected pairs that are labeled as matching, found none of 1 queries");
}

#[test]
fn documented_counts_match_the_build() {
    let fixture = Fixture::new();
    copy_examples("build", &fixture.path("tree/build"));
    let written = ["data", "build", "build/written.toml", "--out", "built"];
    fixture.succeed(&written);
    let docs =
        [&written[..], &["--api-docs", "docs", "--unsafe-no-sandbox", "--command", "echo about {}"]].concat();
    fixture.succeed(&docs);
    let files: Vec<_> = std::fs::read_dir(fixture.path("tree/docs")).unwrap().map(Result::unwrap).collect();
    assert!(!files.is_empty());
    for file in &files {
        let name = file.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with("about ") && name.ends_with(".txt"), "{name}: {text}");
    }
    // Existing files are kept.
    let said = fixture.stderr(&docs);
    assert!(said.contains("docs: 0 of 0 functions"), "{said}");
    // A package whose docstrings are read is imported in the sandbox.
    fixture
        .succeed(&[&written[..], &["--api-docs", "own", "--unsafe-no-sandbox", "--below", "1000"]].concat());
    fixture.check_error("data build build/written.toml --out tree --api-docs x", "build");
}
