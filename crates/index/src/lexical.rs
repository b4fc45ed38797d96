//! Lexical search: BM25F over an inverted index.
//!
//! The postings are tantivy's; the scores are computed here, a term at a time into one value a text, because
//! ranking wants three things at once that a query engine does not give: saturation across fields (BM25F), the
//! score of *every* text, and the same for groups of texts (files).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use quarry_text::lexical_terms;
use tantivy::directory::{Directory, MmapDirectory, RamDirectory};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer, TokenizerManager};
use tantivy::{DocSet, InvertedIndexReader, ReloadPolicy, TERMINATED, TantivyDocument, Term};

use crate::Error;

/// Number of fields of a text.
pub const N_FIELDS: usize = 5;

/// Names of the fields, in the order that every array by field follows.
pub const FIELDS: [&str; N_FIELDS] = ["name", "file", "folder", "doc", "body"];

/// Memory for the terms of a segment before it must be written.
const WRITER_BYTES: usize = 64 << 20;

/// Name under which the index knows the tokenizer.
const TOKENIZER: &str = "lexical_terms";

/// A text to be indexed, in its fields.
#[derive(Debug, Clone, Default)]
pub struct LexicalText<'a> {
    /// Qualified name.
    pub name: &'a str,
    /// Stem of the file's name.
    pub file: &'a str,
    /// Path of the file's folder.
    pub folder: &'a str,
    /// Docstring or leading comment.
    pub doc: &'a str,
    /// The source without `doc`.
    pub body: Cow<'a, str>,
}

impl<'a> LexicalText<'a> {
    /// A text of one field, as a document of a data set is.
    #[must_use]
    pub fn body(text: &'a str) -> Self {
        Self { body: Cow::Borrowed(text), ..Self::default() }
    }

    /// In the order of [`FIELDS`].
    fn fields(&self) -> [&str; N_FIELDS] {
        [self.name, self.file, self.folder, self.doc, &self.body]
    }
}

/// The parameters of BM25F; the default is the usual one of BM25, all fields weighing the same, which on the
/// repository-search development set no other weights beat by more than chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25f {
    /// Weight of an occurrence in each field, in the order of [`FIELDS`]; 0 leaves the field out.
    pub weights: [f32; N_FIELDS],
    /// How fast further occurrences of a term stop counting; 1.2 by default.
    pub k1: f32,
    /// How much a field's length counts, 0 (not) to 1 (fully), in the order of [`FIELDS`]; 0.75 by default.
    pub b: [f32; N_FIELDS],
}

impl Default for Bm25f {
    fn default() -> Self {
        Self { weights: [1.0; N_FIELDS], k1: 1.2, b: [0.75; N_FIELDS] }
    }
}

/// An inverted index over texts that are numbered from 0 in the order in which they were added.
pub struct LexicalIndex {
    n_texts: usize,
    /// In the order of [`FIELDS`].
    fields: Vec<FieldReader>,
}

struct FieldReader {
    field: Field,
    postings: Arc<InvertedIndexReader>,
    lengths: FieldNormReader,
    mean_length: f32,
}

/// BM25F of texts and of the groups that they form.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// One score a text: 0 where no term occurs, greater is better, unbounded.
    pub texts: Vec<f32>,
    /// One score a group, each taken as one long text.
    pub groups: Vec<f32>,
    /// The inverse document frequency of each term among texts, above 0.
    pub idf: Vec<f32>,
}

/// How texts form groups.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The group of each text.
    pub of_text: &'a [u32],
    /// The length of each group, in any unit.
    pub lengths: &'a [f32],
}

impl LexicalIndex {
    /// Indexes texts in memory.
    ///
    /// # Errors
    /// When the texts are over 2³² or hold more than memory does.
    pub fn in_memory<'a>(texts: impl IntoIterator<Item = LexicalText<'a>>) -> Result<Self, Error> {
        let directory = RamDirectory::create();
        write(directory.clone(), texts)?;
        Self::from_directory(directory)
    }

    /// Writes the index of texts into an empty folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create<'a>(folder: &Path, texts: impl IntoIterator<Item = LexicalText<'a>>) -> Result<(), Error> {
        let directory = MmapDirectory::open(folder).map_err(tantivy::TantivyError::from)?;
        write(directory, texts)
    }

    /// Opens what [`create`](Self::create) wrote.
    ///
    /// # Errors
    /// When the folder does not hold an index of this kind.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Self::from_directory(MmapDirectory::open(folder).map_err(tantivy::TantivyError::from)?)
    }

    fn from_directory(directory: impl Directory) -> Result<Self, Error> {
        let index = tantivy::Index::open(directory)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        let segment = match searcher.segment_readers() {
            [segment] => segment,
            segments => return Err(Error::LexicalSegments { found: segments.len() }),
        };
        let fields = FIELDS
            .iter()
            .map(|name| {
                let field = index.schema().get_field(name)?;
                let postings = segment.inverted_index(field)?;
                let mean_length = postings.total_num_tokens() as f32 / segment.max_doc().max(1) as f32;
                Ok(FieldReader {
                    field,
                    postings,
                    lengths: segment.get_fieldnorms_reader(field)?,
                    mean_length,
                })
            })
            .collect::<Result<_, tantivy::TantivyError>>()?;
        Ok(Self { n_texts: segment.max_doc() as usize, fields })
    }

    /// Number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_texts
    }

    /// True without texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_texts == 0
    }

    /// Scores every text, and every group, for the terms of a query ([`quarry_text::query_terms`]); a term that
    /// stands twice counts twice. BM25F as in Robertson and Zaragoza, *The Probabilistic Relevance Framework*
    /// (2009), section 3.6, with `ln(1 + (N − n + ½) / (n + ½))` for the inverse document frequency; N and n count
    /// texts for texts and groups for groups. Lengths are exact below 40 tokens and within 1/8 above.
    ///
    /// # Errors
    /// When the postings cannot be read.
    pub fn scores(&self, terms: &[String], parameters: &Bm25f, groups: Groups) -> Result<Scores, Error> {
        let mut texts = Accumulator::new(self.n_texts);
        let mut of_groups = Accumulator::new(groups.lengths.len());
        let mut idf = Vec::with_capacity(terms.len());
        let mean_group = groups.lengths.iter().sum::<f32>() / groups.lengths.len().max(1) as f32;
        for term in terms {
            for (reader, (&weight, &b)) in
                self.fields.iter().zip(parameters.weights.iter().zip(&parameters.b))
            {
                if weight == 0.0 {
                    continue;
                }
                let term = Term::from_field_text(reader.field, term);
                let postings = reader.postings.read_postings(&term, IndexRecordOption::WithFreqs);
                let Some(mut postings) = postings.map_err(tantivy::TantivyError::from)? else { continue };
                let mut text = postings.doc();
                while text != TERMINATED {
                    let frequency = weight * postings.term_freq() as f32;
                    let length = reader.lengths.fieldnorm(text) as f32 / reader.mean_length;
                    texts.add(text, frequency / (1.0 - b + b * length));
                    if let Some(&group) = groups.of_text.get(text as usize) {
                        of_groups.add(group, frequency);
                    }
                    text = postings.advance();
                }
            }
            idf.push(texts.finish_term(parameters.k1, |_| 1.0));
            of_groups.finish_term(parameters.k1, |group| {
                let b = parameters.b[N_FIELDS - 1];
                1.0 - b + b * groups.lengths[group as usize] / mean_group
            });
        }
        Ok(Scores { texts: texts.scores, groups: of_groups.scores, idf })
    }
}

/// BM25 scores that grow term by term.
struct Accumulator {
    scores: Vec<f32>,
    /// Weighted frequency of the current term; 0 outside of `touched`.
    frequencies: Vec<f32>,
    touched: Vec<u32>,
}

impl Accumulator {
    fn new(n: usize) -> Self {
        Self { scores: vec![0.0; n], frequencies: vec![0.0; n], touched: Vec::new() }
    }

    fn add(&mut self, id: u32, frequency: f32) {
        let sum = &mut self.frequencies[id as usize];
        if *sum == 0.0 {
            self.touched.push(id);
        }
        *sum += frequency;
    }

    /// Turns the frequencies of a term, over what `length` gives, into scores; returns the term's inverse document
    /// frequency.
    fn finish_term(&mut self, k1: f32, length: impl Fn(u32) -> f32) -> f32 {
        let (n, n_touched) = (self.scores.len() as f32, self.touched.len() as f32);
        let idf = (1.0 + (n - n_touched + 0.5) / (n_touched + 0.5)).ln();
        for id in self.touched.drain(..) {
            let frequency = std::mem::take(&mut self.frequencies[id as usize]) / length(id);
            self.scores[id as usize] += idf * (k1 + 1.0) * frequency / (k1 + frequency);
        }
        idf
    }
}

/// Writes one segment, so that a text's number is its place in `texts`.
fn write<'a>(
    directory: impl Directory,
    texts: impl IntoIterator<Item = LexicalText<'a>>,
) -> Result<(), Error> {
    let mut schema = Schema::builder();
    let indexing =
        TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(IndexRecordOption::WithFreqs);
    let options = TextOptions::default().set_indexing_options(indexing);
    let fields = FIELDS.map(|name| schema.add_text_field(name, options.clone()));
    let tokenizers = TokenizerManager::new();
    tokenizers.register(TOKENIZER, LexicalTokenizer::default());
    let mut writer = tantivy::Index::builder()
        .schema(schema.build())
        .tokenizers(tokenizers)
        .single_segment_index_writer(directory, WRITER_BYTES)?;
    for text in texts {
        let mut document = TantivyDocument::new();
        for (field, value) in fields.iter().zip(text.fields()) {
            document.add_text(*field, value);
        }
        writer.add_document(document)?;
    }
    writer.finalize()?;
    Ok(())
}

/// [`lexical_terms`] as a tokenizer for tantivy.
#[derive(Clone, Default)]
struct LexicalTokenizer {
    terms: String,
    /// End of each term in `terms`.
    ends: Vec<usize>,
    token: Token,
}

struct LexicalTokens<'a> {
    tokenizer: &'a mut LexicalTokenizer,
    next: usize,
}

impl Tokenizer for LexicalTokenizer {
    type TokenStream<'a> = LexicalTokens<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        self.terms.clear();
        self.ends.clear();
        lexical_terms(text, |term, _| {
            self.terms.push_str(term);
            self.ends.push(self.terms.len());
        });
        LexicalTokens { tokenizer: self, next: 0 }
    }
}

impl TokenStream for LexicalTokens<'_> {
    fn advance(&mut self) -> bool {
        let LexicalTokenizer { terms, ends, token } = &mut *self.tokenizer;
        let Some(&end) = ends.get(self.next) else { return false };
        let start = if self.next == 0 { 0 } else { ends[self.next - 1] };
        token.position = self.next;
        token.text.clear();
        token.text.push_str(&terms[start..end]);
        self.next += 1;
        true
    }

    fn token(&self) -> &Token {
        &self.tokenizer.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.tokenizer.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(query: &str) -> Vec<String> {
        quarry_text::query_terms(query)
    }

    const NO_GROUPS: Groups = Groups { of_text: &[], lengths: &[] };

    #[test]
    fn agrees_with_bm25_worked_by_hand() {
        let texts = ["cat dog", "dog dog bird", "fish"];
        let index = LexicalIndex::in_memory(texts.map(LexicalText::body)).unwrap();
        let scores = index.scores(&terms("dog bird"), &Bm25f::default(), NO_GROUPS).unwrap().texts;
        // N = 3, mean length 2; dog: n = 2, bird: n = 1.
        let (dog, bird) = ((1.0_f32 + 1.5 / 2.5).ln(), (1.0_f32 + 2.5 / 1.5).ln());
        let saturate = |tf: f32, length: f32| tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / 2.0));
        let expected = [dog * saturate(1.0, 2.0), dog * saturate(2.0, 3.0) + bird * saturate(1.0, 3.0), 0.0];
        for (found, expected) in scores.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{scores:?} {expected}");
        }
    }

    #[test]
    fn fields_saturate_together() {
        let dogs = LexicalText { name: "dog", doc: "dog", ..LexicalText::body("dog") };
        let index =
            LexicalIndex::in_memory([dogs, LexicalText::body("cat"), LexicalText::body("cow")]).unwrap();
        let flat = |weights| Bm25f { weights, b: [0.0; N_FIELDS], ..Bm25f::default() };
        let score = |weights| index.scores(&terms("dog"), &flat(weights), NO_GROUPS).unwrap().texts[0];
        let thrice = score([1.0, 0.0, 0.0, 1.0, 1.0]);
        assert!((thrice - score([3.0, 0.0, 0.0, 0.0, 0.0])).abs() < 1e-6);
        assert!(thrice < 3.0 * score([1.0, 0.0, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn a_group_scores_as_one_text() {
        let index =
            LexicalIndex::in_memory(["red dog", "blue dog", "red fish"].map(LexicalText::body)).unwrap();
        let whole = LexicalIndex::in_memory(["red dog blue dog", "red fish"].map(LexicalText::body)).unwrap();
        let groups = Groups { of_text: &[0, 0, 1], lengths: &[4.0, 2.0] };
        let query = terms("blue dog");
        let grouped = index.scores(&query, &Bm25f::default(), groups).unwrap().groups;
        let expected = whole.scores(&query, &Bm25f::default(), NO_GROUPS).unwrap().texts;
        for (found, expected) in grouped.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{grouped:?} {expected}");
        }
    }

    #[test]
    fn the_folder_and_memory_agree() {
        let texts = ["read a csv file", "write_csv(path)", ""];
        let folder = tempfile::tempdir().unwrap();
        LexicalIndex::create(folder.path(), texts.map(LexicalText::body)).unwrap();
        let on_disk = LexicalIndex::open(folder.path()).unwrap();
        let in_memory = LexicalIndex::in_memory(texts.map(LexicalText::body)).unwrap();
        assert_eq!(on_disk.len(), 3);
        let scores =
            |index: &LexicalIndex| index.scores(&terms("csv file"), &Bm25f::default(), NO_GROUPS).unwrap();
        assert_eq!(scores(&on_disk), scores(&in_memory));
        assert!(scores(&on_disk).texts[0] > scores(&on_disk).texts[1]);
    }

    #[test]
    fn an_empty_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(LexicalIndex::open(folder.path()).is_err());
    }
}
