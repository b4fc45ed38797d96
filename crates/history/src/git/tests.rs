use super::*;
use git2::RepositoryInitOptions;
use quarry_test_support::git::GitRepository;
use std::fs;

struct Fixture {
    directory: tempfile::TempDir,
    repository: GitRepository,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repository = GitRepository::with_work_tree(directory.path());
        Self { directory, repository }
    }

    fn commit(&mut self, message: &str, files: &[(&str, Option<&str>)]) -> String {
        self.repository.commit(message, files)
    }

    fn read(&self, directory: &str, options: &HistoryOptions) -> (Vec<Commit>, Result<Reach, GitError>) {
        let mut commits = Vec::new();
        let reach = read_history(
            &self.directory.path().join(directory),
            options,
            &|_| true,
            &|path| path.ends_with(".py"),
            &mut |commit| {
                commits.push(commit);
                ControlFlow::Continue(())
            },
        );
        (commits, reach)
    }
}

#[test]
fn commits_come_with_what_they_changed() {
    let mut fixture = Fixture::new();
    fixture.commit("begin", &[("a.py", Some("a = 1\n")), ("lib/b.py", Some("b = 1\n"))]);
    fixture.commit("change b\n\nfor a reason", &[("lib/b.py", Some("b = 2\n")), ("x.txt", Some("x"))]);
    fixture.commit("remove a, add c", &[("a.py", None), ("lib/c.py", Some("c = 1\n"))]);
    let (commits, reach) = fixture.read("", &HistoryOptions::default());
    assert_eq!(reach.unwrap(), Reach { commits: 3, ..Reach::default() });
    let subjects: Vec<&str> =
        commits.iter().map(|commit| commit.header.message.lines().next().unwrap()).collect();
    assert_eq!(subjects, ["remove a, add c", "change b"]);
    let change = |path: &str, before: &str, after: &str| Change {
        path: path.into(),
        before: before.into(),
        after: after.into(),
    };
    assert_eq!(commits[0].changes, [change("a.py", "a = 1\n", ""), change("lib/c.py", "", "c = 1\n")]);
    assert_eq!(
        (commits[1].n_files, &commits[1].changes[..]),
        (2, &[change("lib/b.py", "b = 1\n", "b = 2\n")][..])
    );
    // Of a directory, only the files in it, with relative paths.
    let (commits, _) = fixture.read("lib", &HistoryOptions::default());
    let paths: Vec<&str> = commits.iter().map(|commit| commit.changes[0].path.as_str()).collect();
    assert_eq!(paths, ["c.py", "b.py"]);
}

#[test]
fn work_is_bounded() {
    let mut fixture = Fixture::new();
    fixture.commit("begin", &[("a.py", Some("a"))]);
    let second = fixture.commit("two", &[("b.py", Some("b")), ("c.py", Some("c"))]);
    fixture.commit("long", &[("a.py", Some("aaaaaaaaaaa"))]);
    let counts = |options: HistoryOptions| {
        let (commits, reach) = fixture.read("", &options);
        (reach.unwrap().commits, commits.iter().map(|commit| commit.changes.len()).collect::<Vec<_>>())
    };
    assert_eq!(counts(HistoryOptions { commits: 1, ..HistoryOptions::default() }), (1, vec![1]));
    assert_eq!(counts(HistoryOptions { max_files: 1, ..HistoryOptions::default() }), (3, vec![1, 0]));
    assert_eq!(counts(HistoryOptions { max_bytes: 10, ..HistoryOptions::default() }), (3, vec![0, 2]));
    let start = Some(second);
    assert_eq!(counts(HistoryOptions { start, ..HistoryOptions::default() }), (2, vec![2]));
    let start = Some("f".repeat(40));
    let (_, missing) = fixture.read("", &HistoryOptions { start, ..HistoryOptions::default() });
    assert!(matches!(missing, Err(GitError::NoCommit { .. })), "{missing:?}");
}

#[test]
fn missing_commits_are_reported() {
    let empty = Fixture::new();
    let (_, found) = empty.read("", &HistoryOptions::default());
    assert!(matches!(found, Err(GitError::Empty(_))), "{found:?}");
    let bare = tempfile::tempdir().unwrap();
    Repository::init_bare(bare.path()).unwrap();
    let read = |directory: &Path| {
        read_history(directory, &HistoryOptions::default(), &|_| true, &|_| true, &mut |_| {
            ControlFlow::Continue(())
        })
    };
    assert!(matches!(read(bare.path()), Err(GitError::Empty(_))));
    assert!(matches!(read(&bare.path().join("none")), Err(GitError::Unreadable { .. })));
    let mut broken = Fixture::new();
    broken.commit("begin", &[("a.py", Some("a"))]);
    let second = broken.commit("second", &[("a.py", Some("b"))]);
    broken.commit("third", &[("a.py", Some("c"))]);
    let object = broken.directory.path().join(".git/objects").join(&second[..2]).join(&second[2..]);
    fs::remove_file(&object).unwrap();
    // The third commit's parent is missing: neither its changes nor earlier commits can be read.
    let (commits, reach) = broken.read("", &HistoryOptions::default());
    assert_eq!(commits, []);
    assert!(reach.is_err() || reach.is_ok_and(|reach| reach.unreadable > 0));
}

#[test]
fn files_are_followed_through_renames() {
    let text = |last: &str| format!("one = 1\ntwo = 2\nthree = 3\n{last}\n");
    let mut fixture = Fixture::new();
    fixture.commit("begin", &[("old/a.py", Some(&text("a")))]);
    fixture.commit("change", &[("old/a.py", Some(&text("b")))]);
    fixture.commit("move", &[("old/a.py", None), ("new/a.py", Some(&text("b")))]);
    // Another file gets the name.
    fixture.commit("again", &[("old/a.py", Some("other = 1\n")), ("e.py", Some(""))]);
    fixture.commit("move and change", &[("new/a.py", None), ("b.py", Some(&text("c")))]);
    fixture.commit("remove", &[("e.py", None), ("f.py", Some(""))]);
    let options = HistoryOptions { follows_renames: true, ..HistoryOptions::default() };
    let mut found = Vec::new();
    let is_file = |path: &str| matches!(path, "b.py" | "old/a.py");
    // Renames of commits that are not wanted count, too.
    let is_wanted = |header: &Header| header.message != "move";
    let reach = read_history(
        fixture.directory.path(),
        &options,
        &is_wanted,
        &is_file,
        &mut |Commit { header, changes, .. }| {
            let of_change = |Change { path, before, after }: Change| {
                let last = |bytes: Vec<u8>| {
                    String::from_utf8(bytes).unwrap().lines().last().unwrap_or_default().to_owned()
                };
                format!("{path} {}>{}", last(before), last(after))
            };
            let changes: Vec<String> = changes.into_iter().map(of_change).collect();
            found.push(format!("{}: {}", header.message, changes.join(", ")));
            ControlFlow::Continue(())
        },
    );
    assert_eq!(reach.unwrap().commits, 6);
    assert_eq!(
        found,
        ["remove: e.py >", "move and change: b.py b>c", "again: old/a.py >other = 1", "change: b.py a>b"]
    );
}

#[test]
fn a_bare_repository_has_a_history_and_messages_are_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = RepositoryInitOptions::new();
    options.external_template(false).bare(true);
    let repository = Repository::init_opts(directory.path(), &options).unwrap();
    let odb = repository.odb().unwrap();
    let mut tree = repository.treebuilder(None).unwrap();
    let mut commit = |content: &str, head: &str, message: &[u8]| -> String {
        tree.insert("a.py", repository.blob(content.as_bytes()).unwrap(), 0o100_644).unwrap();
        let who = "A B <a@b> 2000 +0000";
        let text = format!("tree {}\n{head}author {who}\ncommitter {who}\n", tree.write().unwrap());
        let id = odb.write(ObjectType::Commit, &[text.as_bytes(), message].concat()).unwrap();
        id.to_string()
    };
    let root = commit("a", "", b"\nbegin");
    let parent = |id: &str| format!("parent {id}\n");
    let latin1 = commit("b", &parent(&root), b"encoding ISO-8859-1\n\nGr\xf6\xdfe");
    let broken = commit("c", &parent(&latin1), b"\nGr\xf6\xdfe\0 and more");
    let long = commit("d", &parent(&broken), &[b"\n\xc3\xa4", &b"\xc3\xa4".repeat(1 << 20)[..]].concat());
    let found = start_of_history(directory.path(), Some(&long)).unwrap();
    assert_eq!(found, Start { commit: long.clone(), is_shallow: false });
    let mut messages = Vec::new();
    let options = HistoryOptions { start: Some(long), max_total_bytes: 5, ..HistoryOptions::default() };
    let reach = read_history(directory.path(), &options, &|_| true, &|_| true, &mut |commit| {
        messages.push(commit.header.message);
        ControlFlow::Continue(())
    });
    assert_eq!(reach.unwrap(), Reach { commits: 3, is_cut: true, ..Reach::default() });
    assert_eq!((messages[0].len(), messages[0].contains('\u{fffd}')), (MAX_MESSAGE_BYTES, false));
    assert_eq!(messages[1..], ["Gr\u{fffd}\u{fffd}e", "Größe"]);
}

#[test]
fn the_checked_out_commit_is_reported() {
    let mut fixture = Fixture::new();
    assert_eq!(head(fixture.directory.path()), None);
    let commit = fixture.commit("begin", &[("lib/a.py", Some("a"))]);
    assert_eq!(head(fixture.directory.path()), Some(commit.clone()));
    assert_eq!(head(&fixture.directory.path().join("lib")), Some(commit));
    assert_eq!(head(tempfile::tempdir().unwrap().path()), None);
}

#[test]
fn a_shallow_clone_is_reported() {
    let mut fixture = Fixture::new();
    fixture.commit("begin", &[("a.py", Some("a"))]);
    let second = fixture.commit("second", &[("a.py", Some("b"))]);
    fixture.commit("third", &[("a.py", Some("c"))]);
    fs::write(fixture.directory.path().join(".git/shallow"), format!("{second}\n")).unwrap();
    let (commits, reach) = fixture.read("", &HistoryOptions::default());
    let reach = reach.unwrap();
    assert!(reach.is_shallow);
    assert_eq!((reach.commits, commits.len()), (2, 1));
}

#[test]
fn before_the_first_commit_every_staged_file_is_new() {
    let fixture = Fixture::new();
    let tree = fixture.directory.path();
    fs::write(tree.join("a.py"), "a = 1\n").unwrap();
    let repository = Repository::open(tree).unwrap();
    let mut index = repository.index().unwrap();
    index.add_path(Path::new("a.py")).unwrap();
    index.write().unwrap();
    let found = changes_between(tree, &Comparison::Staged, &|_| true).unwrap();
    let change = Change { path: "a.py".into(), before: Vec::new(), after: "a = 1\n".into() };
    assert_eq!(found, [change]);
}

#[test]
fn what_is_not_damage_is_told_apart() {
    let mut fixture = Fixture::new();
    let first = fixture.commit("begin", &[("a.py", Some("a"))]);
    let tree = fixture.directory.path().to_owned();
    let git = tree.join(".git");
    let who = "A B <a@b> 2000 +0000";
    let files = fixture.repository.object("tree", b"");
    let text = format!("tree {files}\nauthor {who}\ncommitter {who}\n\nother");
    let other = fixture.repository.object("commit", text.as_bytes());
    let changes = |comparison: Comparison| changes_between(&tree, &comparison, &|_| true);
    let error = changes(Comparison::SinceBase(first.clone(), other.clone())).unwrap_err();
    assert!(matches!(error, GitError::NoCommonCommit { .. }), "{error}");
    assert!(error.to_string().contains("have no common commit in this clone"), "{error}");
    assert_eq!(changes(Comparison::Revisions(other, first)).unwrap().len(), 1);
    // An index with entries of whole directories, which has an extension that readers have to know.
    let mut index = b"DIRC\0\0\0\x02\0\0\0\0sdir\0\0\0\0".to_vec();
    let id = Oid::hash_object(ObjectType::Blob, b"").unwrap();
    index.extend(id.as_bytes());
    fs::write(git.join("index"), index).unwrap();
    let error = changes(Comparison::Staged).unwrap_err();
    assert!(matches!(error, GitError::Unsupported { .. }), "{error}");
    for (name, value) in [("objectformat", "sha256"), ("refstorage", "reftable")] {
        let text =
            format!("[core]\nrepositoryformatversion = 1\nbare = false\n[extensions]\n{name} = {value}\n");
        fs::write(git.join("config"), text).unwrap();
        let (_, found) = fixture.read("", &HistoryOptions::default());
        let error = found.unwrap_err();
        assert!(matches!(error, GitError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("git diff --staged | quarry related -"), "{error}");
    }
}
