//! Classification of the calls of a function: functions of its own project, of other packages, or neither
//! (Query4Code, 2024, following its code).

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

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
    /// Unknown.
    Unknown,
}

/// The rules for a language.
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
    functions: HashSet<String>,
    directories: HashSet<String>,
}

impl Project {
    /// Adds a function.
    pub fn add(&mut self, record: &CodeRecord) {
        self.functions.insert(base_name(&record.name).to_owned());
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
#[must_use]
pub fn classify(call: &str, record: &CodeRecord, project: &Project) -> CallKind {
    let rules = RULES.get(&record.language).unwrap_or(&NO_RULES);
    let (head, own) = (head(call), base_name(call));
    let is_dotted = parts(call).nth(1).is_some();
    let import = record.imports.get(head);
    if (rules.builtins.contains(own) || rules.system.contains(own)) && (!is_dotted || import.is_none()) {
        return CallKind::Ignored;
    }
    let is_local = record.locals.iter().any(|local| local == head);
    let is_builtin_method = is_dotted && is_local && rules.methods.contains(own);
    if !is_builtin_method && project.functions.contains(own) {
        return CallKind::Project(own.to_owned());
    }
    let Some(import) = import else { return CallKind::Unknown };
    let is_relative = import.starts_with('.');
    let is_own = project.directories.contains(self::head(import));
    if call.chars().count() < 3 || rules.self_names.contains(head) || is_relative || is_own {
        return CallKind::Unknown;
    }
    CallKind::ThirdParty(format!("{import}{}", &call[head.len()..]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quarry_source::{SourceText, language_named};

    use super::*;
    use crate::function::{Origin, extract_records};

    /// The calls of the last function of `source`, in a project that also has `others`, with their targets.
    fn calls(source: &str, others: &[(&str, &str)]) -> Vec<(String, CallKind)> {
        let records = |path: &str, text: &str| {
            let origin = Origin { source: "s".into(), path: path.into(), ..Origin::default() };
            let text = SourceText::read(Path::new(path), text.as_bytes().to_vec()).unwrap();
            extract_records(&origin, language_named("python").unwrap(), &text)
        };
        let mut project = Project::default();
        others.iter().flat_map(|(path, text)| records(path, text)).for_each(|record| project.add(&record));
        let own = records("app/main.py", source);
        own.iter().for_each(|record| project.add(record));
        let last = own.last().unwrap();
        last.calls.iter().map(|call| (call.clone(), classify(call, last, &project))).collect()
    }

    #[track_caller]
    fn check(source: &str, expected: &[(&str, CallKind)]) {
        let others = [(
            "app/tools.py",
            "def resize(x): return x\ndef load(x): return x\nclass Store:\n    def get(self, key): return key\n",
        )];
        let expected: Vec<(String, CallKind)> =
            expected.iter().map(|(call, kind)| ((*call).to_owned(), kind.clone())).collect();
        assert_eq!(calls(source, &others), expected, "{source}");
    }

    fn project(name: &str) -> CallKind {
        CallKind::Project(name.to_owned())
    }

    fn third_party(name: &str) -> CallKind {
        CallKind::ThirdParty(name.to_owned())
    }

    #[test]
    fn builtins_and_callables_of_the_system_are_ignored_bare_or_behind_what_is_not_imported() {
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
    fn the_rules_are_whole() {
        let python = &RULES["python"];
        assert!(python.builtins.contains("print") && python.system.contains("getcwd"));
        assert!(python.methods.contains("setdefault") && python.self_names.contains("self"));
    }
}
