//! Metadata of Croissant (mlcommons.org/croissant/1.0): what the exports of a build are, for tools that load data sets.
//! Paths in it are relative to its own, so that it goes wherever the directory of the build does.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use quarry_corpus::formats::Kind;
use quarry_corpus::formats::source::Source;
use serde_json::{Map, Value, json};

use crate::error::BuildError;
use crate::harmless::harmless;
use crate::plan::Plan;
use crate::sources::pool::{Shares, UNKNOWN_LICENSE};
use crate::step::{OutputFile, Step};

pub(crate) const FILE: &str = "croissant.json";

pub(crate) fn metadata(
    plan: &Plan,
    steps: &[Step],
    shares: &Shares,
    root: &Path,
) -> Result<Value, BuildError> {
    let (mut distribution, mut record_sets) = (Vec::new(), Vec::new());
    for step in steps {
        let Some(format) = step.name.strip_prefix("export ") else { continue };
        for (name, OutputFile { bytes, sha256 }) in &step.files {
            let path = format!("exports/{format}/{name}");
            let Some(encoding) = Encoding::from_name(name) else { continue };
            distribution.push(json!({
                "@type": "cr:FileObject",
                "@id": path,
                "name": path,
                "contentUrl": path,
                "contentSize": format!("{bytes} B"),
                "encodingFormat": encoding.media_type(),
                "sha256": sha256,
            }));
            let fields = encoding.fields(&root.join(&path))?;
            if !fields.is_empty() {
                record_sets.push(record_set(&path, encoding, &fields));
            }
        }
    }
    let licenses: Vec<&str> =
        shares.licenses.keys().map(String::as_str).filter(|name| *name != UNKNOWN_LICENSE).collect();
    let sources: Vec<&str> = plan.sources.iter().map(|source| source.name.as_str()).collect();
    let mut metadata = json!({
        "@context": context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": harmless(&plan.title),
        "description": format!(
            "Queries with code that answers them and code that does not, made from {} by Quarry; card.md describes how, \
             and its known limits.",
            sources.join(", ")
        ),
        "distribution": distribution,
        "recordSet": record_sets,
    });
    if !licenses.is_empty() {
        metadata["license"] = json!(licenses);
    }
    Ok(metadata)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    JsonLines,
    Json,
    Tsv,
    Parquet,
}

type Columns = Vec<(String, &'static str)>;

impl Encoding {
    /// By the ending of a name; `None` for what holds no records.
    fn from_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "jsonl" => Some(Self::JsonLines),
            "json" => Some(Self::Json),
            "tsv" => Some(Self::Tsv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/jsonlines",
            Self::Json => "application/json",
            Self::Tsv => "text/tab-separated-values",
            Self::Parquet => "application/x-parquet",
        }
    }

    fn extract(self, column: &str) -> Value {
        match self {
            Self::Json => json!({"jsonPath": format!("$[*].{column}")}),
            Self::JsonLines | Self::Tsv | Self::Parquet => json!({"column": column}),
        }
    }

    /// The columns of a file, as its first record has them. None where it is not a table, such as a map of ids.
    fn fields(self, path: &Path) -> Result<Columns, BuildError> {
        let wrong = |problem: String| BuildError::Line { path: path.to_owned(), line: 1, problem };
        let open = || -> Result<BufReader<File>, BuildError> {
            Ok(BufReader::new(File::open(path).map_err(BuildError::read(path))?))
        };
        let first = |reader: &mut dyn BufRead| -> Result<String, BuildError> {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(BuildError::read(path))?;
            Ok(line)
        };
        match self {
            Self::JsonLines => {
                let line = first(&mut open()?)?;
                if line.trim().is_empty() {
                    return Ok(Columns::new());
                }
                let record: Map<String, Value> = serde_json::from_str(&line)
                    .map_err(|error| wrong(format!("expected a JSON object: {error}; build again")))?;
                Ok(columns(&record))
            }
            Self::Json => {
                let mut reader: BufReader<File> = open()?;
                let mut begin = [0];
                reader.read_exact(&mut begin).map_err(BuildError::read(path))?;
                if begin != *b"[" {
                    return Ok(Columns::new());
                }
                let mut records =
                    serde_json::Deserializer::from_reader(reader).into_iter::<Map<String, Value>>();
                Ok(match records.next() {
                    Some(Ok(record)) => columns(&record),
                    _ => Columns::new(),
                })
            }
            Self::Tsv => {
                let line = first(&mut open()?)?;
                let names = line.trim_end().split('\t').filter(|name| !name.is_empty());
                Ok(names
                    .map(|name| (name.to_owned(), if name == "score" { INTEGER } else { TEXT }))
                    .collect())
            }
            // The writer makes a column of each field.
            Self::Parquet => {
                let source = Source::open(path, "")?;
                let kind = |kind| if kind == Kind::Whole { INTEGER } else { TEXT };
                Ok(source
                    .format
                    .fields
                    .iter()
                    .map(|field| (field.name.to_owned(), kind(field.kind)))
                    .collect())
            }
        }
    }
}

const TEXT: &str = "sc:Text";
const INTEGER: &str = "sc:Integer";
const FLOAT: &str = "sc:Float";
const BOOLEAN: &str = "sc:Boolean";

fn columns(record: &Map<String, Value>) -> Columns {
    let typed = record.iter().filter_map(|(name, value)| {
        let kind = match value {
            Value::String(_) | Value::Null => TEXT,
            Value::Number(number) if number.is_f64() => FLOAT,
            Value::Number(_) => INTEGER,
            Value::Bool(_) => BOOLEAN,
            Value::Array(_) | Value::Object(_) => return None,
        };
        Some((name.clone(), kind))
    });
    typed.collect()
}

fn record_set(path: &str, encoding: Encoding, columns: &Columns) -> Value {
    // A name in a URL: without its directory, which all have, and without what separates parts of names.
    let id = path.trim_start_matches("exports/").replace('/', ".");
    let fields: Vec<Value> = (columns.iter())
        .map(|(name, kind)| {
            json!({
                "@type": "cr:Field",
                "@id": format!("{id}/{name}"),
                "name": name,
                "dataType": kind,
                "source": {"fileObject": {"@id": path}, "extract": encoding.extract(name)},
            })
        })
        .collect();
    json!({"@type": "cr:RecordSet", "@id": id, "name": id, "field": fields})
}

/// The standard context of version 1.0, which readers compare.
fn context() -> Value {
    let mut context = json!({
        "@language": "en",
        "@vocab": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
    });
    for name in [
        "citeAs",
        "column",
        "equivalentProperty",
        "extract",
        "field",
        "fileProperty",
        "fileObject",
        "fileSet",
        "format",
        "includes",
        "isLiveDataset",
        "jsonPath",
        "key",
        "md5",
        "parentField",
        "path",
        "recordSet",
        "references",
        "regex",
        "repeated",
        "replace",
        "samplingRate",
        "separator",
        "source",
        "subField",
        "transform",
    ] {
        context[name] = json!(format!("cr:{name}"));
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_first_record_in_any_encoding() {
        let directory = tempfile::tempdir().unwrap();
        let fields = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            Encoding::from_name(name).unwrap().fields(&path).unwrap()
        };
        let named = |columns: &[(&str, &'static str)]| {
            columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect::<Columns>()
        };
        let record = r#"{"id": 1, "text": "a", "tokens": ["a"], "weight": 0.5}"#;
        let expected = named(&[("id", INTEGER), ("text", TEXT), ("weight", FLOAT)]);
        assert_eq!(fields("a.jsonl", &format!("{record}\n{{}}\n")), expected);
        assert_eq!(fields("a.json", &format!("[{record},\n{{}}]")), expected);
        assert_eq!(fields("map.json", r#"{"code": 1}"#), Columns::new());
        assert_eq!(fields("empty.jsonl", ""), Columns::new());
        assert_eq!(
            fields("qrels.tsv", "query-id\tcorpus-id\tscore\nq\tc\t1\n"),
            named(&[("query-id", TEXT), ("corpus-id", TEXT), ("score", INTEGER)])
        );
        assert!(Encoding::from_name("README.md").is_none());
    }

    #[test]
    fn a_record_set_says_where_its_columns_are() {
        let columns = vec![("query".to_owned(), TEXT)];
        let set = record_set("exports/gecs/test.json", Encoding::Json, &columns);
        assert_eq!(set["@id"], "gecs.test.json");
        assert_eq!(set["field"][0]["source"]["fileObject"]["@id"], "exports/gecs/test.json");
        assert_eq!(set["field"][0]["source"]["extract"]["jsonPath"], "$[*].query");
    }
}
