//! Pages as a browser without scripts sees them.

use quarry_http::CodeLink;
use serde_json::json;

use crate::fixture::{FILES, Start, serve, serve_all, serve_with};

#[test]
fn results_are_in_the_page() {
    let served = serve();
    let reply = served.get("/?q=retry+with+backoff");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(
        reply
            .body
            .contains("<a class=\"open\" href=\"/file/shop/src/retry.py?q=retry+with+backoff&amp;line=1#L1\">retry_with_backoff</a>")
    );
    assert!(reply.body.contains("<span class=\"hk\">def</span>"), "{}", reply.body);
    assert!(reply.body.contains("<mark>retry</mark>") || reply.body.contains("<mark>backoff</mark>"));
    assert!(reply.body.contains("value=\"retry with backoff\""));
    assert!(!reply.body.contains("secret_backoff"));
    let fragment = served.get("/?q=retry+with+backoff&fragment=1");
    assert!(fragment.body.starts_with("<div class=\"columns\">") && fragment.body.len() < reply.body.len());
}

#[test]
fn filters_and_facets_narrow() {
    let served = serve();
    let all = served.get("/?q=pause+connect+retry").body;
    assert!(all.contains("href=\"/?q=pause+connect+retry&amp;lang=rust\"") && all.contains("dir=lib"));
    let rust = served.get("/?q=pause+connect+retry&lang=rust").body;
    assert!(rust.contains("lib/http.rs") && !rust.contains("retry.py"));
    for directory in ["src", "src/", "./src"] {
        let page = served.get(&format!("/?q=pause+connect+retry&dir={directory}")).body;
        assert!(page.contains("retry.py") && !page.contains("http.rs"), "{directory}");
    }
    assert!(served.get("/?q=pause+connect+retry&dir=.").body.contains("http.rs"));
    let glob = served.get("/?q=pause+connect+retry&glob=!*.py").body;
    assert!(glob.contains("http.rs") && !glob.contains("retry.py"));
    let explained = served.get("/?q=retry&explain=1").body;
    assert!(explained.contains("class=\"explanation\"") && explained.contains("sum of"));
    assert!(!served.get("/?q=retry").body.contains("class=\"explanation\""));
    let wrong = served.get("/?q=retry&lang=pyhton");
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("did you mean python") || wrong.body.contains("python"), "{}", wrong.body);
    assert!(served.get("/?q=retry&langs=python").body.contains("did you mean `lang`?"));
}

#[test]
fn filters_that_are_set_can_be_removed_one_by_one() {
    let served = serve();
    let page = served.get("/?q=pause+connect+retry&lang=python&kind=function&no-vendored=1").body;
    let chosen = page.split("class=\"chosen\"").nth(1).and_then(|rest| rest.split("</ul>").next()).unwrap();
    for link in [
        "\"/?q=pause+connect+retry&amp;kind=function&amp;no-vendored=1\"",
        "\"/?q=pause+connect+retry&amp;lang=python&amp;no-vendored=1\"",
        "\"/?q=pause+connect+retry&amp;lang=python&amp;kind=function\"",
        "\"/?q=pause+connect+retry\"",
    ] {
        assert!(chosen.contains(link), "{link} in {chosen}");
    }
    assert!(!served.get("/?q=retry").body.contains("class=\"chosen\""));
    let nothing = served.get("/?q=zyzzyva&lang=rust&dir=src").body;
    assert!(nothing.contains("Nothing found"));
    assert!(nothing.contains("href=\"/?q=zyzzyva\">search without filters"));
}

#[test]
fn a_path_narrows_to_its_directories() {
    let code = "def pause(seconds):\n    clock.sleep(seconds)\n";
    let served = serve_with(
        &[("a/b c/pause.py", code), ("other.py", "def other():\n    return 1\n")],
        Start::default(),
    );
    let page = served.get("/?q=pause&explain=1").body;
    for link in [
        "<a href=\"/?q=pause&amp;explain=1&amp;dir=a\">a</a>",
        "<a href=\"/?q=pause&amp;explain=1&amp;dir=a%2Fb+c\">b c</a>",
        "<a class=\"file\" href=\"/file/shop/a/b%20c/pause.py?q=pause&amp;explain=1&amp;line=1#L1\">pause.py</a>",
    ] {
        assert!(page.contains(link), "{link} in {page}");
    }
    let similar = served.get("/similar?tree=shop&path=a/b%20c/pause.py&line=1").body;
    assert!(!similar.contains("dir="), "without a query there is nothing to narrow: {similar}");
}

#[test]
fn examples_are_of_the_tree() {
    let served = serve();
    let start = served.get("/").body;
    assert!(
        start.contains("href=\"/?q=opens+a+connection+to+a+host\">opens a connection to a host</a>"),
        "{start}"
    );
    assert!(start.contains("href=\"/?q=connect\"><code>connect</code>"));
    let found = served.get("/?q=opens+a+connection+to+a+host").body;
    assert!(found.contains("line=1#L1\">connect</a>"), "{found}");
    // Without any description, there still is an example.
    let served = serve_with(&[("a.py", "def f():\n    return 1\n")], Start::default());
    assert!(served.get("/").body.contains("q=retry+with+backoff"));
}

#[test]
fn long_lines_and_many_results_are_a_small_page() {
    let line = format!("    read_lines({})\n", "lines, ".repeat(90));
    let code: String =
        (0..20).map(|n| format!("def read_lines_{n}(lines):\n{}\n\n", line.repeat(30))).collect();
    let served = serve_with(&[("lines.py", &code)], Start::default());
    for path in ["/?q=read+lines", "/?q=read+lines&k=200&lines=0&explain=1", "/"] {
        let n_bytes = served.get(path).body.len();
        assert!((1000..100_000).contains(&n_bytes), "{path} has {n_bytes} bytes");
    }
}

#[test]
fn more_results_are_a_link_away() {
    let code: String =
        (0..25).map(|n| format!("def close_socket_{n}(socket):\n    socket.close({n})\n\n\n")).collect();
    let served = serve_with(&[("net.py", &code)], Start::default());
    let names = |page: &str| -> Vec<String> {
        page.split("<a class=\"open\"")
            .skip(1)
            .map(|rest| rest.split(['>', '<']).nth(1).unwrap().to_owned())
            .collect()
    };
    let mut path = "/?q=close+a+socket&lang=python".to_owned();
    let mut seen = Vec::new();
    for (n, has_next) in [(10, true), (10, true), (5, false)] {
        let page = served.get(&path).body;
        assert_eq!(names(&page).len(), n, "{path}");
        seen.extend(names(&page));
        let next = page.split(" rel=\"next\" href=\"").nth(1).map(|rest| rest.split('"').next().unwrap());
        assert_eq!(next.is_some(), has_next, "{page}");
        // Another query begins at the first result.
        assert!(!page.contains("name=\"from\""));
        if let Some(next) = next {
            path = next.replace("&amp;", "&");
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 25, "each once: {seen:?}");
    let last = served.get(&path).body;
    assert!(last.contains("Results 21–25") && last.contains("rel=\"prev\""), "{last}");
    assert_eq!(served.get("/?q=socket&from=0").status, 400);
    assert!(served.get("/?q=socket&from=150").body.contains("No more results"));
}

#[test]
fn a_file_has_a_line_to_point_at() {
    let links = vec![CodeLink::parse("forge=https://forge.example/{tree}/{path}#{line}").unwrap()];
    let served = serve_with(&FILES, Start { links, ..Start::default() });
    let page = served.get("/file/shop/src/retry.py?line=3").body;
    assert!(page.contains("id=L1>") && page.contains("id=L5>") && page.contains("class=\"line current\""));
    assert_eq!(page.matches(" autofocus").count(), 1, "where browsers go without an anchor: {page}");
    assert!(page.contains("href=#L3 autofocus>3</a>"));
    assert!(page.contains("href=\"/raw/shop/src/retry.py\""));
    assert!(page.contains("href=\"https://forge.example/shop/src/retry.py#3\""));
    let raw = served.get("/raw/shop/src/retry.py");
    assert_eq!(raw.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(raw.body, FILES[0].1);
    assert!(raw.header("content-security-policy").unwrap().contains("sandbox"));
}

#[test]
fn similar_code_and_calls_are_pages() {
    let served = serve();
    let similar = served.get("/similar?tree=shop&path=src/retry.py&line=2");
    assert!(similar.status == 200 && similar.body.contains("wait.py"), "{}", similar.body);
    let calls = served.get("/calls?tree=shop&path=src/wait.py&line=1").body;
    assert!(calls.contains("Called in 1 place") && calls.contains("aria-label=\"src/wait.py:7\""), "{calls}");
    assert_eq!(served.get("/similar?tree=shop&path=src/retry.py&line=99").status, 404);
    assert_eq!(served.get("/similar?path=src/retry.py").status, 400);
}

#[test]
fn related_places_and_their_commits_have_pages() {
    let later = FILES[1].1.replace("60", "61");
    let commits = vec![
        ("Start", FILES.to_vec()),
        ("Wait a second longer\n\nFor <b>slow</b> hosts.", vec![(FILES[1].0, later.as_str())]),
    ];
    let served = serve_with(&FILES, Start { commits, ..Start::default() });
    let page = served.get("/file/shop/src/wait.py?line=6").body;
    assert!(page.contains("href=\"/history/shop/src/wait.py\"") && page.contains("/related?"), "{page}");
    let related = served.get("/related?tree=shop&path=src/wait.py&line=6").body;
    assert!(related.contains("Related to <code>rest</code>"), "{related}");
    assert!(related.contains("called by it"), "{related}");
    assert!(related.contains("Wait a second longer") && related.contains("history of 1 commit"), "{related}");
    let of_pause = served.get("/related?name=pause").body;
    assert!(of_pause.contains("calls it") && !of_pause.contains("Wait a second longer"), "{of_pause}");
    let history = served.get("/history/shop/src/wait.py").body;
    assert!(history.contains("<code>rest</code>") && history.contains("1970-01-12"), "{history}");
    assert!(!history.contains("<code>pause</code>"), "no commit changed it later: {history}");
    let commits = served.get("/commits?q=slow+hosts");
    assert!(commits.status == 200 && commits.body.contains("1 commit for"), "{}", commits.body);
    assert!(!commits.body.contains("<b>slow"), "{}", commits.body);
    let found = served.get("/api/v1/commits?q=wait&k=1").json();
    assert_eq!(found["results"][0]["subject"], "Wait a second longer", "{found}");
    for (path, status) in [
        ("/related?path=src/none.py", 404),
        ("/related?name=pause&kind=x", 400),
        ("/history/shop/src/none.py", 404),
        ("/history/shop/ignored.py", 404),
        ("/commits", 400),
        ("/commits?q=a&k=0", 400),
    ] {
        assert_eq!(served.get(path).status, status, "{path}");
    }
}

#[test]
fn problems_are_pages_for_browsers_and_objects_for_programs() {
    let served = serve();
    for path in ["/none", "/file/shop/none.py", "/?limit=0&q=x"] {
        let page = served.get(path);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert!(page.body.contains("<h1>"), "{path}: {}", page.body);
    }
    let object = served.request("GET", "/none", &["Accept: */*"], "");
    assert_eq!((object.status, object.header("content-type")), (404, Some("application/problem+json")));
    assert_eq!(served.get("/favicon.ico").header("content-type"), Some("image/svg+xml"));
    assert!(served.get("/?q=retry").body.contains("<h1 class=\"hidden\">Results for retry</h1>"));
}

#[test]
fn several_trees_are_one_ranking() {
    type Files<'a> = &'a [(&'a str, &'a str)];
    let (first, second): (Files<'_>, Files<'_>) = (
        &[("a.py", "def connect(host):\n    return dial(host)\n")],
        &[("a.py", "def reconnect(host):\n    return connect(host)\n")],
    );
    let served = serve_all(&[("one", first), ("one", second)], Start::default());
    let both = served.get("/?q=connect+to+a+host").body;
    assert!(both.contains("/file/one/a.py?q=connect+to+a+host&amp;line=1"));
    assert!(both.contains("/file/one-2/a.py?q=connect+to+a+host&amp;line=1"));
    assert!(both.contains("tree=one-2"));
    let narrowed = served.get("/?q=connect+to+a+host&tree=one-2").body;
    assert!(!narrowed.contains("/file/one/a.py") && narrowed.contains("/file/one-2/a.py"));
    assert!(served.get("/file/one-2/a.py").body.contains("reconnect"));
    assert_eq!(served.get("/file/three/a.py").status, 404);
}

#[test]
fn a_first_index_shows_its_progress() {
    let served = serve_with(&FILES, Start { is_building: true, ..Start::default() });
    served.trees.report(quarry_http::Progress {
        share: 0.25,
        message: "reading files".to_owned(),
        failure: None,
    });
    let page = served.get("/?q=retry");
    assert!(page.body.contains("reading files") && page.body.contains("value=\"25\""), "{}", page.body);
    let api = served.get("/api/v1/search?q=retry&wait=0");
    assert_eq!((api.status, api.header("retry-after")), (503, Some("2")));
    assert_eq!(served.get("/api/v1/search?q=retry&wait=x").status, 400);
    let page = served.get("/file/shop/src/retry.py?wait=0");
    assert_eq!((page.status, page.header("refresh")), (503, Some("2")));
    assert_eq!((served.get("/readyz").status, served.get("/healthz").status), (503, 200));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| served.get("/api/v1/search?q=retry"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!waiting.is_finished(), "it waits");
        served.show();
        assert_eq!(waiting.join().unwrap().json()["results"][0]["name"], "retry_with_backoff");
    });
}

#[test]
fn browsers_can_search_from_the_address_bar() {
    let served = serve();
    let description = served.get("/opensearch.xml").body;
    assert!(
        description.contains(&format!("template=\"http://{}/?q={{searchTerms}}\"", served.address)),
        "{description}"
    );
    let page = served.get("/").body;
    assert!(page.contains("href=\"/opensearch.xml\""));
    let style = page.split("href=\"/assets/style").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let style = served.get(&format!("/assets/style{style}"));
    assert!(style.header("cache-control").unwrap().contains("immutable") && style.body.contains("--text"));
    assert_eq!(served.get("/assets/other.js").status, 404);
}

#[test]
fn exact_search_is_on_pages_and_in_the_api() {
    let mut files = FILES.to_vec();
    files.push(("notes.unknown", "first\npause for long\n"));
    let served = serve_with(&files, Start::default());
    let page = served.get("/?q=/pause%5C(6/").body;
    assert!(page.contains("<mark>pause</mark>"), "{page}");
    assert!(page.contains("wait.py"), "{page}");
    assert!(!page.contains("retry.py"), "{page}");
    let page = served.get("/?q=%22pause%20for%22").body;
    assert!(page.contains("/file/shop/notes.unknown?q=%22pause+for%22&amp;line=2#L2"), "{page}");
    let file = served.get("/file/shop/notes.unknown?q=%22pause+for%22&line=2").body;
    assert!(file.contains("<mark>pause for</mark> long") && file.contains("value=\"&quot;pause for&quot;\""));
    assert_eq!(served.get("/raw/shop/notes.unknown").body, "first\npause for long\n");
    let found = served.get("/api/v1/search?q=pause+lang%3Apython+-path%3Await").json();
    let paths: Vec<&str> =
        found["results"].as_array().unwrap().iter().map(|result| result["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["src/retry.py"]);
    let wrong = served.get("/?q=%2Fa(%2F");
    assert!(wrong.status == 400, "{wrong:?}");
    assert!(wrong.body.contains("class=\"problem\""), "{wrong:?}");
    assert!(wrong.body.contains("^"), "{wrong:?}");
    let hint = served.get("/?q=file%3Aa.py").body;
    assert!(hint.contains("did you mean `path:`?"), "{hint}");
    let keys = served.get("/complete").json();
    let of =
        |key: &str| keys.as_array().unwrap().iter().find(|one| one["key"] == key).unwrap()["values"].clone();
    assert_eq!(of("lang"), json!(["python", "rust"]));
    assert_eq!((of("path"), of("tree")), (json!(["lib/", "src/"]), json!(["shop"])));
}

#[test]
fn a_file_is_among_directories_and_leads_to_definitions() {
    let served = serve();
    let page = served.get("/file/shop/src/retry.py?q=retry&lang=python&line=1").body;
    for part in [
        // The path, the directories beside it, and what stays in the form.
        "<a href=\"/dir/shop?q=retry&amp;lang=python\">shop</a>/<a href=\"/dir/shop/src?q=retry&amp;lang=python\">src</a>/retry.py",
        "<a href=\"/dir/shop/lib?q=retry&amp;lang=python\">lib/</a>",
        "<a aria-current=\"page\" href=\"/file/shop/src/retry.py",
        "<input type=\"hidden\" name=\"lang\" value=\"python\">",
        "data-copy=\"src/retry.py\"",
        "data-copy-link=\"/file/shop/src/retry.py?line=1#L1\"",
        "<a class=refs href=\"/calls?tree=shop&amp;path=src%2Fretry.py&amp;line=1\">",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page = served.get("/file/shop/src/wait.py").body;
    assert!(page.contains("<a class=def href=\"?line=1#L1\">"), "{page}");
    let directory = served.get("/dir/shop/src").body;
    assert!(directory.contains("0 directories, 2 files"));
    assert!(directory.contains("/file/shop/src/wait.py?line=1#L1"));
    let top = served.get("/dir/shop").body;
    assert!(top.contains("href=\"/dir/shop/lib\"") && !top.contains("ignored.py"), "{top}");
    assert_eq!(served.get("/dir/shop/none").status, 404);
    assert_eq!(served.get("/dir/shop/..").status, 404);
    let card = served.get("/card/shop/src/wait.py?line=1").body;
    assert!(card.contains("Waits.") && card.contains("called in 1 place"), "{card}");
    let calls = served.get("/calls?tree=shop&path=src/wait.py&line=1&fragment=1").body;
    assert!(calls.starts_with("<p><b>Called in ") && !calls.contains("<html"), "{calls}");
    let further = served.get("/calls?tree=shop&path=src/wait.py&line=6&via=shop:1:src/wait.py").body;
    assert!(further.contains("aria-label=\"The way here\"") && further.contains(">pause</a>"), "{further}");
    assert_eq!(served.get("/calls?name=x&via=shop").status, 400);
}

#[test]
fn a_long_definition_is_one_entry_and_a_long_file_a_small_page() {
    let body = "    total = total + values[0] * values[1] # add the product\n".repeat(700);
    let code = format!(
        "class Sum:\n    def add_all(self, total, values):\n{}\n\ndef last():\n    return 1\n",
        body.replace("    total", "        total")
    );
    let served = serve_with(&[("sum.py", &code)], Start::default());
    let page = served.get("/file/shop/sum.py").body;
    assert!(page.len() < 100_000 && page.contains("Lines after"), "{} bytes", page.len());
    assert_eq!(page.matches("title=\"Sum.add_all\"").count(), 1, "{page}");
    assert!(
        page.contains("<li class=\"d1\"><a href=\"?line=2#L2\" title=\"Sum.add_all\">add_all</a>"),
        "{page}"
    );
    let last = served.get("/file/shop/sum.py?line=500").body;
    assert!(last.contains("id=L500>") && last.contains("Lines before") && last.len() < 100_000);
    let found = served.get("/api/v1/search?q=%22add+the+product%22").json();
    assert_eq!(found["results"].as_array().unwrap().len(), 1);
    assert_eq!(found["results"][0]["matches"].as_array().unwrap().len(), 700);
}
