//! A unit as a search or a request finds it.

use quarry_source::UnitKind;

use crate::Index;

/// A unit in the ranked answer to a search.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Number of the unit in the index; [`NO_UNIT`](Self::NO_UNIT) for a part of a file that is in none.
    pub unit: usize,
    /// Index of the searched path in which it was found; 0 if there is only one.
    pub root: usize,
    /// Path relative to that path, `/` between its parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file; empty for parts between definitions.
    pub name: String,
    /// Declaration without body; empty for parts between definitions.
    pub signature: String,
    pub kind: UnitKind,
    /// Name of the language; in a notebook, of the cell.
    pub language: String,
    /// Score: larger is better; comparable within one response only.
    pub score: f32,
    /// The signals that make up the score.
    pub parts: ScoreParts,
}

impl Hit {
    /// Number for hits without a unit.
    pub const NO_UNIT: usize = usize::MAX;
}

/// The signals that make up a score.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoreParts {
    /// BM25F of the unit.
    pub lexical: f32,
    /// Cosine of the unit, -1 to 1; 0 without a model.
    pub dense: f32,
    /// BM25F relative to the maximum that these terms can reach in a text of mean length or more: 0 to 1.
    pub coverage: f32,
    /// Fused score of the unit's and the file's words, relative to the best unit: 0 to 1.
    pub words: f32,
    /// Match of the path with the query.
    #[serde(rename = "place")]
    pub path: f32,
    /// Match of the unit's names with the query.
    pub name: f32,
    /// True if it defines the symbol that the query is, or one that it mentions.
    pub defines: bool,
    /// Exactness of the symbol's spelling: 1, or less in another case or with a misspelled letter.
    pub exactness: f32,
    /// Factor for the kind of code, such as tests and generated code.
    pub demotion: f32,
    /// Factor for better units of the same file and for being a near-duplicate.
    pub repetition: f32,
    /// The score by the rules, computed from all of the above.
    pub rules: f32,
    /// The probability that the query wants a file, 0 to 1; 1 if only the rules are used.
    pub file_probability: f32,
    /// The unit's share if a file is wanted: in a softmax over the scores by the rules, 0 to 1.
    pub file_share: f32,
    /// Score of the unit if a function is wanted.
    pub function: f32,
    /// The unit's share if a function is wanted: in a softmax over `function`, 0 to 1.
    pub function_share: f32,
    /// Factor for that share, for generated code and the like and for near-duplicates.
    pub function_factor: f32,
    /// Score of the unit for an issue; 0 unless the query is one.
    pub issue: f32,
    /// The unit's share for an issue: in a softmax over `issue`, 0 to 1.
    pub issue_share: f32,
    /// Its shares as the cause of a report and as the function that is described, of which `issue_share` is the mixture.
    #[serde(skip)]
    pub issue_shares: [f32; 2],
    /// The unit's share for the text as an ordinary query, if that is mixed with `issue_share`.
    #[serde(skip)]
    pub query_share: f32,
    /// The share of the query that its string literals print, if the query is a message; less in tests and generated
    /// code.
    pub message: f32,
    /// Cosine of the unit by the re-ranker, -1 to 1; 0 without one, or if it was not read.
    pub reranker: f32,
    /// Factor for that cosine; 1 without a re-ranker.
    pub reranker_factor: f32,
    /// Log-odds of the unit by the cross-encoder; 0 without one, or if it was not read.
    pub cross_encoder: f32,
    /// Factor for these; 1 without one.
    pub cross_encoder_factor: f32,
}

impl Index {
    /// A unit by its number, with its score and the signals that make it up.
    pub(crate) fn hit(&self, unit: usize, score: f32, parts: ScoreParts) -> Hit {
        let record = &self.table.units[unit];
        let file = self.table.file_of(record);
        let row = record.file as usize;
        // A unit that is given by its line may be excluded from searches.
        let found = self.root_of(row).or_else(|| self.roots_around(row).next());
        let (root, path) = found.map_or((0, self.table.text(file.path)), |(root, path)| (root.number, path));
        Hit {
            unit,
            root,
            path: path.to_owned(),
            start_line: record.start_line,
            end_line: record.end_line,
            name: self.table.text(record.name).to_owned(),
            signature: self.table.text(record.signature).to_owned(),
            kind: record.kind(),
            language: self.table.text(record.language).to_owned(),
            score,
            parts,
        }
    }
}
