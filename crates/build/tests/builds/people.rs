//! A rehearsal of labels by people: two scripted annotators fill in the form of a build.

use quarry_judge::ledger::Subject;
use quarry_judge::open_ledger;
use quarry_people::{ImportRequest, import};

use super::*;

const CODES: &str = "def clean(text):\n    \"\"\"Remove spaces.\"\"\"\n    return text.strip()\n\n\n\
                     def smallest(values):\n    return min(values)\n";

/// Answer of each annotator to a pair: by words they differ everywhere, by labels only on one.
fn says(person: &str, query: &str, code: &str) -> &'static str {
    let is_answer = query.contains("strip") == code.contains("strip");
    let is_disputed = query.contains("smallest") && !is_answer;
    match (person, is_answer, is_disputed) {
        ("Ann", true, _) => "1",
        (_, true, _) => "3",
        ("Ann", false, true) => "2",
        ("Ann", false, false) => "6",
        (_, false, _) => "7",
    }
}

/// Has a person fill in the form of a build and send it back.
fn fill_in(out: &Path, person: &str) {
    let plan = quarry_judge::Plan::open(&out.join("people-1.toml"), None).unwrap();
    let (writer, _) = open_ledger(&plan).unwrap();
    let name = writer.ledger().forms().unwrap().pop().unwrap();
    let form = writer.ledger().form(&name).unwrap().unwrap();
    let rows: String = (form.items.iter())
        .filter_map(|item| match &item.subject {
            Subject::Pair(pair) => {
                let label = says(person, &pair.query, &pair.code);
                let row = json!({"form": name, "item": item.number.to_string(), "label": label});
                Some(format!("{row}\n"))
            }
            _ => None,
        })
        .collect();
    let file = out.join(format!("{person}.jsonl"));
    fs::write(&file, rows).unwrap();
    let request = ImportRequest { person: Some(person), ..ImportRequest::default() };
    let imported = import(&writer, &file, &request, &plan.limits, &|| panic!("expected no program")).unwrap();
    assert_eq!(imported.new, form.items.len());
}

#[test]
fn pairs_are_labeled_by_two_people_and_those_that_they_dispute_are_not_exported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let queries = "strip the spaces of a text or of values\nthe smallest of values in a text\n";
    let people = "\"people\"\nguideline = \"cosqa\"\nannotators = [\"Ann\", \"Bob\"]\nminimum_alpha = 0.0";
    let text = source(directory.path(), CODES)
        + &typed_queries(directory.path(), queries)
        + &rest(2, &["people", "negative"], "test", &["beir", "cosqa-plus"]).replace("\"people\"", people);
    let plan = open_plan(directory.path(), &text).unwrap();
    let out = path("out");
    let waits = made(&plan, &out).unwrap_err();
    assert!(matches!(waits, BuildError::Waiting(_)), "waiting is not an error");
    let waits = waits.to_string();
    assert!(waits.contains("4 pairs wait for labels from people, 2 or more each"), "{waits}");
    assert!(waits.contains("people-1.toml --annotator Ann --annotator Bob"), "{waits}");
    assert!(fs::read_to_string(out.join("people-1.toml")).unwrap().contains("people-1.jsonl"));
    fill_in(&out, "Ann");
    // Somebody who is not named does not count.
    fill_in(&out, "Eve");
    let waits = made(&plan, &out).unwrap_err().to_string();
    assert!(waits.contains("4 pairs wait for labels"), "{waits}");
    fill_in(&out, "Bob");
    let built = made(&plan, &out).unwrap();
    let labels = counts(&built, "labels");
    assert_eq!((labels["positive by people, by cosqa"], labels["negative by people, by cosqa"]), (2, 1));
    // Nobody labels it after that.
    assert_eq!((labels["removed by people's agreement"], labels["unlabelled"]), (1, 1));
    assert!(!labels.contains_key("negative by negative"), "{labels:?}");
    let step = directory_of(&built, &out, "labels");
    let removed = lines(&fs::read_to_string(step.join("removed.jsonl")).unwrap());
    assert_eq!(removed.len(), 1);
    let (query, code) = (removed[0]["query"].as_str().unwrap(), removed[0]["code"].as_str().unwrap());
    assert!(query.contains("smallest") && code.contains("strip"), "{removed:?}");
    let exports = files(&out.join("exports"));
    let pairs: Value = serde_json::from_str(&exports["cosqa-plus/test.json"]).unwrap();
    let pairs = pairs.as_array().unwrap();
    assert_eq!(pairs.len(), 3);
    assert!(!pairs.iter().any(|pair| pair["query"] == query && pair["code"] == code));
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    assert!(card.contains("4 pairs by the guideline cosqa: Ann, Bob, at least 2 for each pair"), "{card}");
    assert!(card.contains("| 2, 7 |") && card.contains("below 0 are removed"), "{card}");

    // Nothing changed, nothing is asked again; without the limit the dispute is a tie.
    assert_eq!(made(&plan, &out).unwrap().steps, built.steps);
    let plan = open_plan(directory.path(), &text.replace("\nminimum_alpha = 0.0", "")).unwrap();
    let built = made(&plan, &out).unwrap();
    let labels = counts(&built, "labels");
    assert_eq!((labels["negative by negative"], labels.get("removed by people's agreement")), (1, None));
    let [warning] = built.warnings.as_slice() else { panic!("{:?}", built.warnings) };
    assert!(warning.contains("gave no label by majority to 1 of 4 pairs"), "{warning}");
    assert!(
        warning.contains("quarry judge serve") && warning.contains("people-1.toml --annotator Ann"),
        "{warning}"
    );
    let card = fs::read_to_string(out.join("card.md")).unwrap();
    assert!(card.contains("To 1 of the pairs they gave no label by majority"), "{card}");
    // With a lower limit, too many are undecided.
    let limited = text.replace("\nminimum_alpha = 0.0", "\nmaximum_undecided = 0.2");
    let error = made(&open_plan(directory.path(), &limited).unwrap(), &out).unwrap_err().to_string();
    assert!(error.contains("1 of 4 pairs, more than `maximum_undecided` = 0.2"), "{error}");
}

#[test]
fn a_guideline_without_labels_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let text = source(directory.path(), CODES)
        + DOCSTRINGS
        + &rest(1, &["people"], "test", &["beir"])
            .replace("\"people\"", "\"people\"\nguideline = \"preference\"");
    let plan = open_plan(directory.path(), &text).unwrap();
    let error = made(&plan, &directory.path().join("out")).unwrap_err().to_string();
    assert!(error.contains("the guideline preference gives pairs no labels"), "{error}");
}
