//! Masks secrets and personal data. The rules are data: `mask.toml`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    #[serde(default)]
    hint: String,
    #[serde(deserialize_with = "regex")]
    pattern: Regex,
    replacement: String,
}

fn regex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| parse(RULES_TEXT).unwrap_or_default());

/// The text of the rules, which is part of the versions of masked texts.
pub(crate) const RULES_TEXT: &str = include_str!("mask.toml");

fn parse(text: &str) -> Result<Vec<Rule>, toml::de::Error> {
    Ok(toml::from_str::<RuleFile>(text)?.rule)
}

/// A text with secrets and personal data masked; their numbers are added to `counts` by the names of rules.
pub(crate) fn masked<'t>(text: &'t str, counts: &mut BTreeMap<String, u64>) -> Cow<'t, str> {
    let lower = text.to_lowercase();
    let mut masked = Cow::Borrowed(text);
    for rule in RULES.iter().filter(|rule| lower.contains(&rule.hint)) {
        let n_found = rule.pattern.find_iter(&masked).count() as u64;
        if n_found > 0 {
            *counts.entry(rule.name.clone()).or_default() += n_found;
            masked = Cow::Owned(rule.pattern.replace_all(&masked, &rule.replacement).into_owned());
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, rules: &[&str]) {
        let mut counts = BTreeMap::new();
        assert_eq!(masked(text, &mut counts), expected);
        assert_eq!(counts.keys().collect::<Vec<_>>(), rules, "{text}");
    }

    #[test]
    fn secrets_and_personal_data_are_masked() {
        assert!(parse(RULES_TEXT).unwrap().len() >= 10);
        check("ask jane.doe+x@mail.example.org now", "ask <EMAIL> now", &["e-mail address"]);
        check("git@host", "git@host", &[]);
        check("@app.route('/x')\na @ b.T", "@app.route('/x')\na @ b.T", &[]);
        let key = "A".repeat(16);
        check(&format!("k = 'AKIA{key}'"), "k = '<SECRET>'", &["access key of AWS"]);
        let token = "a1".repeat(18);
        check(&format!("ghp_{token}"), "<SECRET>", &["token of GitHub"]);
        check(&format!("ghost_{token}"), &format!("ghost_{token}"), &[]);
        check(&format!("xoxb-{token}"), "<SECRET>", &["token of Slack"]);
        check(&format!("AIza{}", "b".repeat(35)), "<SECRET>", &["key of Google"]);
        check(
            &format!("sk_live_{token} sk-{token}"),
            "<SECRET> <SECRET>",
            &["key of a payment or model provider"],
        );
        check("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", "<SECRET>", &["JSON web token"]);
        check(
            "postgres://user:hunter22@db/x and http://host:80/@a",
            "postgres://<SECRET>@db/x and http://host:80/@a",
            &["credentials in an address"],
        );
        let block = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----";
        check(&format!("x = '''{block}'''"), "x = '''<PRIVATE-KEY>'''", &["private key"]);
        check(
            "DB_PASSWORD = \"hunter2hunter2\"\napi_key: 'abcdefgh1'\npassword = 'short'\npassword = get('abcdefghij')",
            "DB_PASSWORD = \"<SECRET>\"\napi_key: '<SECRET>'\npassword = 'short'\npassword = get('abcdefghij')",
            &["secret that is assigned"],
        );
    }
}
