//! The parameters of a request, which links change one by one.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use quarry_text::did_you_mean_or_all;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::problem::Problem;

/// The most parameters that a request may have.
const MAX_PARAMS: usize = 64;
/// Parameters that may come more than once.
const LISTS: [&str; 4] = ["lang", "kind", "glob", "via"];
/// Parameters of a search that are texts, numbers and switches; in JSON they are so too.
const TEXTS: [&str; 3] = ["q", "dir", "ranking"];
const NUMBERS: [&str; 4] = ["k", "lines", "context", "threshold"];
pub(crate) const SWITCHES: [&str; 3] = ["explain", "no-generated", "no-vendored"];
/// The parameter that refuses to wait for the first index, which all requests may have.
pub(crate) const WAIT: &str = "wait";
/// Other names of parameters, as the command line and agents have them.
const ALIASES: [(&str, &str); 2] = [("limit", "k"), ("query", "q")];
/// The longest value of a parameter, in bytes.
const MAX_VALUE_BYTES: usize = 4000;

/// The parameters of a request, in their order; a name may come more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(query: &str) -> Result<Self, Problem> {
        let pairs = form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (own_name(&name).to_owned(), value.into_owned()));
        Self::from_pairs(pairs, MAX_VALUE_BYTES)
    }

    /// Of an object of JSON, whose query may be longer than in an address.
    pub(crate) fn from_object(object: &Map<String, Value>, max_query_bytes: usize) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        for (name, value) in object {
            let name = own_name(name);
            if name == WAIT {
                return Err(Problem::bad_request(format!("{WAIT}: belongs in the address, as ?{WAIT}=0")));
            }
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let (expected, texts) = if NUMBERS.contains(&name) {
                ("a number", value.as_number().map(|number| vec![number.to_string()]))
            } else if SWITCHES.contains(&name) {
                ("true or false", value.as_bool().map(|is_on| vec![is_on.to_string()]))
            } else if is_list(name, true) {
                ("a list of texts", value.as_array().and_then(|all| all.iter().map(text).collect()))
            } else if TEXTS.contains(&name) {
                ("a text", text(value).map(|text| vec![text]))
            } else {
                // There is no such parameter, which is reported by `only`.
                ("", Some(vec![String::new()]))
            };
            let wrong = || Problem::bad_request(format!("{name}: expected {expected}"));
            pairs.extend(texts.ok_or_else(wrong)?.into_iter().map(|text| (name.to_owned(), text)));
        }
        Self::from_pairs(pairs.into_iter(), max_query_bytes)
    }

    fn from_pairs(
        pairs: impl Iterator<Item = (String, String)>,
        max_query_bytes: usize,
    ) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = pairs.take(MAX_PARAMS + 1).collect();
        if pairs.len() > MAX_PARAMS {
            return Err(Problem::bad_request(format!("more than {MAX_PARAMS} parameters; leave some out")));
        }
        let max_bytes = |name: &str| if name == "q" { max_query_bytes } else { MAX_VALUE_BYTES };
        if let Some((name, value)) = pairs.iter().find(|(name, value)| value.len() > max_bytes(name)) {
            let (n, max) = (value.len(), max_bytes(name));
            let advice = if name == "q" { "; describe the code in fewer words" } else { "" };
            return Err(Problem::bad_request(format!(
                "{}: {n} bytes, at most {max} are accepted{advice}",
                short(name)
            )));
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter that is not blank; of several the last.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rfind(|(known, value)| known == name && !value.trim().is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that are not blank.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, value)| known == name && !value.trim().is_empty());
        values.map(|(_, value)| value.trim().to_owned()).collect()
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(known, found)| known == name && found == value)
    }

    /// A number, as JSON has it. A blank one is none.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some((_, text)) = self.0.iter().rfind(|(known, _)| known == name) else { return Ok(None) };
        let is_number = text.trim() == text && serde_json::from_str::<serde_json::Number>(text).is_ok();
        let number = text.parse().ok().filter(|_| is_number);
        let kind = if "0.5".parse::<T>().is_ok() { "a number" } else { "a whole number, 0 or more" };
        let expected = || Problem::bad_request(format!("{name}: expected {kind}, found {text:?}"));
        number.map(Some).ok_or_else(expected)
    }

    /// A switch: on if it is given without a value, or with `1`, `true` or `on`.
    pub(crate) fn is_on(&self, name: &str) -> Result<bool, Problem> {
        match self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str()) {
            Some("" | "1" | "true" | "on") => Ok(true),
            None | Some("0" | "false" | "off") => Ok(false),
            Some(other) => Err(Problem::bad_request(format!("{name}: expected 1 or 0, found {other:?}"))),
        }
    }

    /// Refuses parameters that nothing reads, and several of which one is read.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let is_list = |name: &str| is_list(name, known.contains(&"q"));
        let is_known = |name: &str| known.contains(&name) || name == WAIT;
        let Some((name, _)) = self.0.iter().find(|(name, _)| !is_known(name)) else {
            let mut names = self.0.iter().enumerate().map(|(at, (name, _))| (at, name.as_str()));
            let twice = names
                .find(|(at, name)| !is_list(name) && self.0[..*at].iter().any(|(other, _)| other == name));
            return twice.map_or(Ok(()), |(_, name)| {
                Err(Problem::bad_request(format!("{name}: given more than once; expected one value")))
            });
        };
        let name = short(name);
        let hint = did_you_mean_or_all(&name, known.iter().copied());
        Err(Problem::bad_request(format!("unknown parameter {name:?}; {hint}")))
    }

    /// With one value of a parameter, in place of all others of that name.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.without(name);
        changed.0.push((name.to_owned(), value.to_owned()));
        changed
    }

    /// With a line of a file.
    pub(crate) fn at(&self, tree: &str, path: &str, line: u32) -> Self {
        self.with("tree", tree).with("path", path).with("line", &line.to_string())
    }

    /// With a value after others of that name.
    pub(crate) fn and(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.0.push((name.to_owned(), value.to_owned()));
        changed
    }

    /// With a value beside others of that name, or without it if it is there.
    pub(crate) fn toggled(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        if self.has(name, value) {
            changed.0.retain(|(known, found)| known != name || found != value);
        } else {
            changed.0.push((name.to_owned(), value.to_owned()));
        }
        changed
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(known, _)| known != name).cloned().collect())
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn link(&self, path: &str) -> String {
        if self.0.is_empty() {
            return path.to_owned();
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(self.pairs()).finish();
        format!("{path}?{query}")
    }
}

/// Returns whether a parameter may come more than once. A search has several trees, everything else is in one.
fn is_list(name: &str, is_search: bool) -> bool {
    LISTS.contains(&name) || (name == "tree" && is_search)
}

/// The name that a parameter has here.
fn own_name(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, own)| own)
}

/// The start of a name, which may have any length.
fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_change_one_parameter() {
        let params = Params::parse("q=a+b%26c&lang=rust&lang=go&explain").unwrap();
        assert_eq!(params.get("q"), Some("a b&c"));
        assert_eq!(params.all("lang"), ["rust", "go"]);
        assert!(params.is_on("explain").unwrap() && !params.is_on("other").unwrap());
        assert_eq!(params.toggled("lang", "go").link("/"), "/?q=a+b%26c&lang=rust&explain=");
        assert_eq!(params.toggled("lang", "c#").all("lang"), ["rust", "go", "c#"]);
        assert_eq!(params.with("q", "<x>").without("lang").link("/"), "/?explain=&q=%3Cx%3E");
        assert_eq!(Params::default().link("/"), "/");
    }

    #[test]
    fn objects_of_json_are_parameters_too() {
        let parse = |value: Value| Params::from_object(value.as_object().unwrap(), 10_000);
        let long = "word ".repeat(2000);
        let given =
            parse(json!({ "q": long, "k": 3, "lang": ["rust", "go"], "explain": true, "threshold": 0.5 }));
        let given = given.unwrap();
        assert_eq!(given.get("q"), Some(long.as_str()));
        assert_eq!(given.all("lang"), ["rust", "go"]);
        assert_eq!(given.number("k").unwrap(), Some(3_usize));
        assert_eq!(given.number("threshold").unwrap(), Some(0.5_f64));
        assert!(given.is_on("explain").unwrap());
        assert_eq!(parse(json!({ "query": "x", "limit": 3 })).unwrap(), Params::parse("q=x&k=3").unwrap());
        for (wrong, words) in [
            (json!({ "q": "x".repeat(10_001) }), "q: 10001 bytes, at most 10000"),
            (json!({ "dir": "x".repeat(4001) }), "dir: 4001 bytes, at most 4000"),
            (json!({ "q": null }), "q: expected a text"),
            (json!({ "k": "3" }), "k: expected a number"),
            (json!({ "lang": "rust" }), "lang: expected a list of texts"),
            (json!({ "lang": [1] }), "lang: expected a list of texts"),
            (json!({ "explain": 1 }), "explain: expected true or false"),
            (json!({ "glob": vec!["x"; 65] }), "more than 64 parameters"),
        ] {
            let problem = parse(wrong).unwrap_err();
            assert!(problem.detail.contains(words), "{}", problem.detail);
        }
    }

    #[test]
    fn a_parameter_with_two_names_is_one() {
        let params = Params::parse("limit=3").unwrap();
        assert_eq!(params.number("k").unwrap(), Some(3_usize));
        assert!(params.only(&["k"]).is_ok());
        let twice = Params::parse("k=3&limit=4").unwrap();
        assert!(twice.only(&["k"]).unwrap_err().detail.contains("k: given more than once"));
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let params = Params::parse("lnie=3&explain=maybe").unwrap();
        assert!(params.only(&["q", "line"]).unwrap_err().detail.contains("did you mean `line`?"));
        assert!(params.only(&["q", "k"]).unwrap_err().detail.contains("expected one of q, k"));
        assert!(params.is_on("explain").is_err() && params.number::<usize>("explain").is_err());
        for wrong in ["", "+", "+5", "%2B5", "5+", ".5", "1.5", "0x1", "-1", "05", "inf", "1e2"] {
            let params = Params::parse(&format!("n={wrong}")).unwrap();
            assert!(params.number::<usize>("n").is_err(), "{wrong}");
        }
        for wrong in ["nan", "inf", "%2B0.5", ".5", "0.5+"] {
            assert!(Params::parse(&format!("n={wrong}")).unwrap().number::<f32>("n").is_err(), "{wrong}");
        }
        let given = Params::parse("n=12&x=0.5").unwrap();
        assert_eq!((given.number("n").unwrap(), given.number("x").unwrap()), (Some(12_usize), Some(0.5_f32)));
        assert_eq!(given.number::<usize>("none").unwrap(), None);
        let lists = Params::parse("q=x&lang=a&lang=b&tree=c&tree=d").unwrap();
        assert!(lists.only(&["q", "lang", "tree"]).is_ok());
        assert!(
            lists
                .without("q")
                .only(&["lang", "tree"])
                .unwrap_err()
                .detail
                .contains("tree: given more than once")
        );
        assert!(Params::parse("q=a&q=b").unwrap().only(&["q"]).is_err());
        assert!(Params::parse(&"a=b&".repeat(65)).is_err());
        assert!(Params::parse(&format!("q={}", "x".repeat(4001))).is_err());
    }
}
