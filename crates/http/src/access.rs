//! Access control: by the address that is listened on, the name that a request gives the server, and a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use quarry_files::hexadecimal;
use sha2::Sha256;

use crate::pages::{ASSETS, ProblemPage};
use crate::problem::Problem;

/// The shortest token that is accepted, in bytes.
pub const MIN_TOKEN_BYTES: usize = 16;
/// The cookie of somebody who has given the token.
const COOKIE: &str = "quarry_session";
/// Context of the derivation of a session's cookie from the token.
const SESSION: &[u8] = b"quarry serve session 1";
/// Paths that are answered without the token.
const OPEN: [&str; 3] = ["/favicon.ico", "/healthz", "/login"];
/// Prefixes of addresses for programs.
const PROGRAMS: [&str; 3] = ["/api/", "/mcp", "/metrics"];
pub struct Access {
    hosts: Vec<String>,
    token: Option<Token>,
    is_behind_proxy: bool,
}

/// A secret that is compared in constant time, and never printed.
struct Token {
    mac: Hmac<Sha256>,
    session: Vec<u8>,
}

/// Why a server is not started.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "{0} can be reached from other machines; give a token with --token-file FILE, or --behind-proxy if a proxy in \
         front of it authenticates requests"
    )]
    Open(SocketAddr),
    #[error(
        "the token has {0} characters, expected at least {MIN_TOKEN_BYTES}; `openssl rand -hex 24 > FILE` makes one"
    )]
    ShortToken(usize),
}

impl Access {
    /// For a server at `address`, which is also called by the names `hosts`.
    ///
    /// # Errors
    /// When everybody would be answered who can reach it, or the token can be guessed.
    pub fn new(
        address: SocketAddr,
        hosts: Vec<String>,
        token: Option<&str>,
        is_behind_proxy: bool,
    ) -> Result<Self, AccessError> {
        let token = token.map(str::trim);
        match token {
            Some(token) if token.len() < MIN_TOKEN_BYTES => {
                return Err(AccessError::ShortToken(token.chars().count()));
            }
            None if !address.ip().is_loopback() && !is_behind_proxy => {
                return Err(AccessError::Open(address));
            }
            _ => {}
        }
        Ok(Self { hosts, token: token.map(Token::new), is_behind_proxy })
    }

    /// For a server that asks everybody for a link of their own.
    #[cfg(feature = "labels")]
    pub(crate) fn by_links(hosts: Vec<String>, is_behind_proxy: bool) -> Self {
        Self { hosts, token: None, is_behind_proxy }
    }

    /// Returns whether a request calls the server by a name of its own. A page of a stranger can make a browser send
    /// requests here under the stranger's name, by having that name point here; it cannot do so with an address or
    /// `localhost`.
    fn is_own_name(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => return rest.split_once(']').is_some_and(|(ip, _)| ip.parse::<IpAddr>().is_ok()),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns whether a request comes with the token, or with the cookie of somebody who has given it.
    pub(crate) fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        if let Some((scheme, given)) = bearer
            && scheme.eq_ignore_ascii_case("bearer")
        {
            return token.is(given.trim());
        }
        cookie(headers, COOKIE).is_some_and(|given| token.is_session(given))
    }

    /// The header that makes a browser stay logged in, if `given` is the token.
    pub(crate) fn log_in(&self, given: &str, headers: &HeaderMap) -> Option<String> {
        let token = self.token.as_ref()?;
        token.is(given.trim()).then(|| self.cookie(COOKIE, &hexadecimal(&token.session), headers))
    }

    /// The header that sets a cookie for this server alone, out of reach of scripts and other sites.
    pub(crate) fn cookie(&self, name: &str, value: &str, headers: &HeaderMap) -> String {
        let secure = if self.is_secure(headers) { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}")
    }

    /// Returns whether a request came over TLS, which only a proxy can have ended.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        let protocol = headers.get("x-forwarded-proto");
        self.is_behind_proxy && protocol.is_some_and(|protocol| protocol.as_bytes() == b"https")
    }
}

impl Token {
    fn new(token: &str) -> Self {
        let mac = keyed(token.as_bytes());
        let session = mac.clone().chain_update(SESSION).finalize().into_bytes().to_vec();
        Self { mac, session }
    }

    fn is(&self, given: &str) -> bool {
        // Both are compared as authentication codes, whose comparison takes the same time whatever they are.
        let given = keyed(given.as_bytes()).chain_update(SESSION).finalize().into_bytes();
        self.mac.clone().chain_update(SESSION).verify_slice(&given).is_ok()
    }

    fn is_session(&self, given: &str) -> bool {
        let Some(given) = bytes(given) else { return false };
        self.mac.clone().chain_update(SESSION).verify_slice(&given).is_ok()
    }
}

/// A code of messages under a key, which may have any length.
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // A key that is longer than a block is hashed, a shorter one is padded: every length is valid.
    <Hmac<Sha256> as KeyInit>::new_from_slice(key)
        .unwrap_or_else(|_| <Hmac<Sha256> as KeyInit>::new(&Default::default()))
}

pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies =
        lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find_map(|(found, value)| (found == name).then_some(value))
}

pub(crate) fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

pub(crate) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match refusal(&access, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

fn refusal(access: &Access, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    let Some(host) = host.filter(|host| access.is_own_name(host)) else {
        let detail = "the Host header does not name this server; use its address or `localhost`, or start it with \
                      --host NAME";
        return Some(problem_for(headers, Problem::new(StatusCode::FORBIDDEN, detail)));
    };
    // Other sites may link to pages, but neither send anything nor have browsers ask for what they do not show.
    let is_link = matches!(*request.method(), Method::GET | Method::HEAD)
        && !PROGRAMS.iter().any(|start| request.uri().path().starts_with(start))
        && headers.get("sec-fetch-mode").is_none_or(|mode| mode.as_bytes() == b"navigate");
    if !is_link && !is_of_this_site(headers, host) {
        let detail =
            "the request comes from another site; send it from a page of this server, or without an Origin";
        return Some(problem_for(headers, Problem::new(StatusCode::FORBIDDEN, detail)));
    }
    let path = request.uri().path();
    if OPEN.contains(&path) || path.starts_with(ASSETS) || access.is_allowed(headers) {
        return None;
    }
    if wants_page(headers) && *request.method() == Method::GET {
        let next = request.uri().path_and_query().map_or("/", |path| path.as_str());
        return Some(crate::pages::login(next, false).into_response());
    }
    let detail =
        "this server requires a token; send it as `Authorization: Bearer TOKEN`, or log in at /login";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer realm=\"quarry\""));
    Some(response)
}

/// Returns whether somebody looks at the answer, and no program.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// A problem, as whoever asks can read it.
pub(crate) fn problem_for(headers: &HeaderMap, problem: Problem) -> Response {
    if wants_page(headers) { ProblemPage::from(problem).into_response() } else { problem.into_response() }
}

/// Returns whether a request comes from a page of this server, or from no page at all.
fn is_of_this_site(headers: &HeaderMap, host: &str) -> bool {
    let is_foreign = headers
        .get("sec-fetch-site")
        .is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let is_own = origin.is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    });
    is_own && !is_foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(token: Option<&str>) -> Access {
        Access::new("127.0.0.1:1".parse().unwrap(), vec!["code.example".to_owned()], token, false).unwrap()
    }

    #[test]
    fn names_of_the_server_are_addresses_and_those_that_it_was_given() {
        let access = access(None);
        for own in ["127.0.0.1:80", "localhost", "LOCALHOST:9", "[::1]:80", "10.1.2.3", "code.example:80"] {
            assert!(access.is_own_name(own), "{own}");
        }
        for other in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "[x]:1", ""] {
            assert!(!access.is_own_name(other), "{other}");
        }
    }

    #[test]
    fn tokens_and_sessions_are_the_whole_secret() {
        let access = access(Some("0123456789abcdef\n"));
        let is_allowed = |name: header::HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            access.is_allowed(&headers)
        };
        assert!(is_allowed(header::AUTHORIZATION, "Bearer 0123456789abcdef"));
        assert!(is_allowed(header::AUTHORIZATION, "bearer 0123456789abcdef"));
        for wrong in
            ["Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Basic 0123456789abcdef", "Bearer"]
        {
            assert!(!is_allowed(header::AUTHORIZATION, wrong), "{wrong}");
        }
        assert!(!access.is_allowed(&HeaderMap::new()));
        assert_eq!(access.log_in("wrong", &HeaderMap::new()), None);
        let cookie = access.log_in("0123456789abcdef", &HeaderMap::new()).unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains("0123456789abcdef"));
        let (pair, _) = cookie.split_once(';').unwrap();
        assert!(is_allowed(header::COOKIE, &format!("a=b; {pair}")));
        assert!(!is_allowed(header::COOKIE, &pair[..pair.len() - 1]));
        assert!(!is_allowed(header::COOKIE, &format!("{pair}0")));
    }

    #[test]
    fn servers_for_everybody_are_refused() {
        let everywhere = "0.0.0.0:80".parse().unwrap();
        let open = Access::new(everywhere, Vec::new(), None, false);
        assert!(matches!(open, Err(AccessError::Open(_))));
        assert!(Access::new(everywhere, Vec::new(), Some("0123456789abcdef"), false).is_ok());
        assert!(Access::new(everywhere, Vec::new(), None, true).is_ok());
        let short = Access::new(everywhere, Vec::new(), Some("0123456789abcde"), true);
        assert!(matches!(short, Err(AccessError::ShortToken(15))));
    }

    #[test]
    fn changes_come_from_this_site() {
        let is_allowed = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            pairs.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
            is_of_this_site(&headers, "127.0.0.1:80")
        };
        assert!(is_allowed(&[]) && is_allowed(&[("origin", "http://127.0.0.1:80")]));
        assert!(!is_allowed(&[("origin", "http://127.0.0.1:81")]) && !is_allowed(&[("origin", "null")]));
        assert!(!is_allowed(&[("sec-fetch-site", "cross-site")]));
        assert!(!is_allowed(&[("sec-fetch-site", "same-site")]));
        assert!(is_allowed(&[("sec-fetch-site", "same-origin")]));
    }
}
