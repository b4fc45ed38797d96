//! The parameters of a request, which links change one by one.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use quarry_text::nearest;
use url::form_urlencoded;

use crate::problem::Problem;

/// The most parameters that a request may have.
const MAX_PARAMS: usize = 64;
/// Parameters that may come more than once.
const LISTS: [&str; 3] = ["lang", "kind", "glob"];
/// The longest value of a parameter, in bytes.
const MAX_VALUE_BYTES: usize = 4000;

/// The parameters of a request, in their order; a name may come more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub fn parse(query: &str) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .take(MAX_PARAMS + 1)
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        if pairs.len() > MAX_PARAMS {
            return Err(Problem::bad_request(format!("more than {MAX_PARAMS} parameters; leave some out")));
        }
        if let Some((name, value)) = pairs.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            let (short, n) = (name.chars().take(40).collect::<String>(), value.len());
            let advice = if name == "q" { "; say in a few words what the code does" } else { "" };
            return Err(Problem::bad_request(format!(
                "{short}: {n} bytes, at most {MAX_VALUE_BYTES} are accepted{advice}"
            )));
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter that is not blank; of several the last.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rfind(|(known, value)| known == name && !value.trim().is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that are not blank.
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, value)| known == name && !value.trim().is_empty());
        values.map(|(_, value)| value.trim().to_owned()).collect()
    }

    pub fn has(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(known, found)| known == name && found == value)
    }

    /// A number, as JSON has it. A blank one is none.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some((_, text)) = self.0.iter().rfind(|(known, _)| known == name) else { return Ok(None) };
        let is_number = text.trim() == text && serde_json::from_str::<serde_json::Number>(text).is_ok();
        let number = text.parse().ok().filter(|_| is_number);
        let kind = if "0.5".parse::<T>().is_ok() { "a number" } else { "a whole number, 0 or more" };
        let expected = || Problem::bad_request(format!("{name}: expected {kind}, found {text:?}"));
        number.map(Some).ok_or_else(expected)
    }

    /// A switch: on if it is given without a value, or with `1`, `true` or `on`.
    pub fn is_on(&self, name: &str) -> Result<bool, Problem> {
        match self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str()) {
            Some("" | "1" | "true" | "on") => Ok(true),
            None | Some("0" | "false" | "off") => Ok(false),
            Some(other) => Err(Problem::bad_request(format!("{name}: expected 1 or 0, found {other:?}"))),
        }
    }

    /// Refuses parameters that nothing reads, and several of which one is read.
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
        // A search has several trees, everything else is in one.
        let is_list = |name: &str| LISTS.contains(&name) || (name == "tree" && known.contains(&"q"));
        let Some((name, _)) = self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            let mut names = self.0.iter().enumerate().map(|(at, (name, _))| (at, name.as_str()));
            let twice = names
                .find(|(at, name)| !is_list(name) && self.0[..*at].iter().any(|(other, _)| other == name));
            return twice.map_or(Ok(()), |(_, name)| {
                Err(Problem::bad_request(format!("{name}: given more than once; expected one value")))
            });
        };
        let name: String = name.chars().take(40).collect();
        let near = nearest(&name, known.iter().copied(), 1);
        let hint = near.first().map_or_else(|| known.join(", "), |near| (*near).to_owned());
        Err(Problem::bad_request(format!("there is no parameter {name:?}; did you mean {hint}?")))
    }

    /// With one value of a parameter, in place of all others of that name.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.without(name);
        changed.0.push((name.to_owned(), value.to_owned()));
        changed
    }

    /// With a value beside others of that name, or without it if it is there.
    pub fn toggled(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        if self.has(name, value) {
            changed.0.retain(|(known, found)| known != name || found != value);
        } else {
            changed.0.push((name.to_owned(), value.to_owned()));
        }
        changed
    }

    pub fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(known, _)| known != name).cloned().collect())
    }

    /// All with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A link to `path` with these parameters.
    pub fn link(&self, path: &str) -> String {
        if self.0.is_empty() {
            return path.to_owned();
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(self.pairs()).finish();
        format!("{path}?{query}")
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
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
    fn what_is_wrong_is_said() {
        let params = Params::parse("limt=3&explain=maybe").unwrap();
        assert!(params.only(&["q", "limit"]).unwrap_err().detail.contains("did you mean limit?"));
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
