use std::fs;

use super::*;
use crate::queries::styles;
use crate::sources::filter;

const PLAN: &str = r#"
title = "Small"
[[sources]]
name = "a"
kind = "directory"
path = "src"
[[queries]]
name = "docstrings"
kind = "docstrings"
[[labels]]
kind = "pairing"
[[exports]]
format = "beir"
"#;

fn open(text: &str) -> Result<Plan, BuildError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.toml");
    fs::write(&path, text).unwrap();
    Plan::open(&path)
}

#[test]
fn a_plan_has_defaults_and_paths_from_its_directory() {
    let plan = open(PLAN).unwrap();
    assert_eq!((plan.title.as_str(), plan.seed, plan.candidates.k), ("Small", 42, 10));
    assert!(plan.sources[0].path.ends_with("src") && plan.sources[0].path.is_absolute());
    assert_eq!(plan.default_out(), plan.path.with_extension("build"));
    assert_eq!(plan.splits.parts.len(), 3);
}

#[test]
fn shared_code_is_permissive_unless_the_plan_says_otherwise() {
    assert_eq!(open(PLAN).unwrap().pool.licenses, [""; 0]);
    let shared = format!("shared = true\n{PLAN}");
    assert_eq!(open(&shared).unwrap().pool.licenses, ["permissive"]);
    let own = format!("{shared}[pool]\nlicenses = [\"MPL-2.0\"]\n");
    assert_eq!(open(&own).unwrap().pool.licenses, ["MPL-2.0"]);
}

/// Replaces a text of the plan, and checks the line and the message of the error.
#[track_caller]
fn check(from: &str, to: &str, line: usize, expected: &[&str]) {
    assert!(PLAN.contains(from), "{from}");
    let error = open(&PLAN.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(error.contains(&format!("plan.toml:{line}: ")), "{error}");
    for words in expected {
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// As [`check`], for lines before a text of the plan.
#[track_caller]
fn check_before(text: &str, lines: &str, line: usize, expected: &[&str]) {
    check(text, &format!("{lines}\n{text}"), line, expected);
}

/// As [`check`], for lines after one of the plan.
#[track_caller]
fn check_after(text: &str, lines: &str, line: usize, expected: &[&str]) {
    check(text, &format!("{text}\n{lines}"), line, expected);
}

#[test]
fn errors_are_reported_with_their_line_and_a_remedy() {
    check("title =", "titel =", 2, &["unknown field `titel`", "did you mean `title`?"]);
    check("kind = \"directory\"", "kind = \"folder\"", 5, &["unknown value `folder`"]);
    check("name = \"a\"", "name = \"a b\"", 4, &["expected a name of letters", "found \"a b\""]);
    check("[[exports]]\nformat = \"beir\"\n", "", 1, &["expected [[exports]]", "add one"]);
    check("\"beir\"", "\"bier\"", 13, &["expected a format, found \"bier\"", "did you mean `beir`?"]);
    check_before("[[exports]]", "[[exports]]\nformat = \"beir\"", 15, &["\"beir\" is exported already"]);
    check_before(
        "[[queries]]",
        "[pool]\nfilters = [\"documented\",\n\"cosqa-pluss\"]",
        9,
        &["a filter", "did you mean `cosqa-plus`?"],
    );
    check_before(
        "[[queries]]",
        "[pool]\nlanguages = [\"pyton\"]",
        8,
        &["expected a language, found \"pyton\""],
    );
    check_after("path = \"src\"", "license = \"free\"", 7, &["an SPDX expression", "found \"free\""]);
    check_before("[[queries]]", "[pool]\nlicenses = [\"MIT\",\n\"free\"]", 9, &["found \"free\""]);
    check_before("[[queries]]", "[pool]\nnear_duplicates = 0.1", 8, &["from 0.5 to 1", "found 0.1"]);
    check_before(
        "[[queries]]",
        "[pool]\nnear_duplicates = 0.9\nkeep_duplicates = true",
        8,
        &["remove one of them"],
    );
    check("kind = \"docstrings\"", "kind = \"file\"", 9, &["needs `path`"]);
    check_after("kind = \"docstrings\"", "path = \"x\"", 10, &["remove it"]);
    check("kind = \"docstrings\"", "kind = \"written\"", 9, &["needs [author]"]);
    check("kind = \"docstrings\"", "kind = \"issues\"", 9, &["needs `path`, the export of issues"]);
    check("kind = \"docstrings\"", "kind = \"commits\"", 9, &["needs `sources`"]);
    check_after("kind = \"docstrings\"", "containing = [\"\"]", 10, &["every query contains"]);
    check("\"beir\"", "\"statcodesearch\"", 13, &["needs [categories]; add it"]);
    check_before("[[queries]]", "[categories]", 7, &["needs [author]"]);
    check(
        "kind = \"docstrings\"",
        "kind = \"commits\"\nsources = [\"b\"]",
        10,
        &["found \"b\"; expected one of a"],
    );
    check(
        "kind = \"docstrings\"",
        "kind = \"commits\"\nsources = [\"a\",\n\"a\"]",
        11,
        &["name each source once"],
    );
    check_after(
        "kind = \"docstrings\"",
        "sources = [\"a\"]",
        10,
        &["`sources` is for the kinds `commits` and `issues`"],
    );
    check(
        "path = \"src\"\n[[queries]]\nname = \"docstrings\"\nkind = \"docstrings\"",
        "path = \"src\"\nunits = \"comments\"\n[[queries]]\nname = \"c\"\nkind = \"commits\"\nsources = [\"a\"]",
        11,
        &["expected a source with a history"],
    );
    check(
        "kind = \"docstrings\"",
        "kind = \"issues\"\npath = \"i.json\"",
        12,
        &["issues without `sources`: no pair would have a label"],
    );
    check_after("kind = \"docstrings\"", "styles = []", 10, &["expected one style"]);
    check_after("kind = \"docstrings\"", "styles = [\"keywords\"]", 10, &["did you mean `keyword`?"]);
    check("\"beir\"", "\"query4code-triples\"", 13, &["needs [[queries]] of `kind = \"written\"`"]);
    check_before(
        "[[queries]]",
        "[author]\nattempts = 0\n[author.model]\nprovider = \"openai-compatible\"\nbase_url = \"http://localhost\"\n\
         model = \"m\"",
        7,
        &["`attempts` is 0"],
    );
    check_after("kind = \"docstrings\"", "maximum = 0", 10, &["expected 1 or more"]);
    check_before(
        "[[queries]]",
        "[annotation]\nunpopular_below = \"calibrated\"",
        8,
        &["`calibrated` compares", "give a number"],
    );
    check_before("[[queries]]", "[annotation]\nunpopular_below = \"few\"", 8, &["or \"calibrated\""]);
    check(
        "kind = \"pairing\"\n[[exports]]\nformat = \"beir\"",
        "kind = \"negative\"\n[[exports]]\nformat = \"training-pairs\"",
        13,
        &["\"training-pairs\" has the pairs that answer", "add labels"],
    );
    check_after("path = \"src\"", "as_released = true", 7, &["`units = \"comments\"`"]);
    check(
        "kind = \"directory\"\npath",
        "kind = \"data-set\"\nunits = \"comments\"\npath",
        6,
        &["`units` is for the kinds `directory`"],
    );
    check_after(
        "kind = \"docstrings\"",
        "styles = [\"question\"]",
        10,
        &["`styles` is for `kind = \"written\"`"],
    );
    check(
        "kind = \"docstrings\"",
        "kind = \"file\"\npath = \"q.txt\"\nextent = \"paragraph\"",
        11,
        &["`extent` is for `kind = \"docstrings\"`"],
    );
    check("kind = \"docstrings\"", "kind = \"file\"\npath = \"q.txt\"", 12, &["no pair would have a label"]);
    check_before(
        "[[queries]]",
        "[candidates]\nencoders = [\"static\"]\nunion = [\"bm25\",\n\"static\"]",
        10,
        &["\"static\" occurs twice"],
    );
    check_before("[[queries]]", "[annotation]\ncalibration = 0", 8, &["found 0"]);
    check_after("kind = \"docstrings\"", "filters = [\"intents\"]", 10, &["did you mean `intent`?"]);
    check_before("[[labels]]", "[candidates]\nk = 0", 11, &["expected 1 to 1000 as `k`, found 0"]);
    check_before("[[labels]]", "[candidates]\nencoders = [\"bm25\"]", 11, &["put others into `union`"]);
    check_before(
        "[[labels]]",
        "[candidates]\nunion = [\"rrf(bm25, run:x)\"]",
        11,
        &["the pool is made here"],
    );
    check_before("[[labels]]", "[candidates]\nunion = [\"rrf(\"]", 11, &["expected"]);
    check_before("[[labels]]", "[candidates]\nencoders = []\nunion = []", 10, &["found neither"]);
    check("kind = \"pairing\"", "kind = \"judge\"", 11, &["needs `path`"]);
    check_after("kind = \"pairing\"", "path = \"x\"", 12, &["remove it"]);
    check_after("kind = \"pairing\"", "generate = true", 12, &["remove it"]);
    check_before("[[labels]]", "[[labels]]\nkind = \"negative\"", 11, &["expected it as the last"]);
    check_before(
        "[[exports]]",
        "[splits.parts]\ntrain = 0",
        12,
        &["with a size from 0.000000001 to 1000000000"],
    );
    check_before("[[exports]]", "[splits.parts]\ntrain = 1e308\ndev = 1e308", 12, &["found dev = 1"]);
    check("title = \"Small\"", "title = \"a\\u001b[2Jb\"", 2, &["a title of one line"]);
    check("title = \"Small\"", "title = \"a\\nb\"", 2, &["a title of one line"]);
    check_after("path = \"src\"", "revision = \"v1\"", 7, &["`revision` is for `kind = \"git\"`"]);
    check_before("[[exports]]", "[splits]\npositives_only = [\"tst\"]", 13, &["did you mean `test`?"]);
    check_before("[[exports]]", "[leaks]\nnear = 0.1", 13, &["from 0.5 to 1", "found 0.1"]);
    check_before("[[exports]]", "[leaks]\naction = \"stop\"", 13, &["unknown value `stop`"]);
    check_before("[[labels]]", "[candidates]\nmaximum_uses = 0", 11, &["expected 1 or more"]);
    check_before("[[labels]]", "[candidates]\nminimum = 2.0", 11, &["a cosine from -1 to 1"]);
    check_before(
        "[[labels]]",
        "[candidates]\nminimum = 0.5\nas_released = true",
        11,
        &["scores are not cosines"],
    );
    check_before("[[labels]]", "[candidates]\nas_released = true\nk = 50", 12, &["30 codes or fewer"]);
    check_before("[[labels]]", "[candidates]\nencoders = []\nminimum = 0.5", 12, &["there are none"]);
    check_after("format = \"beir\"", "parts = [\"tst\"]", 14, &["did you mean `test`?"]);
}

#[test]
#[cfg(unix)]
fn links_that_lead_out_of_the_directory_of_a_plan_are_refused() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("plan");
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir_all(outer.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", directory.join("src")).unwrap();
    let path = directory.join("plan.toml");
    fs::write(&path, PLAN).unwrap();
    let error = Plan::open(&path).unwrap_err().to_string();
    assert!(error.contains("plan.toml:6: ") && error.contains("outside the directory"), "{error}");
}

/// The entries allowed in a table, as listed in the error about an unknown one.
fn known_entries(table: &str) -> Vec<String> {
    let surprise = match table {
        "" => format!("surprise = 1\n{PLAN}"),
        "author" | "categories" | "annotation" | "pool" | "candidates" | "splits" | "leaks" => {
            format!("{PLAN}[{table}]\nsurprise = 1\n")
        }
        _ => PLAN.replacen(&format!("[[{table}]]"), &format!("[[{table}]]\nsurprise = 1"), 1),
    };
    let message = open(&surprise).unwrap_err().to_string();
    let list = message.split("expected ").nth(1).unwrap_or_else(|| panic!("{message}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_entry_is_documented_and_nothing_else_is() {
    let text = include_str!("../../../../docs/reference/build-plans.md");
    let plan = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let documented: toml::Table = plan.parse().unwrap();
    let tables = [
        "",
        "sources",
        "pool",
        "author",
        "categories",
        "annotation",
        "queries",
        "candidates",
        "labels",
        "splits",
        "leaks",
        "exports",
    ];
    for table in tables {
        let found = match table {
            "" => &documented,
            _ => match &documented[table] {
                toml::Value::Array(tables) => tables[0].as_table().unwrap(),
                other => other.as_table().unwrap(),
            },
        };
        let mut found: Vec<&str> = found.keys().map(String::as_str).collect();
        let mut known = known_entries(table);
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known, "[{table}] in docs/reference/build-plans.md");
    }
    for (name, about) in filter::filters() {
        assert!(text.contains(&format!("| `{name}` | {about} |")), "{name}");
    }
    for style in styles::styles() {
        assert!(text.contains(style), "{style}");
    }
    for format in EXPORT_FORMATS {
        assert!(text.contains(&format!("`{format}`")), "{format}");
    }
}
