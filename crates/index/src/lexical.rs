//! Lexical search: BM25F over an inverted index.
//!
//! The postings are tantivy's; the scores are computed here, term by term into one value per text, because ranking
//! needs three things that a query engine does not provide together: saturation across fields (BM25F), the score of
//! *every* text, and the same for groups of texts (files).

mod fields;
mod portable;
mod segment_directory;
mod symbols;
mod terms;

use std::borrow::Cow;
use std::sync::Arc;

use quarry_files::Directory;
use quarry_text::TermRules;
use rayon::prelude::*;
use tantivy::directory::RamDirectory;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{InvertedIndexReader, SegmentReader, TantivyDocument, Term};

pub(crate) use self::portable::WholeCollection;
pub use self::portable::{TermCount, TermCounts, inverse_document_frequency, term_weights};
use self::segment_directory::SegmentDirectory;
use self::symbols::SymbolReader;
use self::terms::TermSplitter;
pub(crate) use self::terms::Terms;
use crate::Error;
pub use crate::storage::field_sizes::TermFrequencies;
use crate::storage::field_sizes::{FieldSizes, N_FIELDS, has_terms};
use crate::storage::segments::Segment;
use crate::storage::table::{LEXICAL_DIRECTORY, Numbering, PartSize, PartUnits, open_directory};

/// Names of the fields, in the order of every array by field.
pub const FIELDS: [&str; N_FIELDS] = ["name", "file", "folder", "doc", "body"];

/// Name of the field that is not scored: the symbol that a text defines, folded.
const SYMBOL_FIELD: &str = "symbol";

/// Memory in bytes for the terms of a segment before it must be written.
const WRITER_BYTES: usize = 64 << 20;

/// Name of the tokenizer in the index.
const TOKENIZER: &str = "terms";

/// A text to be indexed, in its fields.
#[derive(Debug, Clone, Default)]
pub struct LexicalText<'a> {
    /// Qualified name.
    pub name: &'a str,
    /// Stem of the file's name.
    pub file: &'a str,
    /// Path of the file's directory.
    pub directory: &'a str,
    /// Docstring or leading comment.
    pub doc: &'a str,
    /// The source without `doc`.
    pub body: Cow<'a, str>,
    /// The symbol that the text defines, as written; empty if it defines none. It is used for lookups only, not
    /// scored.
    pub symbol: &'a str,
}

impl<'a> LexicalText<'a> {
    /// A text with a single field, such as a document of a data set.
    pub fn body(text: &'a str) -> Self {
        Self { body: Cow::Borrowed(text), ..Self::default() }
    }

    /// In the order of [`FIELDS`].
    fn fields(&self) -> [&str; N_FIELDS] {
        [self.name, self.file, self.directory, self.doc, &self.body]
    }
}

/// The parameters of BM25F; the defaults are the usual ones of BM25 with equal weights for all fields, which no other
/// weights significantly beat on the repository-search development set.
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25f {
    /// Weight of an occurrence in each field, in the order of [`FIELDS`]; 0 disables the field.
    pub weights: [f32; N_FIELDS],
    /// Saturation: how quickly further occurrences of a term stop counting; 1.2 by default.
    pub k1: f32,
    /// Length normalization of each field, 0 (none) to 1 (full), in the order of [`FIELDS`]; 0.75 by default.
    pub b: [f32; N_FIELDS],
}

impl Default for Bm25f {
    fn default() -> Self {
        Self { weights: [1.0; N_FIELDS], k1: 1.2, b: [0.75; N_FIELDS] }
    }
}

/// An inverted index over texts that are numbered from 0.
pub struct LexicalIndex {
    /// In the order of [`FIELDS`].
    mean_lengths: [f32; N_FIELDS],
    parts: Vec<Segment<Part>>,
    /// Maps the documents of parts to texts.
    numbering: Arc<Numbering>,
    /// The collection that its texts are scored among, if larger than themselves.
    whole: Option<WholeCollection>,
}

/// A tantivy segment.
pub(crate) struct Part {
    n_documents: usize,
    /// In the order of [`FIELDS`].
    fields: Vec<FieldReader>,
    symbols: SymbolReader,
}

struct FieldReader {
    field: Field,
    postings: Arc<InvertedIndexReader>,
    lengths: FieldNormReader,
}

/// BM25F scores of texts and of groups of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// One score for each text: 0 if no term occurs, larger is better, unbounded.
    pub texts: Vec<f32>,
    /// One score for each group, scored as one long text.
    pub groups: Vec<f32>,
    /// The inverse document frequency of each term among texts, greater than 0.
    pub idf: Vec<f32>,
    /// Share of the terms, weighted by inverse document frequency, that occur in each text, in any field, 0 to 1.
    pub matched: Vec<f32>,
    /// Share of the terms, weighted by inverse document frequency, that occur in any text, 0 to 1.
    pub known: f32,
    /// True for each term that occurs in any text.
    pub is_known: Vec<bool>,
}

/// Groups of consecutive texts.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    pub of_text: &'a [u32],
    /// The length of each group, in any unit.
    pub lengths: &'a [f32],
}

impl LexicalIndex {
    /// Indexes texts in memory, with the term rules of search.
    ///
    /// # Errors
    /// When there are more than 2³² texts, or they do not fit in memory.
    pub fn in_memory<'a>(texts: impl IntoIterator<Item = LexicalText<'a>>) -> Result<Self, Error> {
        Self::in_memory_by(TermRules::default(), texts)
    }

    /// Indexes texts in memory; queries must be split by the same rules.
    ///
    /// # Errors
    /// Like [`in_memory`](Self::in_memory).
    pub fn in_memory_by<'a>(
        rules: TermRules,
        texts: impl IntoIterator<Item = LexicalText<'a>>,
    ) -> Result<Self, Error> {
        let (mut n_texts, mut sizes) = (0, FieldSizes::default());
        let terms = texts.into_iter().map(|text| {
            let terms = Terms::with_rules(rules, &text);
            n_texts += 1;
            sizes.add(&terms.n_terms, &has_terms(&terms.n_terms));
            terms
        });
        let part = Part::in_memory(terms)?;
        let numbering = Arc::new(Numbering { n_units: n_texts, parts: vec![PartUnits::Run(0..n_texts)] });
        Ok(Self::from_parts(vec![part.into()], &numbering, &sizes))
    }

    /// Writes the part of an index with the given texts into an empty directory.
    pub(crate) fn create(directory: Directory, texts: impl IntoIterator<Item = Terms>) -> Result<(), Error> {
        write(SegmentDirectory::new(directory), texts)
    }

    /// An index of parts, in the order of the numbering. `sizes` are those of all texts that are numbered.
    pub(crate) fn from_parts(
        parts: Vec<Segment<Part>>,
        numbering: &Arc<Numbering>,
        sizes: &FieldSizes,
    ) -> Self {
        Self { mean_lengths: sizes.mean_lengths(), parts, numbering: Arc::clone(numbering), whole: None }
    }

    /// The same parts and another one, with another numbering.
    pub(crate) fn with_part(
        &self,
        part: Option<Part>,
        numbering: &Arc<Numbering>,
        sizes: &FieldSizes,
    ) -> Self {
        Self::from_parts(
            self.parts.iter().cloned().chain(part.map(Segment::from)).collect(),
            numbering,
            sizes,
        )
    }

    /// Its parts, in the order of the numbering.
    pub(crate) fn into_parts(self) -> Vec<Segment<Part>> {
        self.parts
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.numbering.n_units
    }

    /// Number of texts that these are scored among: themselves, unless they are part of a collection.
    pub(crate) fn n_among(&self) -> f32 {
        self.whole.as_ref().map_or(self.len() as f32, |whole| whole.n_texts)
    }

    /// Returns true if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Scores every text, and every group, for the terms of a query ([`quarry_text::query_terms`]); a repeated term
    /// counts repeatedly. BM25F as in Robertson and Zaragoza, *The Probabilistic Relevance Framework* (2009), section
    /// 3.6, with `ln(1 + (N − n + ½) / (n + ½))` as the inverse document frequency; for texts, N and n are numbers of
    /// texts, for groups, numbers of groups. Lengths are exact below 40 tokens and within 1/8 above.
    ///
    /// # Errors
    /// When the postings cannot be read.
    pub fn scores(&self, terms: &[String], parameters: &Bm25f, groups: Groups) -> Result<Scores, Error> {
        let found = self.term_matches(terms, parameters, groups)?;
        Ok(found.scores(0..terms.len(), self.len(), groups.lengths.len(), parameters.k1))
    }

    /// Addends of [`scores`](Self::scores), term by term, for scores of several sets of terms.
    pub(crate) fn term_matches(
        &self,
        terms: &[String],
        parameters: &Bm25f,
        groups: Groups,
    ) -> Result<TermMatches, Error> {
        let mean_group = match &self.whole {
            Some(whole) => whole.mean_group,
            None => groups.lengths.iter().sum::<f32>() / groups.lengths.len().max(1) as f32,
        };
        let norms = std::array::from_fn(|field| norms(parameters.b[field], self.mean_lengths[field]));
        let scorer = Scorer { norms, parameters, groups, mean_group };
        let matches_of = |part: usize| -> Result<Vec<Matches>, Error> {
            let (part, units) = (&*self.parts[part].get()?, &self.numbering.parts[part]);
            let mut window = Window::new();
            terms.iter().map(|term| scorer.matches(part, units, term, &mut window)).collect()
        };
        let of_parts: Vec<Vec<Matches>> = if self.parts.len() == 1 {
            vec![matches_of(0)?]
        } else {
            (0..self.parts.len()).into_par_iter().map(matches_of).collect::<Result<_, Error>>()?
        };
        let mut weights = Vec::with_capacity(terms.len());
        for (number, term) in terms.iter().enumerate() {
            let matches = || of_parts.iter().map(|part| &part[number]);
            // Number of all texts and of those with the term; the same of groups.
            let (among_texts, among_groups) = match &self.whole {
                Some(whole) => {
                    let TermCount { units, files } = whole.counts.count(term)?;
                    ((whole.n_texts, units as f32), (whole.n_groups, files as f32))
                }
                None => {
                    let n = |of: fn(&Matches) -> usize| matches().map(of).sum::<usize>() as f32;
                    let (n_texts, n_groups) = (n(|found| found.texts.len()), n(|found| found.groups.len()));
                    ((self.len() as f32, n_texts), (groups.lengths.len() as f32, n_groups))
                }
            };
            weights.push(TermWeight {
                of_text: inverse_frequency(among_texts.0, among_texts.1),
                of_group: inverse_frequency(among_groups.0, among_groups.1),
                is_known: among_texts.1 > 0.0,
            });
        }
        Ok(TermMatches { of_parts, weights })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TermWeight {
    /// Inverse document frequency among texts.
    pub of_text: f32,
    of_group: f32,
    /// True if any text has it.
    pub is_known: bool,
}

/// Occurrences of some terms.
pub(crate) struct TermMatches {
    /// By part, then by term.
    of_parts: Vec<Vec<Matches>>,
    pub weights: Vec<TermWeight>,
}

impl TermMatches {
    /// The scores of texts and groups for some of the terms, by their numbers.
    pub fn scores(
        &self,
        terms: impl IntoIterator<Item = usize>,
        n_texts: usize,
        n_groups: usize,
        k1: f32,
    ) -> Scores {
        let mut texts = vec![0.0; n_texts];
        let mut matched = vec![0.0; n_texts];
        let mut groups = vec![0.0; n_groups];
        let (mut idf, mut all_known) = (Vec::new(), Vec::new());
        let mut known = 0.0_f32;
        for term in terms {
            let matches = || self.of_parts.iter().map(|part| &part[term]);
            let TermWeight { of_text, of_group, is_known } = self.weights[term];
            weigh(&mut texts, matches().map(|found| &found.texts), k1, of_text);
            weigh(&mut groups, matches().map(|found| &found.groups), k1, of_group);
            idf.push(of_text);
            all_known.push(is_known);
            for found in matches() {
                found.texts.iter().for_each(|(text, _)| matched[*text as usize] += of_text);
            }
            known += if is_known { of_text } else { 0.0 };
        }
        let all = idf.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        matched.iter_mut().for_each(|share| *share /= all);
        Scores { texts, groups, idf, matched, known: known / all, is_known: all_known }
    }
}

impl Part {
    /// Indexes some texts in memory.
    ///
    /// # Errors
    /// When they do not fit in memory.
    pub fn in_memory(texts: impl IntoIterator<Item = Terms>) -> Result<Self, Error> {
        let directory = RamDirectory::create();
        write(directory.clone(), texts)?;
        Self::open(directory)
    }

    /// Opens the part that [`LexicalIndex::create`] wrote.
    ///
    /// # Errors
    /// When it is damaged, or does not contain this number of texts.
    pub fn stored(index: &Directory, part: &PartSize) -> Result<Self, Error> {
        let directory = open_directory(&part.directory(index)?, LEXICAL_DIRECTORY)?;
        let path = directory.path().to_owned();
        let (n_texts, opened) =
            (part.units, Self::open(SegmentDirectory::stored(directory, part.lexical_files()))?);
        if opened.n_documents == n_texts {
            return Ok(opened);
        }
        Err(Error::corrupt(&path, format!("expected {n_texts} texts, found {}", opened.n_documents)))
    }

    fn open(directory: impl tantivy::Directory) -> Result<Self, Error> {
        let index = tantivy::Index::open(directory)?;
        // Not through a reader, because that takes a lock, which needs a writable directory.
        let segments = index.searchable_segments()?;
        let segment = match segments.as_slice() {
            [segment] => SegmentReader::open(segment)?,
            _ => return Err(Error::LexicalSegments { found: segments.len() }),
        };
        let fields = FIELDS
            .iter()
            .map(|name| {
                let field = index.schema().get_field(name)?;
                Ok(FieldReader {
                    field,
                    postings: segment.inverted_index(field)?,
                    lengths: segment.get_fieldnorms_reader(field)?,
                })
            })
            .collect::<Result<_, tantivy::TantivyError>>()?;
        let field = index.schema().get_field(SYMBOL_FIELD)?;
        let symbols = SymbolReader { field, postings: segment.inverted_index(field)? };
        Ok(Self { n_documents: segment.max_doc() as usize, fields, symbols })
    }
}

/// Saturated but unweighted frequencies of a term in texts and in their groups.
struct Matches {
    texts: Vec<(u32, f32)>,
    groups: Vec<(u32, f32)>,
}

/// Documents that are scored together: few enough for their sums to stay in the L1 cache.
const WINDOW: usize = 2048;

/// Weighted frequencies of a term in consecutive documents; 0 outside `found`.
struct Window {
    /// Divided by the length normalization of the field.
    normalized: [f32; WINDOW],
    plain: [f32; WINDOW],
    /// One bit for each document.
    found: [u64; WINDOW / 64],
}

impl Window {
    fn new() -> Box<Self> {
        Box::new(Self { normalized: [0.0; WINDOW], plain: [0.0; WINDOW], found: [0; WINDOW / 64] })
    }

    /// Calls `emit` with the position, the normalized and the plain frequency of each document found, and clears them.
    fn drain(&mut self, mut emit: impl FnMut(usize, f32, f32)) {
        for (first, found) in (0..).step_by(64).zip(&mut self.found) {
            while *found != 0 {
                let at = first + found.trailing_zeros() as usize;
                *found &= *found - 1;
                emit(at, std::mem::take(&mut self.normalized[at]), std::mem::take(&mut self.plain[at]));
            }
        }
    }
}

/// The postings of a term in a field, decoded by blocks.
struct FieldPostings<'a> {
    blocks: BlockSegmentPostings,
    /// Position in the block.
    at: usize,
    lengths: &'a FieldNormReader,
    weight: f32,
    norms: &'a [f32; N_LENGTHS],
}

impl FieldPostings<'_> {
    /// The next document.
    fn document(&self) -> Option<u32> {
        self.blocks.docs().get(self.at).copied()
    }

    /// Adds the frequencies in the documents of the window that begins with document `start`.
    fn add_to(&mut self, window: &mut Window, start: u32) {
        loop {
            let documents = &self.blocks.docs()[self.at..];
            let n = documents.partition_point(|&document| ((document - start) as usize) < WINDOW);
            for (&document, &frequency) in documents[..n].iter().zip(&self.blocks.freqs()[self.at..]) {
                let at = (document - start) as usize;
                let frequency = self.weight * frequency as f32;
                window.found[at / 64] |= 1 << (at % 64);
                window.plain[at] += frequency;
                window.normalized[at] +=
                    frequency / self.norms[usize::from(self.lengths.fieldnorm_id(document))];
            }
            self.at += n;
            if n == 0 || self.document().is_some() {
                return;
            }
            self.blocks.advance();
            self.at = 0;
        }
    }
}

/// Number of distinct lengths that the index stores.
const N_LENGTHS: usize = 256;

/// The divisor of the frequencies in a field, by the id of the field's length.
fn norms(b: f32, mean_length: f32) -> [f32; N_LENGTHS] {
    std::array::from_fn(|id| {
        let length = FieldNormReader::id_to_fieldnorm(id as u8) as f32 / mean_length;
        1.0 - b + b * length
    })
}

struct Scorer<'a> {
    norms: [[f32; N_LENGTHS]; N_FIELDS],
    parameters: &'a Bm25f,
    groups: Groups<'a>,
    mean_group: f32,
}

impl Scorer<'_> {
    /// The matches of a term in a part. The documents of a group are consecutive and in one part.
    fn matches(
        &self,
        part: &Part,
        units: &PartUnits,
        term: &str,
        window: &mut Window,
    ) -> Result<Matches, Error> {
        let mut postings = self.postings(part, term)?;
        let Bm25f { k1, b, .. } = self.parameters;
        let mut matches = Matches { texts: Vec::new(), groups: Vec::new() };
        while let Some(start) = postings.iter().filter_map(FieldPostings::document).min() {
            postings.iter_mut().for_each(|postings| postings.add_to(window, start));
            window.drain(|at, frequency, plain| {
                let Some(text) = units.unit(start as usize + at) else { return };
                matches.texts.push((text as u32, frequency / (k1 + frequency)));
                if let Some(&group) = self.groups.of_text.get(text) {
                    match matches.groups.last_mut() {
                        Some((last, sum)) if *last == group => *sum += plain,
                        _ => matches.groups.push((group, plain)),
                    }
                }
            });
        }
        for (group, frequency) in &mut matches.groups {
            let b = b[N_FIELDS - 1];
            *frequency /= 1.0 - b + b * self.groups.lengths[*group as usize] / self.mean_group;
            *frequency /= k1 + *frequency;
        }
        Ok(matches)
    }

    /// The postings of a term in a part by field, without unscored fields.
    fn postings<'p>(&'p self, part: &'p Part, term: &str) -> Result<Vec<FieldPostings<'p>>, Error> {
        let fields = part.fields.iter().zip(&self.norms).zip(self.parameters.weights);
        let open = |((reader, norms), weight): ((&'p FieldReader, &'p _), f32)| {
            let term = Term::from_field_text(reader.field, term);
            let blocks = reader.postings.read_block_postings(&term, IndexRecordOption::WithFreqs);
            let blocks = blocks.map_err(tantivy::TantivyError::from).transpose()?;
            Some(blocks.map(|blocks| FieldPostings {
                blocks,
                at: 0,
                lengths: &reader.lengths,
                weight,
                norms,
            }))
        };
        Ok(fields.filter(|(_, weight)| *weight != 0.0).filter_map(open).collect::<Result<_, _>>()?)
    }
}

/// Adds a term's share to scores.
fn weigh<'m>(scores: &mut [f32], matches: impl Iterator<Item = &'m Vec<(u32, f32)>>, k1: f32, weight: f32) {
    for &(at, saturated) in matches.flatten() {
        scores[at as usize] += weight * (k1 + 1.0) * saturated;
    }
}

/// The inverse document frequency of a term that occurs in some of `n` texts.
fn inverse_frequency(n: f32, n_matches: f32) -> f32 {
    // Numbers of another collection may be from different moments.
    let n_matches = n_matches.min(n);
    (1.0 + (n - n_matches + 0.5) / (n_matches + 0.5)).ln()
}

/// Writes one segment, so that a text's number is its position in `texts`.
fn write(directory: impl tantivy::Directory, texts: impl IntoIterator<Item = Terms>) -> Result<(), Error> {
    let mut schema = Schema::builder();
    let indexing =
        TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(IndexRecordOption::WithFreqs);
    let options = TextOptions::default().set_indexing_options(indexing);
    let fields = FIELDS.map(|name| schema.add_text_field(name, options.clone()));
    let whole = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::Basic)
        .set_fieldnorms(false);
    let symbol = schema.add_text_field(SYMBOL_FIELD, TextOptions::default().set_indexing_options(whole));
    let tokenizers = TokenizerManager::new();
    tokenizers.register(TOKENIZER, TermSplitter::default());
    let mut writer = tantivy::Index::builder()
        .schema(schema.build())
        .tokenizers(tokenizers)
        .single_segment_index_writer(directory, WRITER_BYTES)?;
    for text in texts {
        let mut document = TantivyDocument::new();
        let values = fields.iter().zip(text.fields).chain([(&symbol, text.symbol)]);
        for (field, value) in values.filter(|(_, value)| !value.is_empty()) {
            document.add_field_value(*field, &tantivy::schema::OwnedValue::Str(value));
        }
        writer.add_document(document)?;
    }
    writer.finalize()?;
    Ok(())
}

#[cfg(test)]
mod tests;
