//! Turns the published files of a data set into a BEIR folder.

use super::beir::{self, Benchmark};
use super::cosqa::{self, Pair};
use super::qrels::Qrels;
use super::{Document, FormatError, Query};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the CoSQA retrieval files as a BEIR folder with one split. See [`cosqa_benchmark`] for what is what.
///
/// # Errors
/// As [`cosqa_benchmark`]; when `out_dir` exists and is not empty, or cannot be written.
pub fn cosqa_to_beir(
    retrieval_json: &Path,
    code_idx_map: &Path,
    out_dir: &Path,
    split: &str,
) -> Result<(), FormatError> {
    beir::write(out_dir, split, &cosqa_benchmark(retrieval_json, code_idx_map)?)
}

/// Reads the CoSQA retrieval files as a benchmark. Documents are the whole code base in the order of its
/// numbers, id = the number, text = the raw code, no title; queries are the web queries (`doc`), id = `idx`;
/// the only judged document of a query is its own `retrieval_idx`, grade = `label`.
///
/// # Errors
/// When a file cannot be read or is wrong, a pair names a code that the code base lacks, or an `idx` comes twice.
pub fn cosqa_benchmark(retrieval_json: &Path, code_idx_map: &Path) -> Result<Benchmark, FormatError> {
    let pairs = cosqa::read_pairs(retrieval_json)?;
    let codes = cosqa::read_codes(code_idx_map)?;
    let refuse = |expected: String, found: String| FormatError::File {
        path: retrieval_json.to_owned(),
        expected,
        found,
        remedy: "check that the two files belong together".into(),
    };
    let mut qrels = Qrels::new();
    for Pair { idx, label, retrieval_idx, .. } in &pairs {
        if !codes.contains_key(retrieval_idx) {
            let expected = format!("a `retrieval_idx` among the {} codes of the code base", codes.len());
            return Err(refuse(expected, format!("{retrieval_idx} in the record {idx:?}")));
        }
        let judged = BTreeMap::from([(retrieval_idx.to_string(), i32::from(*label))]);
        if qrels.insert(idx.clone(), judged).is_some() {
            return Err(refuse("each `idx` once".into(), format!("{idx:?} again")));
        }
    }
    Ok(Benchmark {
        documents: codes
            .into_iter()
            .map(|(number, text)| Document { id: number.to_string(), title: String::new(), text })
            .collect(),
        queries: pairs.into_iter().map(|pair| Query { id: pair.idx, text: pair.doc }).collect(),
        qrels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CODES: &str = "{\"def b(): 2\": 1, \"def a(): 1\\n\": 0}";

    fn convert(pairs: &str) -> Result<Benchmark, String> {
        let folder = tempfile::tempdir().unwrap();
        let (pairs_path, codes_path) = (folder.path().join("pairs.json"), folder.path().join("codes.json"));
        fs::write(&pairs_path, pairs).unwrap();
        fs::write(&codes_path, CODES).unwrap();
        let out = folder.path().join("out");
        cosqa_to_beir(&pairs_path, &codes_path, &out, "dev").map_err(|error| error.to_string())?;
        Ok(beir::read(&out, "dev").unwrap())
    }

    #[test]
    fn the_whole_code_base_becomes_the_corpus() {
        let benchmark = convert(
            r#"[{"idx":"t-2","doc":"make b","label":1,"retrieval_idx":1},
                {"idx":"t-1","doc":"make c","label":0,"retrieval_idx":1}]"#,
        )
        .unwrap();
        let texts: Vec<(&str, &str)> = benchmark
            .documents
            .iter()
            .map(|document| (document.id.as_str(), document.text.as_str()))
            .collect();
        assert_eq!(texts, [("0", "def a(): 1\n"), ("1", "def b(): 2")]);
        assert_eq!(benchmark.queries[0], Query { id: "t-2".into(), text: "make b".into() });
        assert_eq!(benchmark.qrels["t-2"], BTreeMap::from([("1".into(), 1)]));
        assert_eq!(benchmark.qrels["t-1"], BTreeMap::from([("1".into(), 0)]));
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let error = convert(r#"[{"idx":"t","doc":"q","label":1,"retrieval_idx":9}]"#).unwrap_err();
        assert!(error.contains("among the 2 codes of the code base, found 9 in the record \"t\""), "{error}");
        let pair = r#"{"idx":"t","doc":"q","label":1,"retrieval_idx":0}"#;
        let error = convert(&format!("[{pair},{pair}]")).unwrap_err();
        assert!(error.contains("expected each `idx` once, found \"t\" again"), "{error}");
    }
}
