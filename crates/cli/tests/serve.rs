//! `quarry serve` and `quarry judge serve` as users run them: real processes, changes of files, and kills.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{self, Arguments, Fixture, stdout};
use quarry_judge::Ledger;
use quarry_judge::ledger::FormReply;

/// Patience with a server, which a broken one would exhaust.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    child: fixture::Running,
    /// Its first lines.
    lines: Vec<String>,
}

impl Running {
    fn start(fixture: &Fixture, arguments: impl Arguments, n_lines: usize) -> Self {
        let mut command = fixture.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = (0..n_lines).map(|_| lines.next().unwrap().unwrap()).collect();
        Self { child: fixture::Running(child), lines }
    }
}

/// Status, head and body of an answer; none if there is no connection or no whole answer.
fn ask(address: &str, method: &str, path: &str, cookie: &str, body: &str) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let form = "Content-Type: application/x-www-form-urlencoded";
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n{form}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, head.to_owned(), body.to_owned()))
}

/// Asks until `found` finds something in the answer.
fn wait_for<T>(address: &str, path: &str, found: impl Fn(u16, &str) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let reply = ask(address, "GET", path, "", "");
        if let Some(found) = reply.as_ref().and_then(|(status, _, body)| found(*status, body)) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{path}: {reply:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_served_tree_answers_as_the_command_line_and_follows_its_files() {
    let fixture = Fixture::new();
    let server = Running::start(&fixture, "serve --listen 127.0.0.1:0 --quality fast .", 1);
    let address = server.lines[0].strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let is_ready = |status: u16, _: &str| (status == 200).then_some(());
    wait_for(&address, "/readyz", is_ready);
    let (_, _, body) = ask(&address, "GET", "/api/v1/search?q=open+a+socket", "", "").unwrap();
    let without_times = |text: &str| {
        let mut answer: serde_json::Value = serde_json::from_str(text).unwrap();
        answer["took_ms"] = 0.into();
        answer["open_ms"] = 0.into();
        answer
    };
    let printed = fixture.stdout("search 'open a socket' --json");
    assert_eq!(without_times(&body), without_times(&printed));
    fixture.write("tree/lock.py", "def wait_until_unlocked(lock):\n    return lock.wait()\n");
    wait_for(&address, "/api/v1/search?q=wait+until+unlocked", |_, body| {
        body.contains("lock.py").then_some(())
    });
    fs::remove_file(fixture.path("tree/lock.py")).unwrap();
    let is_gone = |_, body: &str| (!body.contains("lock.py")).then_some(());
    wait_for(&address, "/api/v1/search?q=wait+until+unlocked", is_gone);
}

#[test]
fn trees_keep_their_names_beside_those_without_source() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("tree/hollow")).unwrap();
    fixture.write("tree/shop/shop.py", "def sell_tea(cup):\n    return cup\n");
    fixture.write("tree/lib/lib.py", "def sell_coffee(cup):\n    return cup\n");
    let server = Running::start(&fixture, "serve --bind 127.0.0.1:0 hollow shop lib", 1);
    let address = server.lines[0].strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    wait_for(&address, "/readyz", |status: u16, _: &str| (status == 200).then_some(()));
    let get = |path: &str| ask(&address, "GET", path, "", "").unwrap();
    for (tree, name, other) in [("shop", "sell_tea", "sell_coffee"), ("lib", "sell_coffee", "sell_tea")] {
        let (_, _, found) = get(&format!("/api/v1/search?q=sell&tree={tree}"));
        assert!(found.contains(name) && !found.contains(other), "{tree}: {found}");
        assert_eq!(get(&format!("/api/v1/units/{tree}/{tree}.py")).0, 200);
    }
    assert!(get("/api/v1/search?q=sell&tree=hollow").2.contains("\"results\":[]"));
    // Files written there later are found under their own names.
    fixture.write("tree/hollow/new.py", "def sell_cake(plate):\n    return plate\n");
    wait_for(&address, "/api/v1/units/hollow/new.py", |status, _| (status == 200).then_some(()));
}

#[test]
fn trees_are_found_though_few_may_be_open_and_another_process_replaces_an_index() {
    let fixture = Fixture::new();
    let trees = ["shop", "lib", "bank"];
    for tree in trees {
        fixture
            .write(&format!("tree/{tree}/{tree}.py"), &format!("def sell_to_{tree}(cup):\n    return cup\n"));
    }
    let options = ["serve", "--listen", "127.0.0.1:0", "--max-open", "1"];
    let server = Running::start(&fixture, &[&options[..], &trees[..]].concat(), 1);
    let address = server.lines[0].strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    wait_for(&address, "/readyz", |status: u16, _: &str| (status == 200).then_some(()));
    let check = || {
        for tree in trees {
            let path = format!("/api/v1/search?q=sell_to_{tree}");
            let (status, _, body) = ask(&address, "GET", &path, "", "").unwrap();
            assert!(status == 200, "{status} {body}");
            assert!(body.contains(&format!("\"name\":\"sell_to_{tree}\"")), "{status} {body}");
        }
    };
    check();
    fixture.stdout("index --rebuild shop");
    check();
    let (_, _, metrics) = ask(&address, "GET", "/metrics", "", "").unwrap();
    assert!(metrics.contains("\nquarry_segments_open 1\n"), "{metrics}");
    assert!(!metrics.contains("\nquarry_index_refreshes_total 1\n"), "{metrics}");
}

#[test]
fn reports_have_the_colors_of_the_other_pages() {
    let read = |path: &str| fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let [pages, reports] = ["http/assets/style.css", "eval/src/report/page.css"].map(read);
    for name in ["text", "quiet", "back", "panel", "line", "link", "focus"] {
        let values = |style: &str| -> Vec<String> {
            let name = format!("--{name}: ");
            let parts = style.split(&name).skip(1);
            parts.map(|rest| rest.split(';').next().unwrap().to_owned()).collect()
        };
        assert_eq!(values(&pages), values(&reports), "{name}");
        assert_eq!(values(&pages).len(), 2, "{name}: in light and in dark colors");
    }
}

#[test]
fn results_are_shown_in_a_browser() {
    let fixture = Fixture::new();
    fixture.write("tree/cards/card.html", "<!DOCTYPE html><title>A card</title><script>alert(1)</script>");
    let server = Running::start(&fixture, "serve --listen 127.0.0.1:0 --report cards", 1);
    let address = server.lines[0].strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let (status, _, list) = ask(&address, "GET", "/", "", "").unwrap();
    assert!(status == 200 && list.contains("href=\"/0\""), "{list}");
    let (status, head, card) = ask(&address, "GET", "/0", "", "").unwrap();
    assert!(status == 200 && card.contains("A card"), "{card}");
    // Its script is not one of ours, and does not run.
    assert!(head.contains("content-security-policy: default-src 'none'; style-src 'sha256-"), "{head}");
    for path in ["/1", "/0/compare", "/card.html", "/0/../../etc/passwd", "/%2e%2e/x"] {
        assert_eq!(ask(&address, "GET", path, "", "").unwrap().0, 404, "{path}");
    }
    assert_eq!(ask(&address, "POST", "/", "", "").unwrap().0, 405);
    let everywhere = ["serve", "--listen", "0.0.0.0:0", "--report", "cards"];
    fixture.check_error(&everywhere, "other machines can reach this address");
    fixture.check_error("serve --report http", "found neither");
}

#[test]
fn the_progress_of_judging_is_shown_where_nobody_labels() {
    let fixture = Fixture::new();
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/judging/plan.toml");
    let serve = |listen: &str| format!("judge serve '{plan}' --ledger ../progress.ledger --listen {listen}");
    let server = Running::start(&fixture, &serve("127.0.0.1:0"), 1);
    let address = server.lines[0].strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let (status, _, page) = ask(&address, "GET", "/", "", "").unwrap();
    assert!(status == 200 && page.contains("quarry judge run"), "{page}");
    fixture.check_error(&serve("0.0.0.0:0"), "other machines can reach this address");
}

#[test]
fn servers_for_everybody_need_a_token() {
    let fixture = Fixture::new();
    fixture.check_error("serve --listen 0.0.0.0:0 .", "give a token with --token-file");
    fixture.write("tree/token", "short");
    let short = ["serve", "--listen", "127.0.0.1:0", "--token-file", "token", "."];
    fixture.check_error(&short, "expected at least 16");
    fixture.check_error("serve none", "none: no such file or directory");
    fixture.check_error("serve --link 'x=javascript:{path}' .", "expected NAME=ADDRESS");
}

/// The value of a hidden field of a form.
fn field<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    body.split(&format!("name=\"{name}\" value=\"")).nth(1)?.split('"').next()
}

/// Annotators who answer at once, and the server that is killed between.
const PEOPLE: [&str; 5] = ["ann", "bob", "cem", "dua", "eva"];
const PAIRS: usize = 200;
/// Number of annotators of each pair.
const OVERLAP: usize = 3;
const KILLS: usize = 10;

#[test]
fn nothing_is_lost_or_duplicated_when_the_server_is_killed() {
    let fixture = Fixture::new();
    let pair = |n: usize| {
        format!(
            "{{\"query\": \"add {n}\", \"code\": \"def f(x):\\n    return x + {n}\", \"language\": \"python\"}}\n"
        )
    };
    fixture.write("plan/pairs.jsonl", &(0..PAIRS).map(pair).collect::<String>());
    let plan = "pairs = ['pairs.jsonl']\njudge = 'agents'\n[model]\nprovider = 'openai-compatible'\n\
                base_url = 'http://localhost:9/v1'\nmodel = 'none'\n";
    fixture.write("plan/plan.toml", plan);
    let ledger = fixture.path("people.ledger");
    fixture.succeed("judge people export ../plan/plan.toml ../form.csv --ledger ../people.ledger");
    let start = |listen: &str| {
        let people = PEOPLE.map(|person| format!("--annotator {person}")).join(" ");
        let options = format!("--ledger ../people.ledger --overlap {OVERLAP} --listen {listen} {people}");
        let serve = format!("judge serve ../plan/plan.toml {options}");
        Running::start(&fixture, &serve, PEOPLE.len() + 1)
    };
    let mut server = start("127.0.0.1:0");
    let links: HashMap<String, (String, String)> = server
        .lines
        .iter()
        .map(|line| {
            let (person, link) = line.split_once("\thttp://").unwrap();
            let (address, path) = link.split_at(link.find('/').unwrap());
            (person.to_owned(), (address.to_owned(), path.to_owned()))
        })
        .collect();
    let address = links["ann"].0.clone();
    assert_eq!(ask(&address, "GET", "/", "", "").unwrap().0, 401);
    let join = |person: &str| {
        let (address, path) = &links[person];
        // Looking at a link, as programs for messages do, does not use it up.
        assert_eq!(ask(address, "GET", path, "", "").unwrap().0, 200);
        let (status, head, _) = ask(address, "POST", path, "", "").unwrap();
        assert_eq!(status, 303);
        assert_eq!(ask(address, "POST", path, "", "").unwrap().0, 410, "a link works once");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        cookie.split(';').next().unwrap().to_owned()
    };
    let cookies: Vec<String> = PEOPLE.iter().map(|person| join(person)).collect();
    let organizer = join("(organizer)");
    assert_eq!(ask(&address, "GET", "/progress", &cookies[0], "").unwrap().0, 403);
    // A form of another page is refused, and what is shown holds no label of the file.
    let page = ask(&address, "GET", "/", &cookies[0], "").unwrap().2;
    assert!(page.contains("data-key=\"1\"") && page.contains("aria-label=\"Guideline\""), "{page}");
    let forged = format!("item={}&label=yes&code=00", field(&page, "item").unwrap());
    assert_eq!(ask(&address, "POST", "/", &cookies[0], &forged).unwrap().0, 403);

    let said: Mutex<HashMap<(i64, usize), String>> = Mutex::default();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let annotators: Vec<_> = cookies
            .iter()
            .enumerate()
            .map(|(number, cookie)| {
                let (address, said) = (&address, &said);
                scope.spawn(move || {
                    let start = Instant::now();
                    loop {
                        assert!(start.elapsed() < PATIENCE * 5);
                        let Some((200, _, page)) = ask(address, "GET", "/", cookie, "") else {
                            thread::sleep(Duration::from_millis(20));
                            continue;
                        };
                        let Some(item) = field(&page, "item") else { break };
                        let item: i64 = item.parse().unwrap();
                        let label = if (item as usize + number).is_multiple_of(2) { "yes" } else { "no" };
                        let body =
                            format!("item={item}&label={label}&code={}", field(&page, "code").unwrap());
                        // Sent again until it is acknowledged, as somebody does whose page does not load.
                        loop {
                            match ask(address, "POST", "/", cookie, &body) {
                                Some((303, _, _)) => break,
                                Some(other) => panic!("{other:?}"),
                                None => thread::sleep(Duration::from_millis(20)),
                            }
                        }
                        said.lock().unwrap().insert((item, number), label.to_owned());
                    }
                })
            })
            .collect();
        let (is_done, said, address) = (&is_done, &said, &address);
        let server = &mut server;
        scope.spawn(move || {
            for kill in 1..=KILLS {
                while said.lock().unwrap().len() < kill * PAIRS * OVERLAP / (KILLS + 1)
                    && !is_done.load(Ordering::SeqCst)
                {
                    thread::sleep(Duration::from_millis(2));
                }
                server.child.end();
                *server = start(address);
            }
        });
        annotators.into_iter().for_each(|annotator| annotator.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
    });
    let kept = Ledger::open(&ledger).unwrap();
    let form = kept.forms().unwrap().remove(0);
    let replies = kept.replies_of(&form).unwrap();
    let said = said.into_inner().unwrap();
    let mut found = HashMap::new();
    for FormReply { item, person, answer, .. } in &replies {
        let number = PEOPLE.iter().position(|known| known == person).unwrap();
        assert!(
            found.insert((*item, number), answer.label.clone()).is_none(),
            "{person} {item} occurs twice"
        );
    }
    assert_eq!(found, said, "what was acknowledged is what the ledger has");
    let of_item = |item: usize| found.keys().filter(|(of, _)| *of == item as i64).count();
    assert!((1..=PAIRS).all(|item| of_item(item) >= OVERLAP), "{found:?}");
    let progress = ask(&address, "GET", "/progress", &organizer, "").unwrap().2;
    assert!(progress.contains(&format!("{PAIRS} of {PAIRS} items are finished")), "{progress}");
}

/// Starts a server for Ann with this form of one Python pair, and lets her and the organizer join: the address and the two
/// cookies.
fn serve_one(fixture: &Fixture, options: &[&str]) -> (Running, String, [String; 2]) {
    let pair = "{\"query\": \"add\", \"code\": \"def f(x):\\n    return x + 1\", \"language\": \"python\"}\n";
    fixture.write("tree/pairs.jsonl", pair);
    let plan = "pairs = ['pairs.jsonl']\njudge = 'agents'\n[model]\nprovider = 'openai-compatible'\n\
                base_url = 'http://localhost:9/v1'\nmodel = 'none'\n[packages]\ninstall = false\n";
    fixture.write("tree/plan.toml", plan);
    if !fixture.path("tree/form.csv").exists() {
        let export =
            fixture.run(&[&["judge", "people", "export", "plan.toml", "form.csv"], options].concat());
        assert!(export.status.success(), "{export:?}");
    }
    let server = Running::start(fixture, SERVE_ONE, 2);
    let mut address = String::new();
    let cookies = [0, 1].map(|line| {
        let (at, path) = server.lines[line].split_once("\thttp://").unwrap().1.split_once('/').unwrap();
        address = at.to_owned();
        let head = ask(at, "POST", &format!("/{path}"), "", "").unwrap().1;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        cookie.split(';').next().unwrap().to_owned()
    });
    (server, address, cookies)
}

const SERVE_ONE: &[&str] =
    &["judge", "serve", "plan.toml", "--annotator", "ann", "--listen", "127.0.0.1:0", "--unsafe-no-sandbox"];

#[test]
#[cfg(unix)]
fn keys_in_a_plan_grant_no_access() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new();
    let known = "0123456789abcdef0123456789abcdef";
    fixture.write("tree/plan.sessions", known);
    drop(serve_one(&fixture, &[]));
    let keys: Vec<_> = fs::read_dir(fixture.path("state/quarry/labels")).unwrap().collect();
    let [Ok(key)] = &keys[..] else { panic!("{keys:?}") };
    fixture::assert_private(&fixture.path("state/quarry"));
    let key = key.path();
    let own = fs::read(&key).unwrap();
    assert!(own.len() == 32 && own != known.as_bytes());
    // Nor one that somebody else may have written.
    for wrong in [&b""[..], b"x", &[0; 31], &[0; 33]] {
        fs::write(&key, wrong).unwrap();
        fixture.check_error(SERVE_ONE, "remove it, and have people join again");
    }
    fs::write(&key, &own).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o666)).unwrap();
    fixture.check_error(SERVE_ONE, "found the mode 0666");
    // There is no token to give.
    fixture.check_error(&[SERVE_ONE, &["--token-file", "pairs.jsonl"]].concat(), "--token-file");
}

#[test]
fn an_answer_is_taken_at_the_stage_that_was_shown() {
    let fixture = Fixture::new();
    let (_server, address, [ann, _]) = serve_one(&fixture, &["--tests"]);
    let shown = || {
        let page = ask(&address, "GET", "/", &ann, "").unwrap().2;
        ["item", "stage", "code"].map(|name| field(&page, name).unwrap().to_owned())
    };
    let send = |path: &str, stage: &str, code: &str, more: &str| {
        let body = format!("item=1&stage={stage}&code={code}&{more}");
        let (status, _, body) = ask(&address, "POST", path, &ann, &body).unwrap();
        (status, body)
    };
    let [_, stage, first] = shown();
    assert_eq!(stage, "untested");
    assert_eq!(send("/", "nonsense", &first, "label=yes").0, 400);
    assert_eq!(send("/", "final", &first, "label=yes&comment=none").0, 403);
    assert_eq!(send("/test", "final", &first, "program=assert+f(1)").0, 403);
    assert_eq!(
        send("/test", "untested", &first, "program=assert+f(1)").0,
        409,
        "not before the first answer"
    );
    assert_eq!(send("/", "untested", &first, "label=yes").0, 303);
    let [_, stage, second] = shown();
    assert_eq!(stage, "final");
    assert_eq!(send("/", "untested", &second, "label=no").0, 403);
    assert_eq!(send("/test", "final", &second, "program=assert+f(1)+==+2").0, 303);
    // The form of the first answer was kept, in another tab.
    assert_eq!(send("/", "untested", &first, "label=no&change=true").0, 409);
    assert_eq!(send("/", "final", &second, "label=no&comment=none").0, 303);
    assert_eq!(send("/", "untested", &first, "label=no&change=true").0, 409);
}

#[test]
fn an_answer_to_a_ledger_that_is_gone_is_refused() {
    let fixture = Fixture::new();
    let (_server, address, [ann, _]) = serve_one(&fixture, &[]);
    let page = ask(&address, "GET", "/", &ann, "").unwrap().2;
    fs::remove_file(fixture.path("tree/plan.ledger")).unwrap();
    for end in ["-wal", "-shm"] {
        drop(fs::remove_file(fixture.path(&format!("tree/plan.ledger{end}"))));
    }
    let body = format!("item=1&stage=final&label=yes&code={}", field(&page, "code").unwrap());
    let (status, _, text) = ask(&address, "POST", "/", &ann, &body).unwrap();
    assert!(status == 500 && text.contains("nothing was saved"), "{status} {text}");
    // It is still to be answered.
    let page = ask(&address, "GET", "/", &ann, "").unwrap().2;
    assert_eq!(field(&page, "item"), Some("1"));
}

#[test]
fn a_survey_is_filled_in_and_becomes_a_table_beside_the_published_one() {
    let fixture = Fixture::new();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/survey");
    for file in ["guideline.toml", "plan.toml", "published.csv", "questions.jsonl", "table.py"] {
        fixture.write(&format!("tree/survey/{file}"), &fs::read_to_string(examples.join(file)).unwrap());
    }
    let guideline = "--guideline survey/guideline.toml";
    fixture.run(&format!("judge people export survey/plan.toml form.csv {guideline} --sample 10"));
    let serve = "judge serve survey/plan.toml --listen 127.0.0.1:0 --annotator ann --annotator bob";
    let server = Running::start(&fixture, serve, 3);
    let mut labels = String::new();
    for line in &server.lines {
        let (person, link) = line.split_once("\thttp://").unwrap();
        let (address, path) = link.split_at(link.find('/').unwrap());
        let head = ask(address, "POST", path, "", "").unwrap().1;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = cookie.split(';').next().unwrap();
        if person == "(organizer)" {
            labels = ask(address, "GET", "/labels.jsonl", cookie, "").unwrap().2;
            let status = ask(address, "GET", "/status", cookie, "").unwrap();
            assert!(status.0 == 200 && status.2.contains("10, 10 without a verdict"), "{status:?}");
            continue;
        }
        let refused = ask(address, "GET", "/status/stream", cookie, "").unwrap().0;
        assert_eq!(refused, 403, "an annotator follows what others do");
        for _ in 0..10 {
            let page = ask(address, "GET", "/", cookie, "").unwrap().2;
            // A question with several answers has those of all its options.
            let answer =
                if page.contains("Choose all that apply.)") && person == "ann" { "ABC" } else { "B" };
            let (item, code) = (field(&page, "item").unwrap(), field(&page, "code").unwrap());
            let sent = format!("item={item}&label={answer}&code={code}");
            assert_eq!(ask(address, "POST", "/", cookie, &sent).unwrap().0, 303);
        }
    }
    assert_eq!(labels.lines().count(), 10, "{labels}");
    fixture.write("tree/labels.jsonl", &labels);
    let mut table = std::process::Command::new("python3");
    table.args(["survey/table.py", "labels.jsonl"]).current_dir(fixture.path("tree"));
    // The table needs python3; without it, only the form is tested.
    let Ok(table) = table.output() else { return };
    let table = stdout(&table);
    for row in [
        "| examples | B: two or three | 2 | 100.00 | 66.67 |",
        "| several | A: how an API is used | 2 | 50.00 | 68.63 |",
        "| several | B: how an algorithm is implemented | 2 | 100.00 | 60.78 |",
        "| used | D: functions with neither | 2 | 0.00 | 2.94 |",
        "| experience | B: one to five years | 2 | 100.00 | 66.67 |",
        "| searches | 8.00 | 7.89 | 8.31 |",
        "| examples | 2.50 | 2.64 | 2.64 |",
    ] {
        assert!(table.lines().any(|line| line == row), "{row}\n{table}");
    }
}
