//! Categories of comments in a build, from scripts to exports, with a server on loopback that follows a script.

use std::fs;

use quarry_build::Built;
use quarry_test_support::model_server::{Reply, Seen, Server};

use super::{answered, counts, made, open_plan, rest};

const SCRIPT: &str = "library(lme4)\n# Are both groups equal? Test it\nt.test(a, b)\n# Fit a mixed model\nm <- lmer(y ~ x)\n\
# Plot the means\nplot(means)\n# Where the files are\nsetwd(there)\n# Say it in many words\nfoo(1)\n# Add a line to it\n+ geom_line()\n";

/// Reply of a model about each comment; one has additional text.
fn category(seen: &Seen) -> Reply {
    let question = seen.body["messages"][0]["content"].as_str().unwrap();
    let comment = question.rsplit("<comment>").next().unwrap().split("</comment>").next().unwrap().trim();
    answered(match comment {
        "Are both groups equal? Test it" => "Statistical Test",
        "Fit a mixed model" => "**statistical modeling**",
        "Plot the means" | "Add a line to it" => "Visualization",
        "Where the files are" => "No Relevant Class",
        _ => "It may be a plot, or a test.",
    })
}

#[test]
fn comments_are_of_categories_that_people_check() {
    let server = Server::script(|_, seen| category(seen));
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("study")).unwrap();
    fs::write(directory.path().join("study/analysis.R"), SCRIPT).unwrap();
    let plan = |categories: &str, author: &str| {
        let text = format!(
            r#"
[[sources]]
name = "study"
kind = "directory"
path = "study"
license = "CC0-1.0"
units = "comments"
as_released = true
{author}
[categories]
{categories}
[[queries]]
name = "comments"
kind = "docstrings"
"#
        );
        let rest = rest(2, &["pairing", "negative"], "test", &["statcodesearch", "gecs"]);
        open_plan(directory.path(), &(text + &rest))
    };
    let author = format!(
        "[author.model]\nprovider = \"openai-compatible\"\nbase_url = \"{}\"\nmodel = \"scripted\"\nattempts = 1\n",
        server.url()
    );
    let out = directory.path().join("out");
    let built = made(&plan("", &author).unwrap(), &out).unwrap();
    let counts = |built: &Built| counts(built, "categories");
    let found = counts(&built);
    for (what, count) in [
        ("Statistical Test", 1),
        ("Statistical Modeling", 1),
        ("Visualization", 2),
        ("removed: of no category", 1),
        ("removed: unreadable answers", 1),
        ("kept", 4),
        // One answer could not be read, and was asked for twice.
        ("questions", 7),
    ] {
        assert_eq!(found.get(what), Some(&count), "{what}: {found:?}");
    }
    let table = fs::read_to_string(out.join("exports/statcodesearch/test.csv")).unwrap();
    assert_eq!(table.lines().next(), Some("Idx,Comment,Code,License,Label"));
    // The whole comment, not its first sentence.
    assert!(
        table.contains("Are both groups equal? Test it,\"t.test(a, b)\",CC0-1.0,Statistical Test"),
        "{table}"
    );
    assert_eq!(table.lines().count(), 5);
    assert!(!fs::read_to_string(out.join("exports/gecs/test.jsonl")).unwrap().contains("setwd"));
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    assert!(card.contains("| codes | 4 |") && card.contains("nobody checked it"), "{card}");
    let is_shown = |words: &str| {
        let seen = server.seen();
        seen.iter().any(|seen| seen.body["messages"][0]["content"].as_str().unwrap().contains(words))
    };
    assert!(!is_shown("shapiro.test") && is_shown("- Data Variable: "));

    // Examples are other questions.
    let n_asked = server.count();
    made(&plan("examples = 2", &author).unwrap(), &out).unwrap();
    assert!(is_shown("shapiro.test") && !is_shown("TukeyHSD") && server.count() == n_asked + 7);

    // People keep one of the codes, say that another is of another category, and leave the rest.
    let sheet =
        built.about.iter().find(|path| path.extension().is_some_and(|ending| ending == "csv")).unwrap();
    let filled = fs::read_to_string(sheet).unwrap();
    assert_eq!(filled.lines().count(), 5);
    // No spreadsheet takes code for a formula.
    assert!(
        filled.starts_with("\u{feff}id,") && filled.contains(",Add a line to it,'+ geom_line(),"),
        "{filled}"
    );
    let filled = filled
        .replace("Statistical Test,Statistical Test,", "Statistical Test,Statistical Test,yes")
        .replace("Visualization,Visualization,", "Visualization,Data Variable,yes")
        .replace(
            "Statistical Modeling,Statistical Modeling,",
            "Statistical Modeling,Statistical Modeling,no",
        );
    fs::write(directory.path().join("review.csv"), filled).unwrap();
    let n_asked = server.count();
    let built = made(&plan("review = \"review.csv\"", "").unwrap(), &out).unwrap();
    let found = counts(&built);
    assert_eq!((found["kept"], found["Data Variable"], found["Statistical Test"]), (3, 2, 1), "{found:?}");
    assert_eq!((found["removed: not kept by people"], found["removed: not reviewed"]), (1, 2), "{found:?}");
    assert_eq!((found["categories that people changed"], server.count()), (2, n_asked));
    let table = fs::read_to_string(out.join("exports/statcodesearch/test.csv")).unwrap();
    assert!(table.contains("Plot the means,plot(means),CC0-1.0,Data Variable"), "{table}");

    for (categories, author, problem) in [
        ("", "", "needs [author]"),
        ("examples = 4", &*author, "expected 0 to 3 as `examples`"),
        ("review = \"review.csv\"\nexamples = 1", "", "`review` uses none"),
    ] {
        let error = plan(categories, author).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
