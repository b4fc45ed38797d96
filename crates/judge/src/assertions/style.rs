//! The form of reports, by language.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Form in which programs of a language report their assertions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReportStyle {
    /// Calls that return only if the assertion holds; `*` matches anything.
    pub(super) calls: Vec<String>,
    /// The `calls` that check whether their first argument is true.
    pub(super) truths: Vec<String>,
    /// True if any value can be a condition, even one that is never false.
    pub(super) any_value: bool,
    /// Calls that check whether their first argument is true.
    pub(super) conditions: Vec<String>,
    /// Calls that check whether each of their arguments is true.
    pub(super) all_conditions: Vec<String>,
    /// Conditions of branches that are not assertions.
    pub(super) not: Vec<String>,
    pub(super) reporter: String,
    /// Its file name in the work directory; if empty, the reporter is appended to the program.
    pub(super) file: String,
    /// Prefix of its functions' names; `{q}` is the random name.
    pub(super) prefix: String,
    /// True if the reported expression is wrapped in brackets of its own, because it may not be valid as an
    /// argument without them.
    pub(super) brackets: bool,
    /// The text that files of the language begin with.
    pub(super) opening: String,
    /// Code inserted at the beginning of the function `main`.
    pub(super) begin: String,
    /// Arguments of the interpreter, inserted before the existing ones.
    pub(super) options: Vec<String>,
    pub(super) arguments: Vec<String>,
    /// Environment variables, prepended to the values of those that are already set, so that no package comes
    /// first.
    pub(super) environment: BTreeMap<String, String>,
    /// Words that indicate assertions that the analysis does not cover.
    pub(super) elsewhere: Vec<String>,
    /// Texts that appear in the output, along with the random name, if the program could not be parsed.
    pub(super) unread: Vec<String>,
}

impl ReportStyle {
    /// Returns whether the reporter handles calls. In languages whose libraries have no assertions, it only handles
    /// conditions.
    pub(super) fn reports_calls(&self) -> bool {
        !(self.calls.is_empty() && self.conditions.is_empty())
    }
}
