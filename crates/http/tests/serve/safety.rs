//! Attacks from outside and from within a tree.

use crate::fixture::{FILES, Start, serve, serve_with};

/// A script that must never be more than text.
const SCRIPT: &str = "<script>alert(1)</script>";

#[test]
fn values_from_trees_and_requests_are_escaped() {
    let name = "src/<img src=x onerror=alert(2)>&\"'\u{202e}.py";
    let code = "def evil_backoff():\n    return \"</pre></div><script>alert(1)</script>\u{202e}\"\n";
    let served = serve_with(&[(name, code), ("b.py", "def other():\n    return 1\n")], Start::default());
    let tag = ["<script>alert", "<img src=x", "\u{202e}"];
    let address = "/file/shop/src/%3Cimg%20src%3Dx%20onerror%3Dalert%282%29%3E%26%22%27%E2%80%AE.py";
    for path in [
        "/?q=evil+backoff".to_owned(),
        format!("/?q={SCRIPT}").replace('<', "%3C").replace('>', "%3E"),
        "/?q=evil&dir=%3Cscript%3Ealert".to_owned(),
        "/?q=evil&glob=%22%3E%3Cscript%3Ealert".to_owned(),
        "/?q=evil&tree=%3Cscript%3Ealert".to_owned(),
        "/?%3Cscript%3Ealert=1".to_owned(),
        format!("{address}?line=1"),
        address.replace("/file/shop/", "/similar?line=1&path="),
        address.replace("/file/", "/card/") + "?line=1",
        "/calls?name=evil_backoff&fragment=1".to_owned(),
        "/?q=evil+backoff&fragment=1".to_owned(),
        "/dir/shop/src".to_owned(),
        "/dir/shop/%3Cscript%3Ealert".to_owned(),
        "/?q=%2F%3Cscript%3Ealert(%2F".to_owned(),
        "/calls?name=evil&via=%3Cscript%3Ealert".to_owned(),
        "/calls?name=evil_backoff".to_owned(),
        "/calls?name=evil%E2%80%AE".to_owned(),
        "/file/shop/%3Cscript%3Ealert".to_owned(),
        "/calls?name=%3Cscript%3Ealert".to_owned(),
        "/%3Cscript%3Ealert".to_owned(),
    ] {
        let reply = served.get(&path);
        assert!(reply.status != 0 && reply.status != 500, "{path}: {reply:?}");
        for tag in tag {
            assert!(!reply.body.contains(tag), "{path} holds {tag:?}: {}", reply.body);
        }
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        // With `no-referrer`, browsers send the forms of this server with `Origin: null`, which is refused.
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
    }
    let page = served.get(&format!("{address}?line=1")).body;
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("U+202E"), "{page}");
    assert!(
        served
            .get("/?q=evil+backoff")
            .body
            .contains(&format!("href=\"{address}?q=evil+backoff&amp;line=1#L1\""))
    );
}

#[test]
fn no_file_is_served_that_is_not_indexed() {
    let served = serve();
    let outside = served.directory().parent().unwrap().join("outside.py");
    std::fs::write(&outside, "def outside(): return 'not for anybody'\n").unwrap();
    #[cfg(unix)]
    {
        // Indexed as a file, a link now.
        std::fs::remove_file(served.directory().join("src/wait.py")).unwrap();
        std::os::unix::fs::symlink(&outside, served.directory().join("src/wait.py")).unwrap();
        std::os::unix::fs::symlink(&outside, served.directory().join("link.py")).unwrap();
    }
    for path in [
        "ignored.py",
        ".gitignore",
        "link.py",
        "src/wait.py",
        "../outside.py",
        "..%2Foutside.py",
        "%2e%2e/outside.py",
        "src/../ignored.py",
        "src/%2e%2e/%2e%2e/outside.py",
        "./src/retry.py",
        "src//retry.py",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "src",
        "src/retry.py%00",
        "nul\\..\\x",
    ] {
        for kind in ["file", "raw", "api/v1/units"] {
            let reply = served.get(&format!("/{kind}/shop/{path}"));
            assert!(!reply.body.contains("not for anybody"), "{kind} {path}: {reply:?}");
            if path != "src/wait.py" {
                assert!(matches!(reply.status, 400 | 404), "{kind} {path}: {reply:?}");
            }
        }
    }
}

#[test]
fn foreign_names_sites_and_tokens_are_refused() {
    let served = serve();
    for (head, status) in [
        (["Host: 127.0.0.1:1"].as_slice(), 200),
        (&["Host: localhost"], 200),
        (&["Host: code.example"], 200),
        (&["Host: evil.example"], 403),
        (&["Host: localhost.evil.example"], 403),
        (&["Host: localhost", "Host: evil.example"], 403),
        (&["Host: "], 403),
        (&["Host: localhost", "Origin: https://evil.example"], 200),
    ] {
        let reply = served.request("GET", "/healthz", head, "");
        assert_eq!(reply.status, status, "{head:?}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let login = |head: &[&str]| served.request("POST", "/login", head, "token=x").status;
    let form = "Content-Type: application/x-www-form-urlencoded";
    assert_eq!(login(&[form, "Origin: https://evil.example"]), 403);
    assert_eq!(login(&[form, "Sec-Fetch-Site: cross-site"]), 403);
    assert_eq!(served.request("DELETE", "/", &[], "").status, 405);
    assert_eq!(
        served.request("OPTIONS", "/api/v1/search", &["Origin: https://evil.example"], "").status,
        403
    );
}

#[test]
fn other_sites_may_only_link_to_pages() {
    let served = serve();
    let get = |path: &str, head: &[&str]| served.request("GET", path, head, "").status;
    let (cross, navigates) = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate");
    for path in ["/api/v1/search?q=retry", "/api/v1/status", "/metrics", "/mcp"] {
        assert_eq!(get(path, &[cross, navigates]), 403, "{path}");
        assert_eq!(get(path, &["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"]), 403, "{path}");
        assert_eq!(get(path, &["Origin: https://evil.example"]), 403, "{path}");
        assert_ne!(get(path, &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"]), 403, "{path}");
        assert_ne!(get(path, &["Sec-Fetch-Site: none", navigates]), 403, "{path}");
        assert_ne!(get(path, &[]), 403, "{path}");
    }
    for path in ["/?q=retry", "/file/shop/src/retry.py"] {
        assert_eq!(get(path, &[cross, navigates]), 200, "a link leads to {path}");
        assert_eq!(get(path, &[cross, "Sec-Fetch-Mode: no-cors"]), 403, "an image from {path}");
    }
}

#[test]
fn a_token_is_asked_for_and_kept_out_of_addresses() {
    let token = "correct horse battery";
    let served = serve_with(&FILES, Start { token: Some(token), ..Start::default() });
    for path in [
        "/",
        "/?q=retry",
        "/api/v1/search?q=retry",
        "/metrics",
        "/readyz",
        "/raw/shop/lib/http.rs",
        "/opensearch.xml",
    ] {
        let reply = served.request("GET", path, &["Accept: application/json"], "");
        assert_eq!(reply.status, 401, "{path}");
        assert!(!reply.body.contains("dial") && reply.header("www-authenticate").is_some());
        assert_eq!(
            served.request("GET", path, &["Authorization: Bearer wrong horse battery"], "").status,
            401
        );
        let bearer = format!("Authorization: Bearer {token}");
        assert_eq!(served.request("GET", path, &[&bearer], "").status, 200, "{path}");
        assert_eq!(served.get(&format!("{path}?token=correct+horse+battery")).status, 401, "{path}");
    }
    assert_eq!(served.get("/healthz").status, 200);
    let page = served.get("/?q=retry&lang=%22%3E%3Cscript%3E");
    assert!(
        page.status == 401 && page.body.contains("action=\"/login\"") && !page.body.contains("\"><script>")
    );
    let form = "Content-Type: application/x-www-form-urlencoded";
    let wrong = served.request("POST", "/login", &[form], "token=wrong&next=/");
    assert!(
        wrong.status == 401 && wrong.header("set-cookie").is_none() && wrong.body.contains("Wrong token")
    );
    for (next, location) in [
        ("/%3Fq%3Dretry", "/?q=retry"),
        ("//evil.example", "/"),
        ("/%5Cevil.example", "/"),
        ("https://evil.example", "/"),
    ] {
        let right =
            served.request("POST", "/login", &[form], &format!("token=correct+horse+battery&next={next}"));
        assert_eq!((right.status, right.header("location")), (303, Some(location)), "{right:?}");
        let cookie = right.header("set-cookie").unwrap();
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("horse")
        );
        let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
        assert_eq!(served.request("GET", "/?q=retry", &[&cookie], "").status, 200);
    }
}
