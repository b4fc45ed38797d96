//! Classification of the calls of a function: functions of its own project, of other packages, or neither
//! (Query4Code, 2024, following its code).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::record::CodeRecord;

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallKind {
    /// A builtin of the language.
    Ignored,
    /// A function of the project with this unqualified name.
    Project(String),
    /// A function of another package, with the full path of the import.
    ThirdParty(String),
    Unknown,
}

/// Rules for calls of the project, by the last part of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallRules {
    /// As in Query4Code's code: every call whose last part is the name of a function of the project.
    #[default]
    Released,
    /// As its paper speaks of calls: not a call of something that is imported from elsewhere, and not one that only ends
    /// like the name of the function around it (`np.linalg.norm` in `norm`, `self.d.get` in `Store.get`).
    Paper,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LanguageRules {
    /// Names of the object that a method belongs to, such as `self`.
    self_names: HashSet<String>,
    builtins: HashSet<String>,
    system: HashSet<String>,
    methods: HashSet<String>,
}

/// The text of the rules, which is part of the versions of steps that use calls.
pub(crate) const RULES_TEXT: &str = include_str!("calls.toml");

static RULES: LazyLock<BTreeMap<String, LanguageRules>> =
    LazyLock::new(|| toml::from_str(RULES_TEXT).unwrap_or_default());
static NO_RULES: LazyLock<LanguageRules> = LazyLock::new(LanguageRules::default);

/// The names by which a project refers to its own functions and modules.
#[derive(Debug, Default)]
pub struct Project {
    /// Numbers of functions by their unqualified names.
    functions: HashMap<String, u32>,
    directories: HashSet<String>,
}

impl Project {
    pub fn add(&mut self, record: &CodeRecord) {
        *self.functions.entry(base_name(&record.name).to_owned()).or_default() += 1;
        let mut directories: Vec<&str> = record.path.split('/').collect();
        directories.pop();
        for directory in directories {
            if !self.directories.contains(directory) {
                self.directories.insert(directory.to_owned());
            }
        }
    }
}

/// The last part of a qualified name.
pub(crate) fn base_name(name: &str) -> &str {
    parts(name).last().unwrap_or_default()
}

/// The parts of a qualified name, with any separator. Anything that is not a name, such as `f(x)`, is one part.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(['.', ':', '>', '?', '!'])
        .map(|part| part.trim_end_matches('-'))
        .filter(|part| !part.is_empty())
}

/// The part of a name that may be an import or a variable.
pub(crate) fn head(name: &str) -> &str {
    parts(name).next().unwrap_or_default()
}

/// The target of a call in a function, following the order of Query4Code's code:
///
/// 1. builtins and functions of `os` and `sys` are ignored, whether called by their own name or on something that is
///    not imported;
/// 2. a method of a builtin type, called on a variable or parameter, is not looked for in the project;
/// 3. a call belongs to the project if one of its functions has the last part of the name;
/// 4. otherwise it belongs to another package, if the name has three characters or more, does not begin with the
///    object itself but with an import, and the import is neither relative nor rooted in a directory of the project.
///
/// By the rules of the paper 4 goes before 3, and a call that only ends like the function around it is of the project if
/// another of its functions has that name.
pub fn classify(call: &str, record: &CodeRecord, project: &Project, by: CallRules) -> CallKind {
    let rules = RULES.get(&record.language).unwrap_or(&NO_RULES);
    let (head, own) = (head(call), base_name(call));
    let is_dotted = parts(call).nth(1).is_some();
    let import = record.imports.get(head);
    if (rules.builtins.contains(own) || rules.system.contains(own)) && (!is_dotted || import.is_none()) {
        return CallKind::Ignored;
    }
    let is_local = record.locals.iter().any(|local| local == head);
    let is_builtin_method = is_dotted && is_local && rules.methods.contains(own);
    let third_party = || {
        let import = import?;
        let is_relative = import.starts_with('.');
        let is_own = project.directories.contains(self::head(import));
        let is_named = call.chars().count() >= 3 && !rules.self_names.contains(head);
        (is_named && !is_relative && !is_own).then(|| format!("{import}{}", &call[head.len()..]))
    };
    if by == CallRules::Paper
        && let Some(name) = third_party()
    {
        return CallKind::ThirdParty(name);
    }
    let n_others = match by == CallRules::Paper && ends_like_own(call, record) {
        true => 1,
        false => 0,
    };
    if !is_builtin_method && project.functions.get(own).is_some_and(|n| *n > n_others) {
        return CallKind::Project(own.to_owned());
    }
    third_party().map_or(CallKind::Unknown, CallKind::ThirdParty)
}

/// Returns whether a call has the last part of the name of the function that it is in, and is not written as a call of
/// it: by its bare name, or for a method as that of its own object or class.
pub(crate) fn ends_like_own(call: &str, record: &CodeRecord) -> bool {
    if base_name(call) != base_name(&record.name) {
        return false;
    }
    let self_names = RULES.get(&record.language).map(|rules| &rules.self_names);
    let mut scope = parts(&record.name).collect::<Vec<_>>();
    scope.pop();
    let is_own = match (parts(call).collect::<Vec<_>>().as_slice(), scope.last()) {
        ([_], None) => true,
        ([object, _], Some(class)) => {
            object == class || self_names.is_some_and(|names| names.contains(*object))
        }
        _ => false,
    };
    !is_own
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quarry_source::{SourceText, language_named};

    use super::*;
    use crate::sources::function::{Origin, extract_records};

    #[track_caller]
    fn check(source: &str, expected: &[(&str, CallKind)]) {
        check_by(CallRules::Released, source, expected);
    }

    /// Checks the calls of the last function of `source`, in a project that also has some tools, with their targets.
    #[track_caller]
    fn check_by(by: CallRules, source: &str, expected: &[(&str, CallKind)]) {
        let records = |path: &str, text: &str| {
            let origin = Origin { source: "s".into(), path: path.into(), ..Origin::default() };
            let text = SourceText::read(Path::new(path), text.as_bytes().to_vec()).unwrap();
            extract_records(&origin, language_named("python").unwrap(), &text)
        };
        let tools = "def resize(x): return x\ndef load(x): return x\nclass Store:\n    def get(self, key): return key\n";
        let own = records("app/main.py", source);
        let mut project = Project::default();
        records("app/tools.py", tools).iter().chain(&own).for_each(|record| project.add(record));
        let last = own.last().unwrap();
        let found: Vec<(&str, CallKind)> =
            last.calls.iter().map(|call| (call.as_str(), classify(call, last, &project, by))).collect();
        assert_eq!(found, expected, "{source}");
    }

    fn project(name: &str) -> CallKind {
        CallKind::Project(name.to_owned())
    }

    fn third_party(name: &str) -> CallKind {
        CallKind::ThirdParty(name.to_owned())
    }

    #[test]
    fn builtins_are_ignored_bare_or_on_unimported_receivers() {
        check(
            "import os\ndef f(a):\n    print(len(a))\n    getcwd()\n    a.exit()\n    unknown.open(a)\n    os.listdir(a)\n",
            &[
                ("print", CallKind::Ignored),
                ("len", CallKind::Ignored),
                ("getcwd", CallKind::Ignored),
                ("a.exit", CallKind::Ignored),
                ("unknown.open", CallKind::Ignored),
                // `os` is imported here: it counts as another package.
                ("os.listdir", third_party("os.listdir")),
            ],
        );
    }

    #[test]
    fn methods_of_builtin_types_on_variables_are_not_of_the_project() {
        check(
            "def f(a, store):\n    b = {}\n    b.get(1)\n    a.get(2)\n    self.get(3)\n    get(4)\n    store.load(5)\n",
            &[
                ("b.get", CallKind::Unknown),
                ("a.get", CallKind::Unknown),
                ("self.get", project("get")),
                ("get", project("get")),
                // Not a method of a builtin type.
                ("store.load", project("load")),
            ],
        );
    }

    #[test]
    fn the_last_part_of_a_name_decides_whether_a_call_is_of_the_project() {
        check(
            "import numpy as np\nfrom app.tools import load\nimport cv2\ndef f(a):\n    load(a)\n    cv2.resize(a)\n    np.array(a)\n    tools.inner.resize(a)\n",
            &[
                ("load", project("load")),
                // The project has a function with this name, which takes precedence.
                ("cv2.resize", project("resize")),
                ("np.array", third_party("numpy.array")),
                ("tools.inner.resize", project("resize")),
            ],
        );
    }

    #[test]
    fn other_packages_need_an_import_that_is_not_of_the_project() {
        check(
            "import numpy as np\nfrom scipy.stats import ttest_ind as tt, norm\nfrom . import near\nfrom app import other\n\
             import app.deep\nimport xml.dom.minidom\nimport q\nfrom re import *\n\
             def f(self, a):\n    tt(a, a)\n    norm.pdf(a)\n    near.go(a)\n    other.go(a)\n    app.deep.go(a)\n    \
             xml.dom.minidom.parseString(a)\n    self.go(a)\n    missing.go(a)\n    np.linalg.norm(a)\n    q.f()\n",
            &[
                // Written with two characters.
                ("tt", CallKind::Unknown),
                ("norm.pdf", third_party("scipy.stats.norm.pdf")),
                ("near.go", CallKind::Unknown),
                ("other.go", CallKind::Unknown),
                ("app.deep.go", CallKind::Unknown),
                ("xml.dom.minidom.parseString", third_party("xml.dom.minidom.parseString")),
                ("self.go", CallKind::Unknown),
                ("missing.go", CallKind::Unknown),
                ("np.linalg.norm", third_party("numpy.linalg.norm")),
                // Its last part is the name of the function itself.
                ("q.f", project("f")),
            ],
        );
    }

    #[test]
    fn a_call_with_the_last_part_of_its_functions_name_is_not_recursive_by_the_paper() {
        let norm = "import numpy as np\nimport cv2\ndef norm(a):\n    np.linalg.norm(a)\n    norm(a)\n    cv2.resize(a)\n    a.norm()\n";
        check(
            norm,
            &[
                ("np.linalg.norm", project("norm")),
                ("norm", project("norm")),
                ("cv2.resize", project("resize")),
                ("a.norm", project("norm")),
            ],
        );
        check_by(
            CallRules::Paper,
            norm,
            &[
                ("np.linalg.norm", third_party("numpy.linalg.norm")),
                ("norm", project("norm")),
                ("cv2.resize", third_party("cv2.resize")),
                ("a.norm", CallKind::Unknown),
            ],
        );
        let method = "class Cache:\n    def put(self, key):\n        self.d.put(key)\n        self.put(key)\n        put(key)\n";
        check(
            method,
            &[("self.d.put", project("put")), ("self.put", project("put")), ("put", project("put"))],
        );
        check_by(
            CallRules::Paper,
            method,
            &[
                ("self.d.put", CallKind::Unknown),
                ("self.put", project("put")),
                // Not a method, and no other function has the name.
                ("put", CallKind::Unknown),
            ],
        );
    }

    #[test]
    fn the_rules_are_whole() {
        let python = &RULES["python"];
        assert!(python.builtins.contains("print") && python.system.contains("getcwd"));
        assert!(python.methods.contains("setdefault") && python.self_names.contains("self"));
    }
}
