//! The description of the API, from the types of its answers.

use quarry_index::RANKINGS;
use quarry_related::{Commits, Kind, Related};
use quarry_session::{
    AnswerEnd, Callees, Callers, FileView, ResultView, SearchQuestion, SimilarQuestion, StatusView,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};

use crate::api::{EmbedRequest, Embedded, MAX_CALLS, ProgressView, TreesView};
use crate::events::MEDIA_TYPE;
use crate::fitted::Fitted;
use crate::params::{SWITCHES, WAIT};
use crate::problem::ProblemView;
use crate::question::{MAX_QUERY_CHARS, MAX_RESULTS, MAX_TEXT_BYTES};

/// A parameter: its name, its schema, whether it is required, and what it says.
type Parameter = (&'static str, Value, bool, &'static str);

pub fn description() -> Value {
    let mut schemas = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let query: Parameter = (
        "q",
        json!({ "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS }),
        true,
        "What the code does in plain words, or the name of a symbol.",
    );
    let position: [Parameter; 2] = [
        ("path", text(), true, "File, relative to its tree."),
        ("line", line(), true, "A line in the unit, counted from 1."),
    ];
    let subject: [Parameter; 5] = [
        (
            "name",
            optional_text(),
            false,
            "Name of a function, method or type. Give either this, or path and line.",
        ),
        ("path", optional_text(), false, "File that it is in, relative to its tree."),
        ("line", line(), false, "A line in it, counted from 1."),
        (
            "tree",
            optional_text(),
            false,
            "Name of the tree that it is in; by default, all trees for a name, the first for a path.",
        ),
        (
            "k",
            json!({ "type": "integer", "minimum": 0, "maximum": MAX_CALLS }),
            false,
            "Maximum number of calls; `limit` is the same.",
        ),
    ];
    let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let of_places: [Parameter; 2] = [
        (
            "k",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_RESULTS }),
            false,
            "Maximum number of places; `limit` is the same.",
        ),
        (
            "kind",
            json!({ "type": "array", "items": { "type": "string", "enum": kinds } }),
            false,
            "Only this kind of reason (can be repeated).",
        ),
    ];
    let in_path: [Parameter; 2] =
        [("tree", text(), true, "Name of the tree."), ("path", text(), true, "File, relative to the tree.")];
    let of_line: [Parameter; 1] =
        [("line", line(), false, "Only the innermost unit at this line, with its source.")];
    let mut paths = serde_json::Map::new();
    let mut add = |path: &str, about: &str, in_path: &[Parameter], query: &[Parameter], answer: Value| {
        let operation = operation(about, in_path, query, json_answer(&answer));
        paths.insert(path.to_owned(), json!({ "get": operation }));
    };
    let schema = |schema: schemars::Schema| Value::from(schema);
    let search = schema(schemas.subschema_for::<Fitted<SearchQuestion>>());
    let asked = [vec![query], units()].concat();
    let about = "Finds code by what it does, as `quarry search --json`.";
    let in_address = [&asked[..], &[wait()]].concat();
    add("/api/v1/search", about, &[], &in_address, search.clone());
    let similar = schema(schemas.subschema_for::<Fitted<SimilarQuestion>>());
    let mut unit_at = [position.to_vec(), units()].concat();
    unit_at.retain(|parameter| parameter.0 != "tree");
    unit_at.extend([tree(), wait()]);
    add(
        "/api/v1/similar",
        "Finds code like the code at a line, as `quarry similar --json`.",
        &[],
        &unit_at,
        similar,
    );
    let callers = schema(schemas.subschema_for::<Callers>());
    add(
        "/api/v1/callers",
        "Lists the callers of something, as `quarry callers --json`.",
        &[],
        &subject,
        callers,
    );
    let related = schema(schemas.subschema_for::<Related>());
    add(
        "/api/v1/related",
        "Lists what else must change with something, as `quarry related --json`; of a file, without a line.",
        &[],
        &[&subject[..4], &of_places].concat(),
        related,
    );
    let commits = schema(schemas.subschema_for::<Commits>());
    let k = json!({ "type": "integer", "minimum": 1, "maximum": MAX_RESULTS });
    let of_trees = json!({ "type": "array", "items": { "type": "string" } });
    let of_commits = [
        asked[0].clone(),
        ("k", k, false, "Maximum number of commits; `limit` is the same."),
        ("tree", of_trees, false, "Only commits of the tree with this name (can be repeated)."),
    ];
    let about =
        "Finds commits by their messages and what they changed, as `quarry search --kind commit --json`.";
    add("/api/v1/commits", about, &[], &of_commits, commits);
    let callees = schema(schemas.subschema_for::<Callees>());
    add("/api/v1/callees", "Lists what something calls, as `quarry callees --json`.", &[], &subject, callees);
    let file = schema(schemas.subschema_for::<FileView>());
    add("/api/v1/units/{tree}/{path}", "Lists the units of a file.", &in_path, &of_line, file);
    let trees = schema(schemas.subschema_for::<TreesView>());
    add("/api/v1/trees", "Lists the trees that are served.", &[], &[], trees);
    let status = schema(schemas.subschema_for::<StatusView>());
    add("/api/v1/status", "Shows what is indexed, as `quarry status --json`.", &[], &[tree()], status);
    let about = "Finds code as /api/v1/search, result by result; until the first index is ready, reports its progress.";
    let stream = operation(about, &[], &asked, events(&mut schemas));
    paths.insert("/api/v1/search/stream".to_owned(), json!({ "get": stream }));
    let about = "Finds code as with GET, by a text of up to 64 KiB.";
    // Answered before the body is read.
    let mut by_text = operation(about, &[], &[wait()], json_answer(&search));
    by_text["requestBody"] = json_body(&object_of(&asked));
    paths["/api/v1/search"]["post"] = by_text;
    let mut embed = operation("Embeds texts with the model of the trees.", &[], &[], {
        json_answer(&schema(schemas.subschema_for::<Embedded>()))
    });
    // Requests may lack fields that answers always have.
    let of_requests = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let texts = schema(of_requests.into_generator().into_root_schema_for::<EmbedRequest>());
    embed["requestBody"] = json_body(&texts);
    paths.insert("/api/v1/embed".to_owned(), json!({ "post": embed }));
    let problem = schema(schemas.subschema_for::<ProblemView>());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quarry",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Search of source trees. Where the server has a token, send `Authorization: Bearer TOKEN`.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": named(schemas, problem),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

/// An operation: what it does, its parameters, and its answer.
fn operation(about: &str, in_path: &[Parameter], query: &[Parameter], answer: Value) -> Value {
    let located = |location: &'static str| move |(name, schema, required, about): &Parameter| json!({ "name": name, "in": location, "required": required, "schema": schema, "description": about });
    let parameters: Vec<Value> =
        in_path.iter().map(located("path")).chain(query.iter().map(located("query"))).collect();
    let problem = json!({
        "description": "What is wrong, and what to do.",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    json!({
        "summary": about,
        "parameters": parameters,
        "responses": { "200": answer, "default": problem },
    })
}

fn json_answer(schema: &Value) -> Value {
    json!({ "description": "The answer.", "content": { "application/json": { "schema": schema } } })
}

fn json_body(schema: &Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

/// The schema of an object of parameters. Its query may be longer than in an address, and its switches are booleans.
fn object_of(parameters: &[Parameter]) -> Value {
    let property = |(name, schema, _, about): &Parameter| {
        let mut schema = match *name {
            "q" => json!({ "type": "string", "minLength": 1, "maxLength": MAX_TEXT_BYTES }),
            name if SWITCHES.contains(&name) => json!({ "type": "boolean" }),
            _ => schema.clone(),
        };
        schema["description"] = json!(about);
        ((*name).to_owned(), schema)
    };
    let required: Vec<&str> =
        parameters.iter().filter(|(_, _, required, _)| *required).map(|(name, ..)| *name).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": parameters.iter().map(property).collect::<serde_json::Map<_, _>>(),
    })
}

/// Events, whose data are objects as text: `progress` until there is an index, `result` for each result, then `end`, or
/// else `problem`, after which the stream ends.
fn events(schemas: &mut SchemaGenerator) -> Value {
    let kinds = [
        ("progress", json!(schemas.subschema_for::<ProgressView>())),
        ("result", json!(schemas.subschema_for::<ResultView>())),
        ("end", json!(schemas.subschema_for::<AnswerEnd<SearchQuestion>>())),
        ("problem", json!({ "$ref": "#/components/schemas/Problem" })),
    ];
    let event = |(name, data): (&str, Value)| {
        json!({
            "type": "object",
            "required": ["event", "data"],
            "properties": {
                "event": { "type": "string", "const": name },
                "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": data },
            },
        })
    };
    json!({
        "description": "Events: `progress` until there is an index, `result` for each result, then `end`, or else `problem`.",
        "content": { MEDIA_TYPE: { "schema": { "oneOf": kinds.map(event) } } },
    })
}

/// The schemas that others refer to, with that of problems under its name.
fn named(mut schemas: SchemaGenerator, problem: Value) -> Value {
    let mut all = schemas.take_definitions(true);
    let name = problem["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    if let Some(found) = name.and_then(|name| all.remove(name)) {
        all.insert("Problem".to_owned(), found);
    }
    Value::Object(all)
}

/// The parameter of each request that needs an index.
fn wait() -> Parameter {
    let about = "0 refuses at once while the first index is built; otherwise up to 10 s are waited.";
    (WAIT, switch(), false, about)
}

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// A text that counts as left out if it is empty, as forms send it.
fn optional_text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn line() -> Value {
    json!({ "type": "integer", "minimum": 1 })
}

fn switch() -> Value {
    json!({ "type": "string", "enum": ["1", "0", "true", "false", "on", "off", ""] })
}

fn tree() -> Parameter {
    ("tree", optional_text(), false, "Name of the tree; the first one if left out or empty.")
}

/// The parameters that narrow and present results.
fn units() -> Vec<Parameter> {
    vec![
        ("lang", texts(), false, "Only this language; can be repeated."),
        (
            "kind",
            texts(),
            false,
            "Only units of this kind: function, method, type, module or section; can be repeated.",
        ),
        (
            "glob",
            texts(),
            false,
            "Only files that match this glob, in the syntax of .gitignore; with a leading !, only the others; can be \
             repeated.",
        ),
        ("dir", optional_text(), false, "Only files below this directory, relative to the tree."),
        ("tree", texts(), false, "Only this tree, by its name; can be repeated."),
        ("no-generated", switch(), false, "Leave out generated code."),
        ("no-vendored", switch(), false, "Leave out copies of third-party code."),
        (
            "k",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_RESULTS }),
            false,
            "Maximum number of results; `limit` is the same.",
        ),
        ("lines", json!({ "type": "integer", "minimum": 0 }), false, "Lines of each result; 0 for all."),
        ("context", json!({ "type": "integer", "minimum": 0 }), false, "Lines before and after those."),
        ("explain", switch(), false, "Explain the rank of each result, and show the parts of its score."),
        (
            "threshold",
            json!({ "type": "number", "minimum": 0, "maximum": 1 }),
            false,
            "Minimum confidence of a confident answer.",
        ),
        (
            "ranking",
            json!({ "type": "string", "enum": RANKINGS.map(|ranking| ranking.name).into_iter().chain([""]).collect::<Vec<_>>() }),
            false,
            "How results are ranked.",
        ),
    ]
}
