//! The files of a ledger: which names and modes are refused, and what happens if they go away.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use quarry_judge::ledger::{Answers, GuidelineText, Item, Side, StoredForm, Subject, Writer};

/// Something to write, another one for each number.
fn form(number: usize) -> StoredForm {
    let sides = vec![Side { system: "s".to_owned(), codes: vec![number.to_string()] }];
    let subject = Subject::Answers(Answers { query_id: number.to_string(), query: "q".to_owned(), sides });
    StoredForm {
        name: number.to_string(),
        guideline: GuidelineText { name: "results".to_owned(), text: String::new() },
        tests: false,
        seed: 1,
        items: vec![Item { number: 1, subject }],
    }
}

#[test]
fn a_ledger_with_two_names_is_refused_by_both() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("plan.ledger"), directory.path().join("other.ledger"));
    drop(Writer::open(&path).unwrap());
    fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        let error = Writer::open(name).unwrap_err().to_string();
        assert!(error.contains("2 names (hard links)") && error.contains("`cp`"), "{error}");
    }
    // Nor while one of them is written.
    fs::remove_file(&other).unwrap();
    let held = Writer::open(&path).unwrap();
    fs::hard_link(&path, &other).unwrap();
    assert!(Writer::open(&other).is_err());
    assert!(held.add_form(form(1)).unwrap());
}

#[test]
fn nothing_is_acknowledged_that_is_in_no_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.ledger");
    let gone = |writer: &Writer, number: usize| {
        let error = writer.add_form(form(number)).unwrap_err().to_string();
        assert!(error.contains("was removed or replaced"), "{error}");
    };
    for (number, suffix) in ["", "-wal", ".lock"].into_iter().enumerate() {
        let writer = Writer::open(&path).unwrap();
        assert!(writer.add_form(form(10 * number)).unwrap());
        let (file, moved) =
            (directory.path().join(format!("plan.ledger{suffix}")), directory.path().join("moved"));
        fs::rename(&file, &moved).unwrap();
        gone(&writer, 10 * number + 1);
        // Another file in its place is not the same.
        fs::write(&file, "").unwrap();
        gone(&writer, 10 * number + 2);
        fs::rename(&moved, &file).unwrap();
        assert!(writer.add_form(form(10 * number + 3)).unwrap(), "it is back");
    }
    // A link that leads elsewhere now.
    let link = directory.path().join("link.ledger");
    symlink(&path, &link).unwrap();
    let writer = Writer::open(&link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(directory.path().join("elsewhere"), &link).unwrap();
    gone(&writer, 99);
}

#[test]
fn a_ledger_that_cannot_be_written_is_refused_when_it_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.ledger");
    drop(Writer::open(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    // The superuser can write it all the same.
    if fs::OpenOptions::new().write(true).open(&path).is_err() {
        let error = Writer::open(&path).unwrap_err().to_string();
        assert!(error.contains("cannot be opened for writing"), "{error}");
    }
}
