//! Texts that an editor has not saved are found as if they were on disk, and never get there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::{Embedder, StaticModel};
use quarry_index::{
    Filter, Hit, Index, OpenOptions, RankingWeights, SearchRequest, SplitFiles, UserDirectories,
};
use quarry_test_support::files::write;

const QUERIES: [&str; 5] =
    ["bake bread in an oven", "open a socket to a host", "bake_bread", "dial", "return the number of a host"];

const NET: &str = "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n\n\n\
                   def dial(host):\n    return host.number()\n";
const BREAD: &str = "from net import connect\n\n\ndef bake_bread(oven):\n    \"\"\"Bake bread in an oven.\"\"\"\n    \
                     return connect(oven)\n";

fn open(directory: &Path, trees: &[&str], model: Option<&Arc<dyn Embedder>>) -> Index {
    let options =
        OpenOptions { user: UserDirectories::below(&directory.join("user")), ..OpenOptions::default() };
    let paths: Vec<PathBuf> = trees.iter().map(|tree| directory.join(tree)).collect();
    let asked: Vec<_> = paths.iter().map(|path| (path.as_path(), &options)).collect();
    let opened = Index::open_or_build_all(&asked, model.cloned(), &|_| {}).unwrap();
    Index::merge(opened.into_iter().map(|opened| opened.index).collect()).unwrap()
}

/// Result of a search: the place of each hit, its score and its text.
fn found(index: &Index, query: &str) -> Vec<(String, f32, String)> {
    let (filter, ranking) = (Filter::default(), RankingWeights::default());
    let response = index.search(&SearchRequest { query, limit: 20, ranking, filter: &filter }).unwrap();
    let view = |hit: &Hit| {
        let place = format!("{} {}:{}-{} {}", hit.root, hit.path, hit.start_line, hit.end_line, hit.name);
        (place, hit.score, index.source(hit).unwrap().text)
    };
    response.hits.iter().map(view).collect()
}

fn callers(index: &Index, name: &str) -> Vec<String> {
    let definitions = index.definitions_of(name, &Filter::default());
    let calls = index.callers(name, &definitions, &Filter::default()).unwrap().found;
    calls
        .iter()
        .map(|site| format!("{}:{} {} {}", site.path, site.line, site.text, site.is_certain))
        .collect()
}

fn check(trees: &[&str], model: Option<&Arc<dyn Embedder>>, changes: &[(&str, &str)]) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().canonicalize().unwrap();
    for (path, text) in [
        ("a/net.py", NET),
        ("a/sub/main.py", "from net import dial\n\n\ndef main(name):\n    return dial(name)\n"),
        ("a/z.md", "# Hosts\n\nA host has a number.\n"),
        ("b/paper.py", "def fold(paper):\n    \"\"\"Fold a paper in half.\"\"\"\n    return paper.half()\n"),
    ] {
        write(directory.join(path), text);
    }
    let saved = open(&directory, trees, model);
    let texts: Vec<(PathBuf, String)> =
        changes.iter().map(|(path, text)| (directory.join(path), (*text).to_owned())).collect();
    let split = SplitFiles::default();
    let unsaved = saved.with_unsaved(&texts, &split).unwrap().unwrap();
    let before: Vec<_> = QUERIES.iter().map(|query| found(&saved, query)).collect();
    assert!(
        changes
            .iter()
            .all(|(path, text)| fs::read_to_string(directory.join(path)).ok().as_deref() != Some(text))
    );
    let again = open(&directory, trees, model);
    assert_eq!(QUERIES.iter().map(|query| found(&again, query)).collect::<Vec<_>>(), before);
    let ahead: Vec<_> = QUERIES.iter().map(|query| found(&unsaved, query)).collect();
    let ahead_callers = ["dial", "connect"].map(|name| callers(&unsaved, name));

    changes.iter().for_each(|(path, text)| write(directory.join(path), text));
    let expected = open(&directory, trees, model);
    for (query, ahead) in QUERIES.iter().zip(ahead) {
        let expected = found(&expected, query);
        let places = |found: &[(String, f32, String)]| -> Vec<(String, String)> {
            found.iter().map(|(place, _, text)| (place.clone(), text.clone())).collect()
        };
        assert_eq!(places(&ahead), places(&expected), "{query}");
        for ((place, a, _), (_, b, _)) in ahead.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-4, "{query}: {place}: {a} {b}");
        }
    }
    assert_eq!(ahead_callers, ["dial", "connect"].map(|name| callers(&expected, name)));
    // A saved text does not count as unsaved any more.
    assert!(expected.with_unsaved(&texts, &split).unwrap().is_none());
}

#[test]
fn they_rank_as_if_they_were_saved() {
    let longer = format!("{BREAD}\n\n{NET}");
    let changes: [&[(&str, &str)]; 4] = [
        &[("a/net.py", &longer)],
        &[("a/bread.py", BREAD), ("a/sub/deep/more.py", "def dial_again(host):\n    return dial(host)\n")],
        &[("a/net.py", ""), ("a/z.md", "# Bread\n\nBread is baked in an oven.\n"), ("a/a.py", NET)],
        &[("a/sub/main.py", BREAD)],
    ];
    let model: Arc<dyn Embedder> = Arc::new(StaticModel::builtin());
    for changes in changes {
        check(&["a"], Some(&model), changes);
        check(&["a"], None, changes);
    }
}

#[test]
fn several_trees_and_parts_of_one_have_them_too() {
    let model: Arc<dyn Embedder> = Arc::new(StaticModel::builtin());
    let changes =
        [("a/net.py", BREAD), ("b/new.py", NET), ("b/paper.py", "def crease(paper):\n    return paper\n")];
    check(&["a", "b"], Some(&model), &changes);
    check(&["b", "a"], None, &changes);
    check(&["a/sub", "b"], Some(&model), &[("a/sub/main.py", BREAD), ("b/paper.py", NET)]);
}

#[test]
fn excluded_documents_are_left_out() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().canonicalize().unwrap();
    for (path, text) in [
        ("a/net.py", NET),
        ("a/.gitignore", "ignored.py\n"),
        ("a/ignored.py", BREAD),
        ("a/.hidden.py", BREAD),
    ] {
        write(directory.join(path), text);
    }
    let index = open(&directory, &["a"], None);
    let split = SplitFiles::default();
    let unsaved = |path: &str, text: &str| {
        index.with_unsaved(&[(directory.join(path), text.to_owned())], &split).unwrap().is_some()
    };
    assert!(!unsaved("a/net.py", NET), "it is as on disk");
    assert!(!unsaved("a/ignored.py", NET) && !unsaved("a/.hidden.py", NET) && !unsaved("a/.new.py", NET));
    assert!(!unsaved("b/net.py", BREAD) && !unsaved("a", BREAD) && !unsaved("a/picture.jpeg", BREAD));
    assert!(!unsaved("a/net.py", "\0"), "it is binary");
    assert!(!unsaved("a/net.py", ""), "nothing would be left to search");
    assert!(unsaved("a/net.py", BREAD) && unsaved("a/new.py", NET));
    assert!(index.with_unsaved(&[], &split).unwrap().is_none());
}
