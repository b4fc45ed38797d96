//! The tools: their names, arguments and schemas.
//!
//! A tool's schema is derived from the struct that its arguments are read into. It is then simplified to what the
//! validators of agents accept: objects of strings, integers and lists, without references, unions or formats.

use std::ops::RangeInclusive;

use quarry_related::Kind as Reason;
use quarry_text::nearest;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::ToolError;
use crate::arguments::{Calls, Context, IndexStatus, Outline, ReadUnit, Related, Search, Similar, Size};

pub type Object = Map<String, Value>;

/// Minimum and maximum number of results that can be asked for.
const RESULTS: RangeInclusive<usize> = 1..=50;
/// Minimum and maximum number of tokens that an answer can be allowed.
const TOKENS: RangeInclusive<usize> = 200..=20_000;
/// Maximum number of arguments that an error suggests.
const N_SUGGESTIONS: usize = 3;
/// Maximum bytes of all arguments of a call, names included: a pasted text of 64 KiB and what belongs to it.
const MAX_ARGUMENT_BYTES: usize = 70_000;
/// Aliases of arguments; the command line and HTTP take both names too.
const ALIASES: [(&str, &str); 1] = [("limit", "k")];
/// Other names that agents try for the arguments, because other tools use them.
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

/// Line numbers, 1-based.
const LINES: RangeInclusive<u32> = 1..=10_000_000;

pub struct Tool {
    pub name: &'static str,
    /// For the agent: its purpose, and when to use it.
    pub description: &'static str,
    pub schema: fn() -> Object,
}

/// All tools, in the order in which they are listed. Descriptions and schemas are in every prompt: a test limits their
/// tokens.
pub const TOOLS: [Tool; 7] = [
    Tool {
        name: "search",
        description: "Code by what it does (\"retry with backoff\"), in a programmer's words, or by a \
            symbol. Exact: \"phrase\", /regex/.",
        schema: schema::<Search>,
    },
    Tool {
        name: "context",
        description: "The code that answers a question: whole functions, then related signatures. Stop \
            searching once it suffices.",
        schema: schema::<Context>,
    },
    Tool {
        name: "outline",
        description: "Map of a directory or tree: files with their most used types and signatures.",
        schema: schema::<Outline>,
    },
    Tool {
        name: "read_unit",
        description: "Source of one function, type or section, by its name or a line.",
        schema: schema::<ReadUnit>,
    },
    Tool {
        name: "callers",
        description: "Calls of a function, method or type, by name, or path and line. May miss some: grep \
            for its name to be sure.",
        schema: schema::<Calls>,
    },
    Tool {
        name: "related",
        description: "What else must change with a function or file, and why: tests, callers, what changed \
            with it before. Give name, path and line, or path. Kind callee: what it calls; similar: code like \
            it.",
        schema: schema::<Related>,
    },
    Tool {
        name: "index_status",
        description: "What is indexed, and whether it is up to date.",
        schema: schema::<IndexStatus>,
    },
];

#[derive(Debug, Clone)]
pub enum Call {
    Search(Search),
    Context(Context),
    Outline(Outline),
    Similar(Similar),
    Callers(Calls),
    Callees(Calls),
    Related(Related),
    ReadUnit(ReadUnit),
    IndexStatus(IndexStatus),
}

impl Calls {
    fn check(&self) -> Result<(), ToolError> {
        match (&self.name, &self.path, &self.line) {
            (Some(name), None, None) if has_part(name) => {}
            (None, Some(_), Some(line)) => check_range("line", line, &LINES)?,
            _ => return Err(ToolError::NameOrPosition),
        }
        self.size.check()
    }
}

fn has_part(name: &str) -> bool {
    name.contains(|c: char| !c.is_whitespace() && !matches!(c, '.' | ':' | '#' | '/'))
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
            "context" => read(arguments).and_then(|context: Context| {
                check_range("max_tokens", &context.max_tokens, &TOKENS)?;
                Ok(Self::Context(context))
            }),
            "outline" => read(arguments).and_then(|outline: Outline| {
                check_range("max_tokens", &outline.max_tokens, &TOKENS)?;
                Ok(Self::Outline(outline))
            }),
            // Not listed, since `related` has it as a kind, but agents try it.
            "similar" => read(arguments).and_then(|similar: Similar| {
                check_range("line", &similar.line, &LINES)?;
                similar.size.check()?;
                Ok(Self::Similar(similar))
            }),
            "callers" | "callees" => read(arguments).and_then(|calls: Calls| {
                calls.check()?;
                Ok(if name == "callers" { Self::Callers(calls) } else { Self::Callees(calls) })
            }),
            "related" => read(arguments).and_then(|related: Related| {
                match &related.of {
                    Calls { name: None, path: Some(_), line: None, size } => size.check()?,
                    of => of.check()?,
                }
                Ok(related.alone())
            }),
            "read_unit" => read(arguments).and_then(|unit: ReadUnit| {
                if unit.line.is_some() == unit.name.is_some() {
                    return Err(ToolError::LineOrName);
                }
                unit.line.as_ref().map_or(Ok(()), |line| check_range("line", line, &LINES))?;
                check_range("max_tokens", &unit.max_tokens, &TOKENS)?;
                Ok(Self::ReadUnit(unit))
            }),
            "index_status" => read(arguments).map(Self::IndexStatus),
            _ => return None,
        })
    }

    /// The path that it names, if it can.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Search(search) => Some(&search.part.path),
            Self::Context(context) => Some(&context.path),
            Self::Outline(outline) => Some(&outline.path),
            Self::Similar(similar) => Some(&similar.path),
            Self::Callers(calls) | Self::Callees(calls) => calls.path.as_deref(),
            Self::Related(related) => related.of.path.as_deref(),
            Self::ReadUnit(unit) => Some(&unit.path),
            Self::IndexStatus(_) => None,
        }
    }

    /// The same call with another path.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        let (mut call, path) = (self.clone(), path.to_owned());
        match &mut call {
            Self::Search(search) => search.part.path = path,
            Self::Context(context) => context.path = path,
            Self::Outline(outline) => outline.path = path,
            Self::Similar(similar) => similar.path = path,
            Self::Callers(calls) | Self::Callees(calls) => calls.path = Some(path),
            Self::Related(related) => related.of.path = Some(path),
            Self::ReadUnit(unit) => unit.path = path,
            Self::IndexStatus(_) => {}
        }
        call
    }

    /// Maximum number of tokens of the answer, where there is one.
    pub(crate) fn max_tokens(&self) -> Option<usize> {
        match self {
            Self::Search(search) => Some(search.size.max_tokens),
            Self::Context(context) => Some(context.max_tokens),
            Self::Outline(outline) => Some(outline.max_tokens),
            Self::Similar(similar) => Some(similar.size.max_tokens),
            Self::Callers(calls) | Self::Callees(calls) => Some(calls.size.max_tokens),
            Self::Related(related) => Some(related.of.size.max_tokens),
            Self::ReadUnit(unit) => Some(unit.max_tokens),
            Self::IndexStatus(_) => None,
        }
    }

    /// Returns true if it is answered from an index, which may have to be built first.
    pub(crate) fn needs_index(&self) -> bool {
        !matches!(self, Self::ReadUnit(_) | Self::IndexStatus(_))
    }
}

impl Related {
    /// The call: of callees or similar code alone if nothing else is requested.
    fn alone(self) -> Call {
        let Calls { path, line, size, .. } = &self.of;
        match (self.kinds.as_slice(), path, *line) {
            ([Reason::Callee], _, line) if line.is_some() || self.of.name.is_some() => Call::Callees(self.of),
            ([Reason::Similar], Some(path), Some(line)) => {
                Call::Similar(Similar { path: path.clone(), line, size: *size })
            }
            _ => Call::Related(self),
        }
    }
}

impl Size {
    /// Maximum number of results: as given, else `default`.
    pub(crate) fn k(&self, default: usize) -> usize {
        self.k.unwrap_or(default.min(*RESULTS.end()))
    }

    fn check(&self) -> Result<(), ToolError> {
        self.k.as_ref().map_or(Ok(()), |k| check_range("k", k, &RESULTS))?;
        check_range("max_tokens", &self.max_tokens, &TOKENS)
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

/// Bytes of the names and texts in arguments, at any depth; an item that is not a text counts as one.
fn n_bytes_of(arguments: &Object) -> usize {
    fn value_bytes(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum::<usize>() + items.len(),
            Value::Object(object) => n_bytes_of(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        }
    }
    arguments.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn check_range<T>(name: &'static str, value: &T, range: &RangeInclusive<T>) -> Result<(), ToolError>
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

/// The schema of `T`, without what the validators of agents are known to reject.
fn schema<T: JsonSchema>() -> Object {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.with_transform(simplify).into_generator().into_root_schema_for::<T>();
    // The tool's own description is better.
    schema.remove("description");
    schema.remove("title");
    // An object without properties still needs the key.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Object::new()));
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    schema.ensure_object().clone()
}

/// Removes limits, formats such as `uint32`, which only schemars knows, and `null` beside another type: an optional
/// property is just not listed as required.
fn simplify(schema: &mut Schema) {
    // Limits and defaults are checked anyway, and every prompt would repeat them.
    for key in ["format", "minimum", "maximum", "minLength", "default"] {
        schema.remove(key);
    }
    // A list of names is self-explanatory.
    if schema.get("enum").is_some() {
        schema.remove("description");
    }
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
    use crate::arguments::Kind;

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
                    let is_described = property["description"].is_string() || property["enum"].is_array();
                    assert!(is_described, "{name}");
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

    /// Tokens of all tools as prompts have them: name, description and schema.
    #[test]
    fn tools_cost_a_prompt_at_most_900_tokens() {
        let listed = TOOLS.map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": (tool.schema)()})
                .to_string()
        });
        let n_tokens: usize = listed.iter().map(|tool| quarry_session::count_tokens(tool)).sum();
        assert!(n_tokens <= 900, "{n_tokens} tokens: {listed:#?}");
    }

    #[test]
    fn the_schema_of_search_says_what_is_checked() {
        let schema = Value::Object(schema::<Search>());
        assert_eq!(schema["required"], json!(["query"]));
        let properties = &schema["properties"];
        assert_eq!(
            properties["kinds"]["items"],
            json!({"type": "string", "enum": ["function", "method", "type", "module", "section"]})
        );
        assert_eq!(properties["detail"], json!({"type": "string", "enum": ["brief", "full"]}));
        assert_eq!(properties["k"], json!({"type": "integer", "description": "Results, 1 to 50."}));
    }

    #[test]
    fn arguments_have_defaults_and_may_be_null() {
        let Ok(Call::Search(search)) = call("search", json!({"query": "x", "path": null, "kinds": ["type"]}))
        else {
            panic!("refused")
        };
        assert_eq!((search.size.k, search.size.max_tokens, search.part.path.as_str()), (None, 2_000, ""));
        assert_eq!(search.part.kinds, [Kind::Type]);
        assert!(call("index_status", json!({})).is_ok());
        assert!(call("read_unit", json!({"path": "a", "line": null, "name": "b"})).is_ok());
    }

    #[test]
    fn the_number_of_results_has_two_names() {
        for name in ["k", "limit"] {
            let Ok(Call::Search(search)) = call("search", json!({"query": "x", name: 3})) else {
                panic!("{name} is refused")
            };
            assert_eq!(search.size.k, Some(3));
        }
        assert!(call("callers", json!({"name": "x", "limit": 3})).is_ok());
    }

    #[test]
    fn long_arguments_are_refused() {
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
            "unknown argument langages; nearest: languages",
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
        check_refused("index_status", json!({"verbose": true}), "unknown argument verbose");
        check_refused("search", json!({"query": "x", "limit": 0}), "k: expected 1 to 50, found 0");
        check_refused("search", json!({"query": "x", "limit": 3, "k": 3}), "unknown argument limit");
        check_refused("search", json!({"query": "x", "Top_K": 3}), "did you mean k?");
        check_refused("search", json!({"q": "x"}), "did you mean query?");
        check_refused("similar", json!({"file": "a", "line": 1}), "did you mean path?");
        // The tool has no similar argument.
        check_refused("index_status", json!({"limit": 3}), "unknown argument limit");
        assert!(Call::new("grep", Object::new()).is_none());
    }
}
