use std::fs;

use super::*;

const PLAN: &str = "pairs = ['p.json']\n[model]\nprovider = 'openai-compatible'\nbase_url = 'http://localhost:1'\n\
                    model = 'm'\n";

fn open(text: &str) -> Result<Plan, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plan.toml");
    fs::write(&path, text).unwrap();
    Plan::open(&path, None).map_err(|error| error.to_string())
}

/// The entries allowed in a table of a plan, as listed in the message about an unknown entry.
fn known_entries(table: &str) -> Vec<String> {
    let message = match table {
        "" => open(&format!("surprise = 1\n{PLAN}")),
        "model" => open(&format!("{PLAN}surprise = 1")),
        table => open(&format!("{PLAN}[{table}]\nsurprise = 1")),
    }
    .unwrap_err();
    let list = message.split("expected ").nth(1).unwrap().lines().next().unwrap();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_entry_is_documented_and_nothing_else_is() {
    let text = include_str!("../../../../docs/reference/judging-plans.md");
    let plan = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let documented: toml::Table = plan.parse().unwrap();
    for table in [
        "",
        "model",
        "budget",
        "tests",
        "generation",
        "sandbox",
        "packages",
        "packages.pip",
        "packages.npm",
        "nats",
    ] {
        let mut found = &documented;
        for part in table.split('.').filter(|part| !part.is_empty()) {
            found = found[part].as_table().unwrap();
        }
        let known = known_entries(table);
        assert!(!known.is_empty(), "{table}: {known:?}");
        // Options of embeddings do not belong to judging, and `models` is documented in prose.
        let skipped = ["models", "embedding_batch", "dimensions"];
        let known: Vec<&str> =
            known.iter().map(String::as_str).filter(|name| !skipped.contains(name)).collect();
        let mut names: Vec<&str> = found.keys().map(String::as_str).collect();
        let mut missing = known.clone();
        missing.retain(|name| !names.contains(name));
        names.retain(|name| !known.contains(name));
        // npm has the same entries as pip.
        if table != "packages.npm" {
            assert!(missing.is_empty(), "docs/reference/judging-plans.md lacks {missing:?} of [{table}]");
        }
        assert!(names.is_empty(), "there are no {names:?} in [{table}]");
    }
}

#[test]
fn paths_are_relative_to_the_plan() {
    let plan = open(PLAN).unwrap();
    assert!(plan.pairs[0].ends_with("p.json") && plan.pairs[0].is_absolute());
    assert!(plan.ledger.ends_with("plan.ledger"));
    assert_eq!((plan.judge.name.as_str(), plan.workers), ("agents", 8));
}

#[test]
fn only_settings_that_affect_labels_change_the_version() {
    let version = |text: &str| open(text).unwrap().version;
    let plan = |first: &str, last: &str| format!("{first}\n{PLAN}\n{last}");
    assert_eq!(version(PLAN), version(&plan("workers = 3", "[budget]\ntokens = 5\n[packages]\ncache = 'c'")));
    for (first, last) in [
        ("judge = 'cosqa'", ""),
        ("attempts = 3", ""),
        ("", "[sandbox]\nwall_seconds = 3.0"),
        ("", "[packages]\ninstall = false"),
        ("", "[packages.pip]\ndeny = ['x']"),
    ] {
        assert_ne!(version(PLAN), version(&plan(first, last)), "{first}{last}");
    }
    assert_ne!(version(PLAN), version(&PLAN.replace("'m'", "'n'")));
}

#[test]
fn models_and_rounds_are_members_with_versions_of_their_own() {
    let round = |rounds: u32| open(&format!("rounds = {rounds}\n{PLAN}")).unwrap();
    let (one, three) = (open(PLAN).unwrap(), round(3));
    assert_eq!(round(1).version, one.version);
    let names: Vec<&str> = three.members.iter().filter_map(|member| member.member.as_deref()).collect();
    assert_eq!(names, ["round 1", "round 2", "round 3"]);
    // A single round's verdicts count as one of three.
    assert_eq!(three.members[0].version, one.version);
    let mut versions: Vec<&str> = three.members.iter().map(|member| member.version.as_str()).collect();
    let two = round(2);
    versions.extend([three.version.as_str(), &two.version]);
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 5);
    let other = PLAN.replace("[model]", "[models.b]").replace("'m'", "'n'");
    let both = other.clone() + &PLAN.replace("pairs = ['p.json']\n[model]", "[models.a]");
    let both = open(&format!("rounds = 2\n{both}")).unwrap();
    let names: Vec<&str> = both.members.iter().filter_map(|member| member.member.as_deref()).collect();
    assert_eq!(names, ["a, round 1", "a, round 2", "b, round 1", "b, round 2"]);
    assert_eq!(both.members[0].version, one.version);
    assert!(open(&other).unwrap().members.is_empty());
}

#[test]
fn options_of_tests_have_versions_and_know_the_plain_one() {
    let plain = open(PLAN).unwrap();
    assert_eq!(open(&format!("{PLAN}\n[tests]\nprograms = 1")).unwrap().version, plain.version);
    assert_eq!(plain.plain_version, None);
    let mut versions = vec![plain.version.clone()];
    for option in
        ["from = 'query'", "programs = 2", "mutation = true", "differential = true", "confidence = true"]
    {
        let plan = open(&format!("{PLAN}\n[tests]\n{option}")).unwrap();
        assert_eq!(plan.plain_version.as_ref(), Some(&plain.version), "{option}");
        versions.push(plan.version);
    }
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 6);
    let rounds = open(&format!("rounds = 2\n{PLAN}\n[tests]\nprograms = 2")).unwrap();
    assert_eq!(rounds.plain_version, Some(open(&format!("rounds = 2\n{PLAN}")).unwrap().version));
}

#[test]
fn pairs_are_missed_when_they_are_read() {
    // A build of a data set puts its own in their place.
    for text in [PLAN.replace("pairs = ['p.json']", ""), PLAN.replace("['p.json']", "[]")] {
        let error = crate::pairs::check(&open(&text).unwrap()).err().unwrap().to_string();
        assert!(error.contains("`pairs` is missing or empty"), "{error}");
    }
}

#[test]
fn plans_that_cannot_work_say_why() {
    for (from, to, words) in [
        ("pairs", "pears", "pears"),
        ("['p.json']", "['p.json']\njudge = 'agent'", "expected one of agents"),
        ("['p.json']", "['p.json']\nattempts = 0", "`attempts`"),
        ("['p.json']", "['p.json']\nworkers = 0", "`workers`"),
        ("['p.json']", "['p.json']\nreplay = 'r'\ncache = 'c'", "`replay`"),
        ("['p.json']", "['p.json']\nprompts = 'nowhere'", "nowhere"),
        ("['p.json']", "['p.json']\nrounds = 0", "`rounds`"),
        ("['p.json']", "['p.json']\nlanguage = 'pyton'", "expected one of"),
        ("['p.json']", "['p.json']\nnats = { url = 'nats://me:secret@localhost' }", "--nats"),
        ("['p.json']", "['p.json']\ntemperature = 3.0", "`temperature`"),
        (
            "[model]",
            "[models.a]\nmodel = 'm'\nprovider = 'anthropic'\nbase_url = 'https://a.b'\n[model]",
            "one of them",
        ),
        ("[model]", "[other]", "other"),
        ("model = 'm'", "model = 'm'\n[generation]\nrounds = 0", "`generation.rounds`"),
        ("model = 'm'", "model = 'm'\n[tests]\nprograms = 0", "`tests.programs`"),
        ("model = 'm'", "model = 'm'\n[tests]\nmutations = true", "mutations"),
        (
            "['p.json']",
            "['p.json']\njudge = 'cosqa'\ntests = { mutation = true }",
            "judges that run programs",
        ),
        ("model = 'm'", "modle = 'm'", "modle"),
        ("model = 'm'", "model = 'm'\ninput_price = -1.0", "input_price"),
        ("model = 'm'", "model = 'm'\n[budget]\ndollars = -1.0", "budget.dollars"),
        ("model = 'm'", "model = 'm'\n[budget]\nmoney = 1.0", "money"),
        ("model = 'm'", "model = 'm'\n[sandbox]\nwall_seconds = 0.0", "wall_seconds"),
        ("model = 'm'", "model = 'm'\n[sandbox]\nmemory_mib = 1", "memory_mib"),
        ("model = 'm'", "model = 'm'\n[packages]\nmib = 0", "packages.mib"),
        ("model = 'm'", "model = 'm'\n[packages]\nwall_seconds = 0", "packages.wall_seconds"),
        ("model = 'm'", "model = 'm'\n[packages.npm]\nindex = 'directory'", "address of a registry"),
        (
            "model = 'm'",
            "model = 'm'\n[packages.pip]\ndeny = ['torch', 'tor ch']",
            "`packages.pip.deny` has \"tor ch\"",
        ),
        ("model = 'm'", "model = 'm'\n[packages.npm]\nallow = ['a@1']", "`packages.npm.allow` has \"a@1\""),
        ("model = 'm'", "model = 'm'\n[packages.pip]\nindex = 'https://me:secret@host/simple'", "password"),
    ] {
        let error = open(&PLAN.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn errors_have_their_line() {
    for (from, to, line) in [
        ("['p.json']", "['p.json']\nattempts = 0", 2),
        ("['p.json']", "['p.json']\njudge = 'agent'", 2),
        ("model = 'm'", "model = 'm'\n[budget]\ntokens = 1\ndollars = -1.0", 8),
        ("model = 'm'", "model = 'm'\n[generation]\nrounds = 0", 7),
        ("model = 'm'", "model = 'm'\n\n[packages.pip]\ndeny = ['tor ch']", 7),
        ("model = 'm'", "model = 'm'\ninput_price = -1.0", 2),
        ("[model]", "[models.a]\nmodel = 'm'\nprovider = 'anthropic'\nbase_url = 'https://a.b'\n[model]", 2),
    ] {
        let error = open(&PLAN.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(&format!("plan.toml:{line}: ")), "{error}");
    }
}

#[test]
fn workers_elsewhere_get_more_pairs_and_no_directory_of_this_machine() {
    let workers = |text: &str| open(text).unwrap().for_workers().map(|plan| (plan.workers, plan.programs));
    assert_eq!(workers(PLAN).unwrap(), (PAIRS_FOR_WORKERS, PAIRS_FOR_WORKERS));
    assert_eq!(workers(&format!("workers = 3\n{PLAN}")).unwrap(), (3, 3));
    let error = workers(&format!("{PLAN}\n[packages.pip]\nindex = 'wheels'")).unwrap_err().to_string();
    assert!(error.contains("`packages.pip.index`"), "{error}");
}

/// A plan sends and writes only what it names: symbolic links beside it, which may be untrusted, are rejected.
#[test]
#[cfg(unix)]
fn members_are_not_links_that_lead_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("plan/prompts")).unwrap();
    fs::write(at("secret"), "max_output_tokens = 5\nuser = 'mine'\nanswer = { form = 'program' }\n").unwrap();
    let open = |text: &str| {
        fs::write(at("plan/plan.toml"), text).unwrap();
        Plan::open(&at("plan/plan.toml"), None).map_err(|error| error.to_string())
    };
    let refused = |text: &str| {
        let error = open(text).unwrap_err();
        assert!(error.contains("outside the directory") || error.contains("is a link"), "{error}");
    };
    for name in ["link", "plan.ledger"] {
        std::os::unix::fs::symlink("../secret", at("plan").join(name)).unwrap();
    }
    refused(PLAN);
    fs::remove_file(at("plan/plan.ledger")).unwrap();
    for entry in ["ledger", "record", "replay", "cache", "prompts"] {
        refused(&format!("{entry} = 'link'\n{PLAN}"));
    }
    refused(&PLAN.replace("p.json", "link"));
    fs::write(at("plan/prompts/code-generator.toml"), fs::read(at("secret")).unwrap()).unwrap();
    assert!(open(&format!("prompts = 'prompts'\n{PLAN}")).is_ok());
    std::os::unix::fs::symlink("../../secret", at("plan/prompts/arbiter.toml")).unwrap();
    refused(&format!("prompts = 'prompts'\n{PLAN}"));
    // Outputs elsewhere must be named on the command line.
    for entry in ["ledger", "record", "cache"] {
        for path in ["../shared", "/tmp/shared", "a/../../shared", ".profile"] {
            let error = open(&format!("{entry} = '{path}'\n{PLAN}")).unwrap_err();
            assert!(error.contains("expected an output"), "{error}");
        }
    }
    let error = open(&format!("{PLAN}\n[packages]\ncache = '../packages'")).unwrap_err();
    assert!(error.contains("expected an output"), "{error}");
    let shared = at("plan/../shared.ledger");
    fs::write(at("plan/plan.toml"), PLAN).unwrap();
    let plan = Plan::open(&at("plan/plan.toml"), Some(&shared)).unwrap();
    assert_eq!(plan.ledger, shared);
    assert_eq!(plan.asked(), ["http://localhost:1 without a key"]);
}

#[test]
fn versions_of_labels_do_not_change_by_accident() {
    // If this fails, every existing label counts as that of another judge, and is paid for again.
    assert_eq!(
        open::limits_text(&Limits::default()),
        "Limits { wall_time: 10s, cpu_time: 10s, memory_bytes: 536870912, processes: 64, file_bytes: 16777216, \
         folder_bytes: 67108864, open_files: 256, output_bytes: 65536 }"
    );
}
