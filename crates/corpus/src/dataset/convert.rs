//! Converts between all formats, as far as the target can represent the records.
//!
//! A data set consists of pairs (a text with a code), of queries, documents and judgments, or of both. Pairs become
//! queries, documents and judgments while they are read, so a file may be larger than memory: only hashes of ids
//! and texts are kept. Joining separate records to pairs, and merging the judgments of several annotators, require
//! the texts, or the judgments, in memory.

pub use super::target::{LAYOUTS, Layout, Target};
use super::{for_each, key};
use crate::formats::beir::Benchmark;
use crate::formats::qrels::Qrels;
use crate::formats::source::Source;
use crate::formats::write::{Staged, Writer};
use crate::formats::{Document, FormatError, Judgment, Pair, Query, Record, RecordKind, Side, excerpt};
use crate::formats::{csn99, gecs};
use quarry_source::Language;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Merge of several grades for one query and document, as from several annotators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grades {
    #[default]
    Refuse,
    Max,
    Min,
    /// Use the mean, rounded to the nearest integer, halves away from zero.
    Mean,
}

#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Use the published tokens, joined by spaces, as texts, if present.
    pub tokens: bool,
    /// Keep only pairs and judgments of this programming language, ignoring case.
    pub language: Option<String>,
    /// Grade of unlabeled pairs; if `None`, their queries and codes are kept, but no judgment.
    pub unlabeled: Option<i32>,
    /// Merge of different grades for one query and document.
    pub grades: Grades,
    /// Renumber queries and documents from 0, in order. Repeated ids remain one; the records of pairs become queries
    /// and documents by their texts.
    pub renumber: bool,
    /// Hide the names of functions and variables, as in AdvTest, assuming this language for code without one.
    pub hide_names: Option<HideNames>,
    /// Number of results of a query in a run that become pairs, best first; all if `None`.
    pub top: Option<usize>,
    /// Leave out files of judgments and of pairs that would be empty, instead of returning an error.
    pub without_judgments: bool,
}

#[derive(Debug, Clone, Default)]
pub struct HideNames {
    /// Language of code whose record does not specify one.
    pub language: Option<Language>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    pub files: Vec<WrittenFile>,
    /// Number of omitted negative pairs, which the formats cannot represent.
    pub negatives: usize,
    /// Number of codes whose names could not be hidden: they contain no function, or their language is unknown or
    /// lacks rules for it.
    pub names_kept: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    pub path: PathBuf,
    pub records: usize,
    pub holds: RecordKind,
}

impl fmt::Display for WrittenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} {}", self.path.display(), self.records, self.holds.name())
    }
}

/// Converts sources into a new file or directory.
///
/// # Errors
/// An invalid record; contradictory ids or judgments; records that the target cannot represent, or none that it can;
/// when `out` exists or cannot be written. Nothing is left behind in that case.
pub fn convert(
    sources: &[Source],
    target: Target,
    out: &Path,
    split: &str,
    options: &ConvertOptions,
) -> Result<Converted, FormatError> {
    // Used in file names.
    if split.contains(['/', '\\', '\0']) {
        return Err(FormatError::File {
            path: out.to_owned(),
            expected: "a name as the split".to_owned(),
            found: format!("{split:?}"),
            remedy: "write one such as test".to_owned(),
        });
    }
    target.check_name(out)?;
    let staged = Staged::new(out)?;
    let written =
        write(sources, target, (out, &staged.path), split, options).map_err(|error| staged.named(error))?;
    staged.publish()?;
    Ok(written)
}

fn write(
    sources: &[Source],
    target: Target,
    (out, staged): (&Path, &Path),
    split: &str,
    options: &ConvertOptions,
) -> Result<Converted, FormatError> {
    let files = target.files(out, staged, split);
    let mut writers = files
        .iter()
        .map(|(path, format, container)| Writer::create(path, format, *container, format.header()))
        .collect::<Result<Vec<_>, _>>()?;
    let wants = |holds| files.iter().any(|(_, format, _)| format.holds == holds);
    let wants_pairs = wants(RecordKind::Pairs) || wants(RecordKind::Labels);
    // This format contains negatives, and omits one only because of its text.
    let takes_negatives = files.iter().any(|(_, format, _)| format.name == gecs::PAIRS.name);
    let mut negatives = 0;
    let mut normalizer = Normalizer::new(options, wants_pairs, wants(RecordKind::Documents));
    normalizer.wants_texts = files.iter().any(|(_, format, _)| format.name == csn99::ANNOTATIONS.name);
    normalizer.run(sources, &mut |record| {
        let mut held = false;
        for writer in &mut writers {
            held |= writer.write(&record)?;
        }
        // A record that does not go to a separate file is not lost if its pair is written.
        let lost = !held
            && match &record {
                Record::Pair(pair) if pair.label == Some(0) && !takes_negatives => {
                    negatives += usize::from(wants(RecordKind::Pairs));
                    false
                }
                Record::Pair(_) => wants(RecordKind::Pairs),
                Record::Query(_) => wants(RecordKind::Queries),
                Record::Document(_) => wants(RecordKind::Documents),
                _ => false,
            };
        if lost { Err(unfit(out, &record)) } else { Ok(()) }
    })?;
    let mut written = Vec::new();
    for (writer, (path, format, _)) in writers.into_iter().zip(&files) {
        let records = writer.finish()?;
        let is_of_judgments = matches!(format.holds, RecordKind::Judgments | RecordKind::Pairs);
        if records == 0 && options.without_judgments && is_of_judgments {
            remove_with_empty_directory(path, staged)?;
            continue;
        }
        if records == 0 {
            return Err(FormatError::File {
                path: out.to_owned(),
                expected: format!("something to write as {}", format.name),
                found: match negatives {
                    0 => "no record that it can hold".into(),
                    _ => format!("label 0 in each of {negatives} pairs, but the format holds only matches"),
                },
                remedy: match negatives {
                    0 => "also name the files that contain it; for pairs without a label, --unlabeled 1 counts them as \
                          relevant".into(),
                    _ => "choose a format that holds both, with --to".into(),
                },
            });
        }
        // Joining an empty path would add a slash.
        let path = match path.strip_prefix(staged) {
            Ok(within) if !within.as_os_str().is_empty() => out.join(within),
            _ => out.to_owned(),
        };
        written.push(WrittenFile { path, records, holds: format.holds });
    }
    Ok(Converted { files: written, negatives, names_kept: normalizer.names_kept })
}

/// Removes a file, and its directory below `staged` if that becomes empty.
fn remove_with_empty_directory(path: &Path, staged: &Path) -> Result<(), FormatError> {
    fs::remove_file(path).map_err(|source| FormatError::Write { path: path.to_owned(), source })?;
    if let Some(directory) = path.parent().filter(|directory| *directory != staged) {
        // It holds other files.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

fn unfit(out: &Path, record: &Record) -> FormatError {
    let found = match record {
        Record::Pair(pair) => format!("the pair of {}", excerpt(&pair.query.text)),
        Record::Query(query) => format!("the query {}", excerpt(&query.id)),
        Record::Document(document) => format!("the document {}", excerpt(&document.id)),
        other => format!("{other:?}"),
    };
    FormatError::File {
        path: out.to_owned(),
        expected: "records that the format can hold".into(),
        found,
        remedy: match record {
            Record::Pair(pair)
                if [&pair.query.text, &pair.code.text].iter().any(|text| text.contains(gecs::SPLIT)) =>
            {
                format!(
                    "text with {} cannot be split again; remove the pair, or choose another format",
                    gecs::SPLIT
                )
            }
            Record::Pair(pair) if pair.label.is_none() => {
                "some formats need a label; --unlabeled gives one to pairs without".into()
            }
            _ => "some formats need whole numbers as ids; --renumber makes them".into(),
        },
    }
}

/// Reads sources as a benchmark. Documents, queries and judgments are in the order of the files.
pub fn benchmark(sources: &[Source], options: &ConvertOptions) -> Result<Benchmark, FormatError> {
    let mut benchmark = Benchmark { documents: Vec::new(), queries: Vec::new(), qrels: Qrels::new() };
    Normalizer::new(options, false, true).run(sources, &mut |record| {
        match record {
            Record::Document(document) => benchmark.documents.push(document),
            Record::Query(query) => benchmark.queries.push(query),
            Record::Judgment(Judgment { query, document, grade, .. }) => {
                benchmark.qrels.entry(query).or_default().insert(document, grade);
            }
            Record::Pair(_) | Record::Label(_) | Record::Retrieved(_) => {}
        }
        Ok(())
    })?;
    Ok(benchmark)
}

/// Converts the records of all formats to those of a target, with consistent ids.
struct Normalizer<'o> {
    options: &'o ConvertOptions,
    wants_pairs: bool,
    /// True if documents are written, so that judged documents must be among them.
    wants_documents: bool,
    /// True if judgments need the text of their query and the language of their document.
    wants_texts: bool,
    queries: Texts,
    documents: Texts,
    /// True if the sources have a corpus, to which pairs add no documents.
    has_corpus: bool,
    /// Labels from a separate file, by pair.
    labels: HashMap<u128, i32>,
    /// Grades by query and document, unless they are merged.
    judged: HashMap<u128, i32>,
    /// Judgments to merge, or to join with their texts, at the end.
    waiting: Vec<Judgment>,
    /// Texts to join, by id.
    query_texts: HashMap<String, String>,
    document_texts: HashMap<String, String>,
    document_languages: HashMap<String, String>,
    /// Results of each query of a run, in the order in which queries first occur.
    retrieved: Vec<(String, Vec<(String, f64)>)>,
    retrieved_places: HashMap<String, usize>,
    names_kept: usize,
}

#[derive(Default)]
struct Texts {
    /// Hash of id, then hash of text.
    known: HashMap<u128, u128>,
    /// New id by hash of the old id, or of the text without one.
    numbers: HashMap<u128, usize>,
    /// Ids of the documents of a corpus by hash of the text.
    by_text: HashMap<u128, String>,
}

impl Texts {
    /// The number of a text without an id, or of an old id.
    fn number(&mut self, of: &str) -> String {
        let next = self.numbers.len();
        self.numbers.entry(key(of)).or_insert(next).to_string()
    }

    /// Returns whether the id is new; `Err` if it already has another text.
    fn add(&mut self, id: &str, text: &str) -> Result<bool, ()> {
        match self.known.entry(key(id)) {
            Entry::Vacant(free) => {
                free.insert(key(text));
                Ok(true)
            }
            Entry::Occupied(taken) if *taken.get() == key(text) => Ok(false),
            Entry::Occupied(_) => Err(()),
        }
    }

    fn has(&self, id: &str) -> bool {
        self.known.contains_key(&key(id))
    }
}

fn unknown_code(source: &Source, pair: &Pair, n_codes: usize) -> FormatError {
    let id = |id: &Option<String>| excerpt(id.as_deref().unwrap_or_default());
    FormatError::File {
        path: source.path.clone(),
        expected: format!("a code among the {n_codes} of the code base"),
        found: format!("{} in the pair {}", id(&pair.code.id), id(&pair.id)),
        remedy: "check that the files belong together".into(),
    }
}

impl<'o> Normalizer<'o> {
    fn new(options: &'o ConvertOptions, wants_pairs: bool, wants_documents: bool) -> Self {
        Self {
            options,
            wants_pairs,
            wants_documents,
            wants_texts: false,
            queries: Texts::default(),
            documents: Texts::default(),
            has_corpus: false,
            labels: HashMap::new(),
            judged: HashMap::new(),
            waiting: Vec::new(),
            query_texts: HashMap::new(),
            document_texts: HashMap::new(),
            document_languages: HashMap::new(),
            retrieved: Vec::new(),
            retrieved_places: HashMap::new(),
            names_kept: 0,
        }
    }

    fn hide_names(&mut self, text: &mut String, language: Option<&str>) {
        let Some(HideNames { language: otherwise }) = self.options.hide_names else { return };
        let language = language.and_then(quarry_source::language_called).or(otherwise);
        match language.and_then(|language| quarry_source::hide_names(language, text)) {
            Some(hidden) => *text = hidden,
            None => self.names_kept += usize::from(!text.is_empty()),
        }
    }

    fn run(
        &mut self,
        sources: &[Source],
        emit: &mut dyn FnMut(Record) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        self.has_corpus = sources.iter().any(|source| source.format.holds == RecordKind::Documents);
        for_each(sources, &mut |source, record| self.take(source, record, emit))?;
        self.finish(sources, emit)
    }

    fn take(
        &mut self,
        source: &Source,
        record: Record,
        emit: &mut dyn FnMut(Record) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let clash = |what: &str, id: &str| FormatError::File {
            path: source.path.clone(),
            expected: format!("one text for each id of a {what}"),
            found: format!("{} again, with a different text", excerpt(id)),
            remedy: "check that the files belong together; --renumber gives each text its own number".into(),
        };
        match record {
            Record::Pair(mut pair) if self.is_kept(pair.language.as_deref()) => {
                if self.options.hide_names.is_some() {
                    let language = pair.language_name();
                    self.hide_names(&mut pair.code.text, language.as_deref());
                    // They also contain the names.
                    pair.code.tokens = None;
                }
                let (pair, query_id, code_id) = self.identified(*pair);
                if self.queries.add(&query_id, &pair.query.text).map_err(|()| clash("query", &query_id))? {
                    emit(Record::Query(Query { id: query_id.clone(), text: pair.query.text.clone() }))?;
                }
                if !self.has_corpus && pair.code.text.is_empty() {
                    return Err(FormatError::File {
                        path: source.path.clone(),
                        expected: format!("the text of the code {}", excerpt(&code_id)),
                        found: "none".into(),
                        remedy: "also name the file of the code base".into(),
                    });
                }
                if self.has_corpus {
                    if !self.documents.has(&code_id) {
                        return Err(unknown_code(source, &pair, self.documents.known.len()));
                    }
                } else if self
                    .documents
                    .add(&code_id, &pair.code.text)
                    .map_err(|()| clash("code", &code_id))?
                {
                    let document = Document::new(code_id.clone(), pair.code.text.clone());
                    emit(Record::Document(Document { language: pair.language_name(), ..document }))?;
                }
                match pair.label {
                    _ if self.wants_pairs => emit(Record::Pair(pair)),
                    None => Ok(()),
                    Some(grade) => {
                        let language = pair.language_name();
                        let query = if self.wants_texts { pair.query.text } else { query_id };
                        let judgment = Judgment { query, document: code_id, grade, language };
                        self.judge(source, judgment, emit)
                    }
                }
            }
            Record::Query(mut query) => {
                self.renumber(&mut query.id, |this| &mut this.queries);
                if !self.queries.add(&query.id, &query.text).map_err(|()| clash("query", &query.id))? {
                    return Ok(());
                }
                if self.wants_pairs || self.wants_texts {
                    self.query_texts.insert(query.id.clone(), query.text.clone());
                }
                emit(Record::Query(query))
            }
            Record::Document(mut document) => {
                self.renumber(&mut document.id, |this| &mut this.documents);
                if self.options.hide_names.is_some() {
                    let language = document.language_name().map(|language| language.to_string());
                    self.hide_names(&mut document.text, language.as_deref());
                    // It may be the function's name.
                    document.title.clear();
                }
                let text = document.full_text();
                if !self.documents.add(&document.id, &text).map_err(|()| clash("document", &document.id))? {
                    return Ok(());
                }
                self.documents.by_text.insert(key(&text), document.id.clone());
                if let (true, Some(language)) =
                    (self.wants_texts || self.wants_pairs, document.language_name())
                {
                    self.document_languages.insert(document.id.clone(), language.into());
                }
                if self.wants_pairs {
                    self.document_texts.insert(document.id.clone(), text.into_owned());
                }
                emit(Record::Document(document))
            }
            Record::Judgment(mut judgment) if self.is_kept(judgment.language.as_deref()) => {
                self.renumber(&mut judgment.query, |this| &mut this.queries);
                self.renumber(&mut judgment.document, |this| &mut this.documents);
                if self.wants_pairs {
                    self.waiting.push(judgment);
                    return Ok(());
                }
                if self.wants_texts {
                    let language = || self.document_languages.get(&judgment.document).cloned();
                    judgment.language = judgment.language.or_else(language);
                    let text = self.query_texts.get(&judgment.query).cloned();
                    judgment.query = text.unwrap_or(judgment.query);
                }
                self.judge(source, judgment, emit)
            }
            Record::Label(label) => {
                self.labels.insert(key(&label.pair), label.label);
                Ok(())
            }
            Record::Retrieved(mut found) if self.wants_pairs => {
                self.renumber(&mut found.query, |this| &mut this.queries);
                self.renumber(&mut found.document, |this| &mut this.documents);
                let next = self.retrieved.len();
                let place = *self.retrieved_places.entry(found.query.clone()).or_insert(next);
                if place == next {
                    self.retrieved.push((found.query, Vec::new()));
                }
                self.retrieved[place].1.push((found.document, found.score));
                Ok(())
            }
            Record::Pair(_) | Record::Judgment(_) | Record::Retrieved(_) => Ok(()),
        }
    }

    fn is_kept(&self, language: Option<&str>) -> bool {
        match (&self.options.language, language) {
            (Some(wanted), Some(language)) => wanted.eq_ignore_ascii_case(language),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    fn renumber(&mut self, id: &mut String, side: impl Fn(&mut Self) -> &mut Texts) {
        if self.options.renumber {
            *id = side(self).number(id);
        }
    }

    /// A pair with the texts of the target, ids on both sides and the known label; the ids of its query and its code.
    fn identified(&mut self, mut pair: Pair) -> (Box<Pair>, String, String) {
        let ConvertOptions { tokens, unlabeled, renumber, .. } = *self.options;
        for side in [&mut pair.query, &mut pair.code] {
            if tokens && let Some(tokens) = &side.tokens {
                side.text.clone_from(tokens);
            }
        }
        let query_id = match pair.query.id.take() {
            Some(id) if !renumber => id,
            // Texts without an id are identified by their content.
            _ => self.queries.number(&pair.query.text),
        };
        let code_id = match pair.code.id.take() {
            Some(id) if !renumber => id,
            Some(id) if self.has_corpus => self.documents.number(&id),
            _ => match self.documents.by_text.get(&key(&pair.code.text)) {
                Some(id) => id.clone(),
                None => self.documents.number(&pair.code.text),
            },
        };
        pair.query.id = Some(query_id.clone());
        pair.code.id = Some(code_id.clone());
        if pair.label.is_none() {
            let known = pair.id.as_ref().and_then(|id| self.labels.remove(&key(id)));
            pair.label = known.or(unlabeled);
        }
        (Box::new(pair), query_id, code_id)
    }

    /// Writes a judgment, or holds it until all grades of its query and document are known.
    fn judge(
        &mut self,
        source: &Source,
        judgment: Judgment,
        emit: &mut dyn FnMut(Record) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        if self.wants_documents {
            let sides = [
                ("query", &self.queries, &judgment.query),
                ("document", &self.documents, &judgment.document),
            ];
            for (what, texts, id) in sides {
                if !texts.has(id) {
                    return Err(FormatError::File {
                        path: source.path.clone(),
                        expected: format!("judgments of a {what} whose text is known"),
                        found: excerpt(id),
                        remedy: format!("also name the file with the texts of the {what}"),
                    });
                }
            }
        }
        if self.options.grades != Grades::Refuse {
            self.waiting.push(judgment);
            return Ok(());
        }
        let both = key(&format!("{}\0{}", judgment.query, judgment.document));
        match self.judged.insert(both, judgment.grade) {
            None => emit(Record::Judgment(judgment)),
            Some(grade) if grade == judgment.grade => Ok(()),
            Some(grade) => Err(FormatError::File {
                path: source.path.clone(),
                expected: format!(
                    "one grade for query {:?} and document {:?}",
                    judgment.query, judgment.document
                ),
                found: format!("{} after {grade}", judgment.grade),
                remedy: "choose one of several grades with --grades".into(),
            }),
        }
    }

    fn finish(
        &mut self,
        sources: &[Source],
        emit: &mut dyn FnMut(Record) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let path = || sources.last().map_or_else(PathBuf::new, |source| source.path.clone());
        if !self.labels.is_empty() {
            return Err(FormatError::File {
                path: path(),
                expected: "labels of known pairs".into(),
                found: format!("{} of other pairs", self.labels.len()),
                remedy: "also name the file with the pairs".into(),
            });
        }
        let mut grades: BTreeMap<(String, String), Vec<i32>> = BTreeMap::new();
        for Judgment { query, document, grade, .. } in self.waiting.drain(..) {
            grades.entry((query, document)).or_default().push(grade);
        }
        let mut merged: HashMap<(String, String), i32> = HashMap::new();
        for ((query, document), grades) in grades {
            let grade = match self.options.grades {
                Grades::Refuse if grades.iter().any(|grade| *grade != grades[0]) => {
                    return Err(FormatError::File {
                        path: path(),
                        expected: format!("one grade for query {query:?} and document {document:?}"),
                        found: format!("{grades:?}"),
                        remedy: "choose one of several grades with --grades".into(),
                    });
                }
                Grades::Refuse => grades[0],
                Grades::Max => grades.iter().copied().max().unwrap_or_default(),
                Grades::Min => grades.iter().copied().min().unwrap_or_default(),
                Grades::Mean => {
                    let sum: f64 = grades.iter().map(|grade| f64::from(*grade)).sum();
                    (sum / grades.len() as f64).round() as i32
                }
            };
            if !self.retrieved.is_empty() {
                merged.insert((query, document), grade);
                continue;
            }
            if self.wants_pairs {
                emit(self.joined(&query, &document, Some(i32::from(grade >= 1)), &path)?)?;
            }
            emit(Record::Judgment(Judgment { query, document, grade, language: None }))?;
        }
        for (query, mut found) in std::mem::take(&mut self.retrieved) {
            // Ties in ascending order of their ids, as in evaluation.
            found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            found.truncate(self.options.top.unwrap_or(usize::MAX));
            for (document, _) in found {
                let both = (query.clone(), document);
                let label = merged.get(&both).map(|grade| i32::from(*grade >= 1)).or(self.options.unlabeled);
                emit(self.joined(&both.0, &both.1, label, &path)?)?;
            }
        }
        Ok(())
    }

    /// A pair whose texts are in separate files.
    fn joined(
        &self,
        query: &str,
        document: &str,
        label: Option<i32>,
        path: &dyn Fn() -> PathBuf,
    ) -> Result<Record, FormatError> {
        let side = |texts: &HashMap<String, String>, what: &str, id: &str| match texts.get(id) {
            Some(text) => Ok(Side::new(Some(id.to_owned()), text.clone(), None)),
            None => Err(FormatError::File {
                path: path(),
                expected: format!("a {what} whose text is known"),
                found: excerpt(id),
                remedy: format!("also name the file with the texts of the {what}"),
            }),
        };
        Ok(Record::Pair(Box::new(Pair {
            query: side(&self.query_texts, "query", query)?,
            code: side(&self.document_texts, "document", document)?,
            label,
            language: self.document_languages.get(document).cloned(),
            ..Pair::default()
        })))
    }
}
