//! The tools: their names, arguments and schemas.
//!
//! A tool's schema is derived from the struct that its arguments are read into. It is then made as plain as validators
//! of agents want it: objects of strings, integers and lists, without references, unions or formats.

use std::ops::RangeInclusive;

use quarry_source::UnitKind;
use quarry_text::nearest;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::ToolError;

/// JSON object.
pub type Object = Map<String, Value>;

/// Minimum and maximum number of results that can be asked for.
const RESULTS: RangeInclusive<usize> = 1..=50;
/// Minimum and maximum number of tokens that an answer can be allowed.
const TOKENS: RangeInclusive<usize> = 200..=20_000;
/// Arguments that an error suggests.
const N_SUGGESTIONS: usize = 3;
/// Bytes of all arguments of a call, names included: a pasted text of 64 KiB and what belongs to it.
const MAX_ARGUMENT_BYTES: usize = 70_000;
/// Other names that arguments have; the command line and HTTP take both too.
const ALIASES: [(&str, &str); 1] = [("limit", "k")];
/// Other names under which agents try the arguments, as other tools have them.
const OTHER_NAMES: [(&str, &[&str]); 8] = [
    ("k", &["n", "count", "num_results", "n_results", "max_results", "top_k", "top", "results", "size"]),
    ("max_tokens", &["tokens", "token_limit", "budget", "max_length", "max_chars"]),
    ("query", &["q", "text", "question", "search", "prompt", "keywords", "description"]),
    ("path", &["file", "file_path", "filepath", "filename", "directory", "dir", "folder", "uri", "root"]),
    ("languages", &["lang", "langs", "language"]),
    ("globs", &["glob", "include", "includes", "exclude", "pattern", "patterns", "filter"]),
    ("kinds", &["kind", "type", "types", "symbol_kind"]),
    ("line", &["line_number", "lineno", "start_line", "row"]),
];

/// Lines are counted from 1.
const LINES: RangeInclusive<u32> = 1..=10_000_000;

/// A tool as a client sees it.
pub struct Tool {
    /// What a call names.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For the agent: what it is good for, and when to use it.
    pub description: &'static str,
    /// The schema of its arguments.
    pub schema: fn() -> Object,
}

/// All tools, in the order in which they are listed.
pub const TOOLS: [Tool; 6] = [
    Tool {
        name: "search",
        title: "Search code by meaning",
        description: "Finds functions, methods, types and document sections of this source tree by what they do \
            (\"retry with backoff\") or by a symbol's name (\"IndexDirectory.lock\"). Use it where you do not know which \
            words the code uses; for an exact string, grep is better. Answers with ranked results (path:first-last \
            line), signatures and the most relevant lines, and says so when nothing matches well. Read a result in \
            full with read_unit.",
        schema: schema::<Search>,
    },
    Tool {
        name: "similar",
        title: "Find similar code",
        description: "Finds code that does something like the function, method or type at a line of a file: other \
            implementations, duplicates, callers' siblings, examples to follow.",
        schema: schema::<Similar>,
    },
    Tool {
        name: "callers",
        title: "Find where something is called",
        description: "Lists the calls of a function, method or type, by its name or a line of it, with the calling \
            function and line: what a change would affect. Resolved by names, scopes and imports; where these leave \
            several definitions, it says so. Better than grep, which also finds other things of that name.",
        schema: schema::<Calls>,
    },
    Tool {
        name: "callees",
        title: "Find what something calls",
        description: "Lists what a function, method or type calls, by its name or a line of it, with the places that \
            define it; what nothing in the tree defines is listed as external.",
        schema: schema::<Calls>,
    },
    Tool {
        name: "read_unit",
        title: "Read one function, type or section",
        description: "Shows the whole source of one function, method, type or document section with line numbers, \
            named by a line in it or by its name. Give either line or name.",
        schema: schema::<ReadUnit>,
    },
    Tool {
        name: "index_status",
        title: "Show what is indexed",
        description: "Says which directory is searched, how many files and units its index holds, in which languages \
            (the values that search takes), how many files were left out and why, and whether it is up to date. \
            Builds nothing and answers at once; the other tools bring the index up to date first.",
        schema: schema::<IndexStatus>,
    },
];

/// A call of one of the tools, with valid arguments.
#[derive(Debug)]
pub enum Call {
    /// `search`
    Search(Search),
    /// `similar`
    Similar(Similar),
    /// `callers`
    Callers(Calls),
    /// `callees`
    Callees(Calls),
    /// `read_unit`
    ReadUnit(ReadUnit),
    /// `index_status`
    IndexStatus(IndexStatus),
}

/// Arguments of `search`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Search {
    /// What the code does, in a few plain English words, or the name of a symbol.
    #[schemars(length(min = 1))]
    pub query: String,
    /// Directory or file to search in, relative to the root; all of the root if left out.
    #[serde(default)]
    pub path: String,
    /// Languages to search in, by lower-case names such as rust, python, cpp, csharp, typescript, markdown; all if
    /// left out.
    #[serde(default)]
    pub languages: Vec<String>,
    /// Kinds of units to find; all if left out. A module is what lies between functions and types, a section is a
    /// part of a text document.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Files to search in, as globs in the syntax of .gitignore, such as src/**/*.ts; with a leading ! files to leave
    /// out.
    #[serde(default)]
    pub globs: Vec<String>,
    /// How long the answer may be.
    #[serde(flatten)]
    pub size: Size,
}

/// Arguments of `similar`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Similar {
    /// File, relative to the root.
    #[schemars(length(min = 1))]
    pub path: String,
    /// A line in the function, method or type, counted from 1.
    #[schemars(range(min = *LINES.start(), max = *LINES.end()))]
    pub line: u32,
    /// How long the answer may be.
    #[serde(flatten)]
    pub size: Size,
}

/// Arguments of `callers` and `callees`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Calls {
    /// Name of the function, method or type, such as open, or qualified: Index.open. Give either this, or path and line.
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// File that it is in, relative to the root.
    #[schemars(length(min = 1))]
    pub path: Option<String>,
    /// A line in it, counted from 1.
    #[schemars(range(min = *LINES.start(), max = *LINES.end()))]
    pub line: Option<u32>,
    /// How long the answer may be.
    #[serde(flatten)]
    pub size: Size,
}

impl Calls {
    fn check(&self) -> Result<(), ToolError> {
        match (&self.name, &self.path, &self.line) {
            (Some(name), None, None) if has_part(name) => {}
            (None, Some(_), Some(line)) => within("line", line, &LINES)?,
            _ => return Err(ToolError::NameOrPosition),
        }
        self.size.check()
    }
}

/// Whether a qualified name has a part.
fn has_part(name: &str) -> bool {
    name.contains(|c: char| !c.is_whitespace() && !matches!(c, '.' | ':' | '#' | '/'))
}

/// How long a list of results may be.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct Size {
    /// Maximum number of results.
    #[serde(default = "default_results")]
    #[schemars(range(min = *RESULTS.start(), max = *RESULTS.end()))]
    pub k: usize,
    /// Maximum length of the answer in tokens of about 4 bytes; results that do not fit are left out whole.
    #[serde(default = "default_tokens")]
    #[schemars(range(min = *TOKENS.start(), max = *TOKENS.end()))]
    pub max_tokens: usize,
}

/// Arguments of `read_unit`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ReadUnit {
    /// File, relative to the root.
    #[schemars(length(min = 1))]
    pub path: String,
    /// A line in the unit, counted from 1.
    #[schemars(range(min = *LINES.start(), max = *LINES.end()))]
    pub line: Option<u32>,
    /// Name of the unit as search shows it (Class.method), or its last part.
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Maximum length of the answer in tokens of about 4 bytes; lines that do not fit are left out.
    #[serde(default = "default_tokens")]
    #[schemars(range(min = *TOKENS.start(), max = *TOKENS.end()))]
    pub max_tokens: usize,
}

/// Arguments of `index_status`: none.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct IndexStatus {}

/// Kind of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "texts on variants would turn the schema's list of names into a union")]
pub enum Kind {
    Function,
    Method,
    Type,
    Module,
    Section,
}

impl From<Kind> for UnitKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Function => Self::Function,
            Kind::Method => Self::Method,
            Kind::Type => Self::Type,
            Kind::Module => Self::Module,
            Kind::Section => Self::Section,
        }
    }
}

fn default_results() -> usize {
    10
}

fn default_tokens() -> usize {
    2_000
}

impl Call {
    /// Reads and checks the arguments of the tool called `name`; none if there is no such tool. An argument that is
    /// null counts as left out, because some models write it so.
    pub fn new(name: &str, mut arguments: Object) -> Option<Result<Self, ToolError>> {
        arguments.retain(|_, value| !value.is_null());
        let n_bytes = n_bytes_of(&arguments);
        if n_bytes > MAX_ARGUMENT_BYTES && TOOLS.iter().any(|tool| tool.name == name) {
            return Some(Err(ToolError::TooLong { n_bytes, max_bytes: MAX_ARGUMENT_BYTES }));
        }
        Some(match name {
            "search" => read(arguments).and_then(|search: Search| {
                search.size.check()?;
                Ok(Self::Search(search))
            }),
            "similar" => read(arguments).and_then(|similar: Similar| {
                within("line", &similar.line, &LINES)?;
                similar.size.check()?;
                Ok(Self::Similar(similar))
            }),
            "callers" | "callees" => read(arguments).and_then(|calls: Calls| {
                calls.check()?;
                Ok(if name == "callers" { Self::Callers(calls) } else { Self::Callees(calls) })
            }),
            "read_unit" => read(arguments).and_then(|unit: ReadUnit| {
                if unit.line.is_some() == unit.name.is_some() {
                    return Err(ToolError::LineOrName);
                }
                unit.line.as_ref().map_or(Ok(()), |line| within("line", line, &LINES))?;
                within("max_tokens", &unit.max_tokens, &TOKENS)?;
                Ok(Self::ReadUnit(unit))
            }),
            "index_status" => read(arguments).map(Self::IndexStatus),
            _ => return None,
        })
    }

    /// Whether it is answered from an index, which may have to be built first.
    pub(crate) fn needs_index(&self) -> bool {
        !matches!(self, Self::ReadUnit(_) | Self::IndexStatus(_))
    }
}

impl Size {
    fn check(&self) -> Result<(), ToolError> {
        within("k", &self.k, &RESULTS)?;
        within("max_tokens", &self.max_tokens, &TOKENS)
    }
}

/// Reads arguments that the schema of `T` knows.
fn read<T: DeserializeOwned + JsonSchema>(mut arguments: Object) -> Result<T, ToolError> {
    let schema = schema::<T>();
    let known = || schema["properties"].as_object().into_iter().flat_map(Object::keys);
    for (alias, name) in ALIASES {
        if known().any(|known| known == name)
            && !arguments.contains_key(name)
            && let Some(value) = arguments.remove(alias)
        {
            arguments.insert(name.to_owned(), value);
        }
    }
    if let Some(unknown) = arguments.keys().find(|name| !known().any(|known| known == *name)) {
        let meant = OTHER_NAMES.iter().find(|(_, others)| others.contains(&unknown.to_lowercase().as_str()));
        let meant = meant.filter(|(meant, _)| known().any(|known| known == meant));
        let nearest = match meant {
            Some((meant, _)) => vec![(*meant).to_owned()],
            None => nearest(unknown, known().map(String::as_str), N_SUGGESTIONS),
        };
        return Err(ToolError::UnknownArgument { name: unknown.clone(), nearest });
    }
    serde_json::from_value(Value::Object(arguments)).map_err(ToolError::Arguments)
}

/// Bytes of the names and texts in arguments, however deep; an item that is not a text counts as one.
fn n_bytes_of(arguments: &Object) -> usize {
    fn of_value(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of_value).sum::<usize>() + items.len(),
            Value::Object(object) => n_bytes_of(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        }
    }
    arguments.iter().map(|(name, value)| name.len() + of_value(value)).sum()
}

fn within<T>(name: &'static str, value: &T, range: &RangeInclusive<T>) -> Result<(), ToolError>
where
    T: PartialOrd + ToString,
{
    if range.contains(value) {
        return Ok(());
    }
    Err(ToolError::Range {
        name,
        found: value.to_string(),
        minimum: range.start().to_string(),
        maximum: range.end().to_string(),
    })
}

/// The schema of `T`, without what validators of agents are known to refuse.
fn schema<T: JsonSchema>() -> Object {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.with_transform(simplify).into_generator().into_root_schema_for::<T>();
    // The tool's own description says it better.
    schema.remove("description");
    schema.remove("title");
    // An object without properties needs the key all the same.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Object::new()));
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    schema.ensure_object().clone()
}

/// Takes out formats such as `uint32`, which only schemars knows, and `null` beside another type: what is optional is
/// not listed as required, that is enough.
fn simplify(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    schemars::transform::transform_subschemas(&mut simplify, schema);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: Value) -> Result<Call, String> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        Call::new(name, arguments).unwrap().map_err(|error| error.report())
    }

    #[track_caller]
    fn check_refused(name: &str, arguments: Value, words: &str) {
        let error = call(name, arguments).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn schemas_are_plain() {
        fn check(schema: &Value, path: &str) {
            let Value::Object(keys) = schema else { return };
            for (key, value) in keys {
                let known = [
                    "type",
                    "properties",
                    "required",
                    "additionalProperties",
                    "description",
                    "default",
                    "items",
                    "enum",
                    "minimum",
                    "maximum",
                    "minLength",
                ];
                assert!(known.contains(&key.as_str()), "{path}: {key}");
                if key == "type" {
                    assert!(value.is_string(), "{path}: {value}");
                }
            }
            check(&keys.get("items").cloned().unwrap_or_default(), &format!("{path}.items"));
            if let Some(Value::Object(properties)) = keys.get("properties") {
                for (name, property) in properties {
                    assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
                    check(property, &format!("{path}.{name}"));
                }
            }
        }
        for tool in &TOOLS {
            let schema = Value::Object((tool.schema)());
            assert_eq!(schema["type"], "object", "{schema}");
            assert_eq!(schema["additionalProperties"], false, "{schema}");
            check(&schema, tool.name);
        }
    }

    #[test]
    fn the_schema_of_search_says_what_is_checked() {
        let schema = Value::Object(schema::<Search>());
        assert_eq!(schema["required"], json!(["query"]));
        let properties = &schema["properties"];
        assert_eq!(
            properties["kinds"]["items"],
            json!({"type": "string", "description": "Kind of a unit.", "enum": ["function", "method", "type", "module", "section"]})
        );
        let k = &properties["k"];
        assert_eq!((&k["type"], &k["default"]), (&json!("integer"), &json!(10)));
        assert_eq!((&k["minimum"], &k["maximum"]), (&json!(1), &json!(50)));
        assert_eq!(properties["query"]["minLength"], 1);
    }

    #[test]
    fn arguments_have_defaults_and_may_be_null() {
        let Ok(Call::Search(search)) = call("search", json!({"query": "x", "path": null, "kinds": ["type"]}))
        else {
            panic!("refused")
        };
        assert_eq!((search.size.k, search.size.max_tokens, search.path.as_str()), (10, 2_000, ""));
        assert_eq!(search.kinds, [Kind::Type]);
        assert!(call("index_status", json!({})).is_ok());
        assert!(call("read_unit", json!({"path": "a", "line": null, "name": "b"})).is_ok());
    }

    #[test]
    fn the_number_of_results_has_two_names() {
        for name in ["k", "limit"] {
            let Ok(Call::Search(search)) = call("search", json!({"query": "x", name: 3})) else {
                panic!("{name} is refused")
            };
            assert_eq!(search.size.k, 3);
        }
        assert!(call("callers", json!({"name": "x", "limit": 3})).is_ok());
    }

    #[test]
    fn what_is_too_long_is_refused_by_its_length() {
        let long = "word ".repeat(200_000);
        let words = "1000005 bytes of arguments, at most 70000 are accepted";
        check_refused("search", json!({"query": long}), words);
        check_refused("search", json!({"query": "x", "globs": [long]}), "at most 70000");
        check_refused("search", json!({"query": "x", long.clone(): 1}), "at most 70000");
        check_refused("search", json!({"query": "x", "kinds": vec!["type"; 20_000]}), "at most 70000");
        assert!(call("search", json!({"query": "word ".repeat(13_000)})).is_ok());
    }

    #[test]
    fn bad_arguments_are_named() {
        check_refused("search", json!({}), "missing field `query`");
        check_refused(
            "search",
            json!({"query": "x", "langages": []}),
            "no argument langages; nearest: languages",
        );
        check_refused("search", json!({"query": "x", "k": 0}), "k: expected 1 to 50, found 0");
        check_refused("search", json!({"query": "x", "k": "ten"}), "invalid type: string \"ten\"");
        check_refused("search", json!({"query": "x", "max_tokens": 1}), "expected 200 to 20000");
        check_refused(
            "search",
            json!({"query": "x", "kinds": ["class"]}),
            "expected one of `function`, `method`",
        );
        check_refused("similar", json!({"path": "a", "line": 0}), "line: expected 1 to");
        check_refused("read_unit", json!({"path": "a"}), "either line or name");
        check_refused("read_unit", json!({"path": "a", "line": 1, "name": "b"}), "either line or name");
        for wrong in [
            json!({}),
            json!({"path": "a"}),
            json!({"name": "a", "path": "a", "line": 1}),
            json!({"name": ""}),
            json!({"name": " ."}),
        ] {
            check_refused("callers", wrong, "either name, or path and line");
        }
        check_refused("callees", json!({"path": "a", "line": 0}), "line: expected 1 to");
        check_refused("index_status", json!({"verbose": true}), "no argument verbose");
        check_refused("search", json!({"query": "x", "limit": 0}), "k: expected 1 to 50, found 0");
        check_refused("search", json!({"query": "x", "limit": 3, "k": 3}), "there is no argument limit");
        check_refused("search", json!({"query": "x", "Top_K": 3}), "did you mean k?");
        check_refused("search", json!({"q": "x"}), "did you mean query?");
        check_refused("similar", json!({"file": "a", "line": 1}), "did you mean path?");
        // The tool has none like it.
        check_refused("index_status", json!({"limit": 3}), "there is no argument limit");
        assert!(Call::new("grep", Object::new()).is_none());
    }
}
