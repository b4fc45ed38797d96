//! The call graph of all sources: the functions that a function calls, including those of other packages (Query4Code,
//! 2024).

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use quarry_source::{functions, language_named};
use serde::{Deserialize, Serialize};
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::queries::order::{Calls, order};
use crate::record::CodeRecord;
use crate::sources::calls::{CallKind, CallRules, Project, RULES_TEXT, base_name, classify, ends_like_own};
use crate::step::{self, Key, Step, directory_of};

/// Incremented when the same records lead to another graph.
const VERSION: u32 = 2;

/// Functions with their callees, callees first.
pub(crate) const GRAPH: &str = "graph.jsonl";
/// Functions of other packages, with the number of calls.
pub(crate) const APIS: &str = "apis.jsonl";
/// Calls that were removed to break cycles.
const REMOVED: &str = "removed.jsonl";
const STATISTICS: &str = "statistics.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// Index of its source, and byte offset of its record there.
    pub(crate) place: (usize, u64),
    /// 0 if it calls no function of its project.
    pub(crate) level: u32,
    /// Ids of the functions that it calls, without removed calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) callees: Vec<String>,
    /// Functions of other packages that it calls, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) apis: Vec<String>,
    /// Total number of calls of functions of its project.
    pub(crate) project_calls: u64,
    /// Total number of calls of functions of other packages.
    pub(crate) third_party_calls: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Api {
    /// Its name, with the full path of its module.
    pub name: String,
    pub language: String,
    /// Number of calls of it in all sources: its popularity.
    pub calls: u64,
}

/// The functions of other packages with calls in the last build in a directory, by popularity.
///
/// # Errors
/// When nothing was built there, or the build has no call graph.
pub fn apis_of_build(root: &Path) -> Result<Vec<Api>, BuildError> {
    let steps = step::last_build(root)?;
    let Some(step) = steps.iter().find(|step| step.name == "calls") else {
        let problem =
            "expected a build with queries of `kind = \"written\"`, found none; add some, and build";
        return Err(BuildError::step("calls", problem));
    };
    let mut apis: Vec<Api> = jsonl::read_all(&directory_of(root, &step.key()).join(APIS))?;
    apis.sort_by(|a, b| a.calls.cmp(&b.calls).reverse().then_with(|| a.name.cmp(&b.name)));
    Ok(apis)
}

/// Statistics of the calls of all functions, for comparison with the published numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statistics {
    pub(crate) functions: u64,
    pub(crate) skipped: u64,
    pub(crate) ignored_calls: u64,
    pub(crate) unknown_calls: u64,
    pub(crate) project: CallStatistics,
    pub(crate) third_party: CallStatistics,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallStatistics {
    pub(crate) calls: u64,
    pub(crate) maximum: u64,
    pub(crate) functions: u64,
}

impl CallStatistics {
    fn add(&mut self, calls: u64) {
        self.calls += calls;
        self.maximum = self.maximum.max(calls);
        self.functions += u64::from(calls > 0);
    }
}

pub(crate) fn step(seed: u64, by: CallRules, sources: &[&Key]) -> Step {
    Step::new("calls", VERSION, &(seed, by, quarry_files::sha256(RULES_TEXT)), sources)
}

/// Returns whether Query4Code skips a function: in tests, in a nested class, with a special name of Python, or without
/// a body.
fn is_skipped(record: &CodeRecord) -> bool {
    if record.language != "python" {
        return false;
    }
    let own = base_name(&record.name);
    if record.path.to_lowercase().contains("test")
        || record.name.matches('.').count() > 1
        || own.starts_with("__") && own.ends_with("__")
        || record.code.split_whitespace().nth(1).is_none()
    {
        return true;
    }
    if !record.code.contains("pass") && !record.code.contains("raise") {
        return false;
    }
    let Some(language) = language_named(&record.language) else { return false };
    functions(language, record.code.as_bytes()).first().is_some_and(|function| {
        let body = record.code.get(function.body.clone()).unwrap_or_default();
        ["pass", "raise"].iter().any(|word| {
            let rest = body.strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        })
    })
}

/// A function during construction of the graph.
struct Function {
    id: String,
    place: (usize, u64),
    path: String,
    /// The qualification of its name.
    scope: String,
    apis: Vec<String>,
    project_calls: u64,
    third_party_calls: u64,
}

/// The functions of a project by their unqualified names.
#[derive(Default)]
struct Names {
    project: Project,
    by_name: HashMap<String, Vec<u32>>,
}

/// Writes the graph of all functions of the sources. All files of a repository are one project, even from different
/// sources.
pub(crate) fn write(
    seed: u64,
    by: CallRules,
    sources: &[PathBuf],
    step: &Path,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut statistics = Statistics::default();
    let mut functions: Vec<Function> = Vec::new();
    let mut projects: HashMap<String, Names> = HashMap::new();
    let mut places: HashMap<String, u32> = HashMap::new();
    for (source, path) in sources.iter().enumerate() {
        jsonl::for_each(path, &mut |record: CodeRecord, at| {
            let number = u32::try_from(functions.len()).unwrap_or(u32::MAX);
            if is_skipped(&record) || places.contains_key(&record.id) {
                statistics.skipped += 1;
                return Ok(());
            }
            let names = projects.entry(record.repository.clone()).or_default();
            names.project.add(&record);
            names.by_name.entry(base_name(&record.name).to_owned()).or_default().push(number);
            places.insert(record.id.clone(), number);
            functions.push(Function {
                scope: scope_of(&record.name).to_owned(),
                id: record.id,
                place: (source, at),
                path: record.path,
                apis: Vec::new(),
                project_calls: 0,
                third_party_calls: 0,
            });
            Ok(())
        })?;
    }
    let mut calls: Calls = vec![Vec::new(); functions.len()];
    let mut apis: BTreeMap<(String, String), u64> = BTreeMap::new();
    for path in sources {
        jsonl::for_each(path, &mut |record: CodeRecord, _| {
            let (Some(&number), Some(names)) = (places.get(&record.id), projects.get(&record.repository))
            else {
                return Ok(());
            };
            for call in &record.calls {
                match classify(call, &record, &names.project, by) {
                    CallKind::Ignored => statistics.ignored_calls += 1,
                    CallKind::Unknown => statistics.unknown_calls += 1,
                    CallKind::Project(name) => {
                        let mut candidates = names.by_name.get(&name).cloned().unwrap_or_default();
                        if by == CallRules::Paper && ends_like_own(call, &record) {
                            candidates.retain(|candidate| *candidate != number);
                        }
                        calls[number as usize].extend(nearest(number, &candidates, &functions));
                        functions[number as usize].project_calls += 1;
                    }
                    CallKind::ThirdParty(name) => {
                        let function = &mut functions[number as usize];
                        function.third_party_calls += 1;
                        if !function.apis.contains(&name) {
                            function.apis.push(name.clone());
                        }
                        *apis.entry((name, record.language.clone())).or_default() += 1;
                    }
                }
            }
            Ok(())
        })?;
    }
    let draw = |caller: u32, callee: u32| {
        let [caller, callee] = [caller, callee].map(|number| &functions[number as usize].id);
        xxh3_64_with_seed(format!("{caller} {callee}").as_bytes(), seed)
    };
    let order = order(&mut calls, &draw);
    let mut writer = Writer::create(&step.join(REMOVED))?;
    for &(caller, callee) in &order.removed {
        let [caller, callee] = [caller, callee].map(|number| &functions[number as usize].id);
        writer.write(&json!({"caller": caller, "callee": callee}))?;
    }
    writer.finish()?;
    let mut by_level: Vec<u32> = (0..).take(functions.len()).collect();
    by_level.sort_by_key(|number| order.levels[*number as usize]);
    let mut writer = Writer::create(&step.join(GRAPH))?;
    for &number in &by_level {
        let function = &functions[number as usize];
        statistics.project.add(function.project_calls);
        statistics.third_party.add(function.third_party_calls);
        writer.write(&Node {
            id: function.id.clone(),
            place: function.place,
            level: order.levels[number as usize],
            callees: calls[number as usize]
                .iter()
                .map(|callee| functions[*callee as usize].id.clone())
                .collect(),
            apis: function.apis.clone(),
            project_calls: function.project_calls,
            third_party_calls: function.third_party_calls,
        })?;
    }
    writer.finish()?;
    let mut writer = Writer::create(&step.join(APIS))?;
    let n_apis = apis.len();
    for ((name, language), calls) in apis {
        writer.write(&Api { name, language, calls })?;
    }
    writer.finish()?;
    statistics.functions = functions.len() as u64;
    jsonl::write_json(&step.join(STATISTICS), &statistics)?;
    let n_levels = order.levels.iter().max().map_or(0, |level| u64::from(*level) + 1);
    Ok([
        ("functions", statistics.functions),
        ("functions that Query4Code skips", statistics.skipped),
        ("levels", n_levels),
        ("calls in the project", statistics.project.calls),
        ("calls of other packages", statistics.third_party.calls),
        ("calls removed from cycles", order.removed.len() as u64),
        ("functions of other packages", n_apis as u64),
    ]
    .map(|(name, count)| (name.to_owned(), count))
    .into())
}

pub(crate) fn statistics(step: &Path) -> Result<Statistics, BuildError> {
    jsonl::read_json(&step.join(STATISTICS))
}

fn scope_of(name: &str) -> &str {
    name.rfind(['.', ':']).map_or("", |end| &name[..end])
}

/// Of several functions with the same name, the one nearest to a caller: in its class, in its file, in its directory,
/// or the first of its project. The published code does not specify which one is meant.
fn nearest(caller: u32, candidates: &[u32], functions: &[Function]) -> Option<u32> {
    let caller = &functions[caller as usize];
    let directory = |path: &str| path.rfind('/').map_or(String::new(), |end| path[..end].to_owned());
    let distance = |candidate: &Function| {
        if candidate.path == caller.path {
            return u8::from(candidate.scope != caller.scope);
        }
        2 + u8::from(directory(&candidate.path) != directory(&caller.path))
    };
    candidates.iter().copied().min_by_key(|candidate| (distance(&functions[*candidate as usize]), *candidate))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quarry_source::SourceText;

    use super::*;
    use crate::sources::function::{Origin, extract_records};

    fn records(repository: &str, path: &str, text: &str) -> Vec<CodeRecord> {
        let origin = Origin {
            source: repository.into(),
            repository: repository.into(),
            path: path.into(),
            ..Origin::default()
        };
        let text = SourceText::read(Path::new(path), text.as_bytes().to_vec()).unwrap();
        extract_records(&origin, language_named("python").unwrap(), &text)
    }

    #[test]
    fn functions_that_query4code_skips() {
        let text = "class A:\n    class B:\n        def inner(self): return 1\n    def __len__(self): return 1\n    \
                    def todo(self): pass\n    def abstract(self):\n        \"\"\"Doc.\"\"\"\n        raise NotImplementedError\n    \
                    def real(self):\n        passed = 1\n        return passed\n";
        let kept: Vec<String> = records("r", "a.py", text)
            .into_iter()
            .filter(|record| !is_skipped(record))
            .map(|record| record.name)
            .collect();
        assert_eq!(kept, ["A.real"]);
        // Decorated functions are kept, and functions within functions belong to these.
        let text = "@cached\ndef top(x):\n    def inner(y): return y\n    return inner(x)\nclass A:\n    @staticmethod\n    \
                    def method(x): return x\n";
        let found = records("r", "a.py", text);
        let kept: Vec<&str> =
            found.iter().filter(|record| !is_skipped(record)).map(|record| &*record.name).collect();
        assert_eq!(kept, ["top", "A.method"]);
        let of_one_token = CodeRecord { code: " x ".to_owned(), ..found[0].clone() };
        assert!(is_skipped(&of_one_token));
        assert!(records("r", "my_Tests/a.py", text).iter().all(is_skipped));
    }

    #[test]
    fn calls_lead_to_the_nearest_function_of_the_project() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records.jsonl");
        let mut all = records(
            "one",
            "app/main.py",
            "import numpy as np\nclass A:\n    def load(self): return np.array(1)\n    def run(self): return self.load()\n\
             def load(x): return np.array(np.array(x))\ndef go(x): return load(step(x))\n",
        );
        all.extend(records("one", "app/tools.py", "from main import go\ndef step(x): return go(x)\n"));
        all.extend(records("two", "b.py", "def far(x): return load(x)\n"));
        let mut writer = Writer::create(&path).unwrap();
        all.iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        let counts = write(42, CallRules::Released, &[path], &out).unwrap();
        let name = |id: &str| all.iter().find(|record| record.id == id).unwrap().name.clone();
        let nodes: Vec<Node> = jsonl::read_all(&out.join(GRAPH)).unwrap();
        let called: BTreeMap<String, Vec<String>> = nodes
            .iter()
            .map(|node| (name(&node.id), node.callees.iter().map(|callee| name(callee)).collect()))
            .collect();
        assert_eq!(called["A.run"], ["A.load"]);
        assert!(called["go"].contains(&"load".to_owned()));
        // Another repository is another project.
        assert!(called["far"].is_empty());
        // `go` and `step` call each other: one of the calls is removed.
        assert_eq!(counts["calls removed from cycles"], 1);
        assert_eq!(called["go"].contains(&"step".to_owned()) as u8 + called["step"].len() as u8, 1);
        let apis: Vec<Api> = jsonl::read_all(&out.join(APIS)).unwrap();
        assert_eq!(apis, [Api { name: "numpy.array".into(), language: "python".into(), calls: 3 }]);
        let found = statistics(&out).unwrap();
        assert_eq!((found.project.calls, found.project.maximum, found.third_party.functions), (4, 2, 2));
    }
}
