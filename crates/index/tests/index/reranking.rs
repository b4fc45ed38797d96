//! The first results in the order of a re-ranker.

use std::fs::File;

use quarry_embed::{PairModel, TokenEmbedder, WithCrossEncoder, WithReranker, WithStoredReranker};
use quarry_index::PrecomputedCounts;

use super::*;

/// A document with the word is like every query, all others are not.
struct Prefers(&'static str);

/// Counts the documents that it embeds.
struct Counts<'a>(Prefers, &'a AtomicUsize);

impl Embedder for Prefers {
    fn id(&self) -> &str {
        self.0
    }

    fn dimension(&self) -> usize {
        2
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(Vectors { dimension: 2, values: [1.0, 0.0].repeat(texts.len()) })
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let row = |text: &&str| if text.contains(self.0) { [1.0, 0.0] } else { [0.0, 1.0] };
        Ok(Vectors { dimension: 2, values: texts.iter().flat_map(row).collect() })
    }
}

impl PairModel for Prefers {
    fn id(&self) -> &str {
        self.0
    }

    fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError> {
        assert!(pairs.iter().all(|(query, _)| *query == QUERY));
        Ok(pairs.iter().map(|(_, document)| if document.contains(self.0) { 2.0 } else { -3.0 }).collect())
    }
}

impl Embedder for Counts<'_> {
    fn id(&self) -> &str {
        Embedder::id(&self.0)
    }

    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.0.embed_queries(texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.1.fetch_add(texts.len(), Ordering::SeqCst);
        self.0.embed_documents(texts)
    }
}

fn open(fixture: &Fixture, reranker: Option<&'static str>) -> Index {
    let first: Arc<dyn Embedder> = WordHashes::new("words");
    let model: Arc<dyn Embedder> = match reranker {
        Some(word) => Arc::new(WithReranker { first, reranker: Arc::new(Prefers(word)) }),
        None => first,
    };
    fixture.open_with(Some(model)).unwrap().index
}

const QUERY: &str = "wait until the reply to a request arrives, again and again";

fn tree() -> Fixture {
    let function = |name: &str, word: &str| {
        format!(
            "def {name}(socket):\n    \"\"\"Wait until the reply to a request arrives {word}.\"\"\"\n    return socket\n"
        )
    };
    Fixture::new(&[("a.py", &function("first", "again")), ("b.py", &function("second", "zebra"))])
}

#[test]
fn a_reranker_orders_questions_about_functions() {
    let fixture = tree();
    assert_eq!(paths(&search(&open(&fixture, None), QUERY)), ["a.py", "b.py"]);
    let preferring = open(&fixture, Some("zebra"));
    let hits = search(&preferring, QUERY);
    assert_eq!(paths(&hits), ["b.py", "a.py"]);
    assert_eq!(hits[0].parts.reranker, 1.0);
    assert_eq!(hits[0].parts.reranker_factor, 1.0);
    assert!(hits[1].parts.reranker_factor < 0.1, "{:?}", hits[1].parts);
    // The vectors of the index are those of the first model, so it is not built again.
    assert!(fixture.open_with(Some(WordHashes::new("words"))).unwrap().built.is_none());
    // A unit that is asked for by name is found by name.
    assert_eq!(paths(&search(&preferring, "first"))[0], "a.py");
}

#[test]
fn a_reranker_changes_no_confidence() {
    let fixture = tree();
    for query in [QUERY, "first", "zebra unicorn host recipes"] {
        let without = answer(&open(&fixture, None), query).unwrap();
        for word in ["zebra", "again", "nothing here"] {
            let with = answer(&open(&fixture, Some(word)), query).unwrap();
            assert_eq!((with.confidence, with.evidence), (without.confidence, without.evidence), "{query}");
        }
    }
}

#[test]
fn unreadable_units_score_like_the_worst_readable_one() {
    let fixture = tree();
    let index = open(&fixture, Some("zebra"));
    fs::remove_file(fixture.root().join("b.py")).unwrap();
    let hits = search(&index, QUERY);
    assert_eq!(paths(&hits), ["a.py", "b.py"]);
    assert_eq!((hits[1].parts.reranker, hits[1].parts.reranker_factor), (0.0, 1.0));
}

#[test]
fn a_cross_encoder_has_the_last_word() {
    let fixture = tree();
    let open = |word: &'static str, embedder: Arc<dyn Embedder>| {
        let model = WithCrossEncoder { embedder, cross_encoder: Arc::new(Prefers(word)) };
        fixture.open_with(Some(Arc::new(model))).unwrap().index
    };
    let index = open("zebra", WordHashes::new("words"));
    let hits = search(&index, QUERY);
    assert_eq!(paths(&hits), ["b.py", "a.py"]);
    assert_eq!((hits[0].parts.cross_encoder, hits[0].parts.cross_encoder_factor), (2.0, 1.0));
    assert_eq!((hits[1].parts.cross_encoder, hits[1].parts.reranker), (-3.0, 0.0));
    // Its log-odds count as they are, as far as a function is wanted.
    let function = 1.0 - hits[1].parts.file_probability;
    assert!((hits[1].parts.cross_encoder_factor.ln() + 5.0 * function).abs() < 1e-3, "{:?}", hits[1].parts);
    assert_eq!(paths(&search(&index, "first"))[0], "a.py");
    // After a re-ranker, what that one found stays evidence.
    let first: Arc<dyn Embedder> = WordHashes::new("words");
    let reranked = Arc::new(WithReranker { first, reranker: Arc::new(Prefers("zebra")) });
    let both = search(&open("again", reranked), QUERY);
    assert_eq!(both.iter().map(|hit| hit.parts.reranker).fold(0.0, f32::max), 1.0);
    assert!(both.iter().all(|hit| hit.parts.cross_encoder != 0.0));
    // An unreadable unit counts like the worst one that was read.
    fs::remove_file(fixture.root().join("b.py")).unwrap();
    let hits = search(&index, QUERY);
    assert_eq!((hits[1].parts.cross_encoder, hits[1].parts.cross_encoder_factor), (0.0, 1.0));
}

/// Number of documents embedded since the last call.
fn taken(count: &AtomicUsize) -> usize {
    count.swap(0, Ordering::SeqCst)
}

fn open_counting(fixture: &Fixture, count: &'static AtomicUsize) -> Index {
    let reranker = Arc::new(Counts(Prefers("zebra"), count));
    let model = Arc::new(WithReranker { first: WordHashes::new("words"), reranker });
    fixture.open_with(Some(model)).unwrap().index
}

const NEVER: &(dyn Fn() -> bool + Sync) = &|| false;

fn embed_ahead(index: &Index, stop: &(dyn Fn() -> bool + Sync)) -> PrecomputedCounts {
    index.precomputation().unwrap().embed(stop, &|_| {}).unwrap()
}

fn counts(embedded: usize, missing: usize) -> PrecomputedCounts {
    PrecomputedCounts { embedded, missing, is_elsewhere: false }
}

#[test]
fn searches_do_not_read_precomputed_units() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let fixture = tree();
    let index = open_counting(&fixture, &COUNT);
    let expected = search(&index, QUERY);
    assert_eq!((paths(&expected), taken(&COUNT)), (vec!["b.py", "a.py"], 2));
    assert_eq!(embed_ahead(&index, NEVER), counts(2, 0));
    assert_eq!(taken(&COUNT), 2);
    // An index that is open stays as it was.
    search(&index, QUERY);
    assert_eq!(taken(&COUNT), 2);
    let index = open_counting(&fixture, &COUNT);
    let hits = search(&index, QUERY);
    assert_eq!((paths(&hits), taken(&COUNT)), (paths(&expected), 0));
    assert!((hits[0].parts.reranker - expected[0].parts.reranker).abs() < 0.01);
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts::default());
    // The vectors of what does not change are kept.
    fixture.write("b.py", "def third(socket):\n    return socket.zebra()\n");
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), counts(1, 0));
    assert_eq!(taken(&COUNT), 1);
    // Nor does a search without the re-ranker drop them.
    fixture.write("c.py", "def fourth(socket):\n    return socket.horse()\n");
    fixture.open_with(Some(WordHashes::new("words"))).unwrap();
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), counts(1, 0));
}

#[test]
fn precomputation_resumes_where_it_was_stopped() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let function = |n: usize| format!("def function_{n}(socket):\n    return socket.wait({n})\n\n\n");
    let source: String = (0..150).map(function).collect();
    let fixture = Fixture::new(&[("a.py", &source)]);
    let index = open_counting(&fixture, &COUNT);
    let asked = AtomicUsize::new(0);
    let after_one = || asked.fetch_add(1, Ordering::SeqCst) == 1;
    let PrecomputedCounts { embedded, missing, .. } = embed_ahead(&index, &after_one);
    assert!(embedded > 0 && missing > 0, "{embedded} {missing}");
    assert_eq!(taken(&COUNT), embedded);
    assert_eq!(embed_ahead(&index, NEVER), counts(missing, 0));
    assert_eq!(taken(&COUNT), missing);
}

#[test]
fn embedding_ahead_yields_to_a_writer() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let fixture = tree();
    let index = open_counting(&fixture, &COUNT);
    // The writer replaces the part whose units are about to be embedded.
    let write = || {
        fixture.write("a.py", "def first(socket):\n    \"\"\"Wait until the zebra arrives.\"\"\"\n");
        fixture.open_with(Some(WordHashes::new("words"))).unwrap();
        false
    };
    assert_eq!(embed_ahead(&index, &write), counts(0, 2));
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), counts(2, 0));
    taken(&COUNT);
    let hits = search(&open_counting(&fixture, &COUNT), QUERY);
    assert_eq!(taken(&COUNT), 0);
    assert!(hits.iter().all(|hit| hit.parts.reranker > 0.99), "{hits:?}");
}

#[test]
fn one_process_at_a_time_embeds_in_the_background() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let fixture = tree();
    let index = open_counting(&fixture, &COUNT);
    taken(&COUNT);
    let work = index.precomputation().unwrap();
    assert_eq!(work.directories(), [fixture.index_directory()]);
    let lock = File::create(fixture.index_directory().join("ahead.lock")).unwrap();
    lock.lock().unwrap();
    let elsewhere = PrecomputedCounts { is_elsewhere: true, ..counts(0, 2) };
    assert_eq!(work.embed_in_background(NEVER).unwrap(), elsewhere);
    assert_eq!(taken(&COUNT), 0);
    // The other one has ended.
    lock.unlock().unwrap();
    assert_eq!(work.embed_in_background(NEVER).unwrap(), counts(2, 0));
    lock.lock().unwrap();
    assert_eq!(work.embed_in_background(NEVER).unwrap(), counts(0, 0));
    // Whoever asks for it does not wait for the background.
    fixture.write("a.py", "def first(socket):\n    \"\"\"Wait until the zebra arrives.\"\"\"\n");
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), counts(1, 0));
    // If nothing can be written, nothing is computed.
    taken(&COUNT);
    fs::remove_file(fixture.index_directory().join("ahead.lock")).unwrap();
    fs::create_dir(fixture.index_directory().join("ahead.lock")).unwrap();
    assert!(index.precomputation().unwrap().embed_in_background(NEVER).is_err());
    assert_eq!(taken(&COUNT), 0);
}

#[test]
fn units_of_several_trees_are_embedded_ahead() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (one, other) = (tree(), Fixture::new(&[("c.py", "def third(zebra):\n    return zebra\n")]));
    let together = || Index::merge(vec![open_counting(&one, &COUNT), open_counting(&other, &COUNT)]);
    assert_eq!(embed_ahead(&together().unwrap(), NEVER), counts(3, 0));
    taken(&COUNT);
    search(&together().unwrap(), QUERY);
    assert_eq!(taken(&COUNT), 0);
}

/// Opens the index with a re-ranker of stored vectors, of up to `max_units` units, and counts how often it is loaded.
fn open_stored(fixture: &Fixture, max_units: usize, n_loaded: &Arc<AtomicUsize>) -> Index {
    let n_loaded = Arc::clone(n_loaded);
    let load = move || {
        n_loaded.fetch_add(1, Ordering::SeqCst);
        Some(Arc::new(Prefers("zebra")) as Arc<dyn Embedder>)
    };
    let model = WithStoredReranker::new(WordHashes::new("words"), max_units, load);
    fixture.open_with(Some(Arc::new(model))).unwrap().index
}

#[test]
fn a_reranker_of_stored_vectors_orders_results_once_they_are_there() {
    let fixture = tree();
    let n_loaded = Arc::new(AtomicUsize::new(0));
    let rank = |index: &Index, query: &str| {
        let filter = Filter::default();
        let ranked = index.rank(&request(query, &filter)).unwrap();
        let hits = index.response(&ranked, 10).hits;
        (hits.into_iter().map(|hit| hit.path).collect::<Vec<String>>(), ranked.is_reranked())
    };
    let index = open_stored(&fixture, 2, &n_loaded);
    let owned = |paths: [&str; 2]| paths.map(str::to_owned).to_vec();
    assert_eq!(rank(&index, QUERY), (owned(["a.py", "b.py"]), false));
    // Nothing is embedded ahead of a tree above the limit.
    assert!(open_stored(&fixture, index.n_units() - 1, &n_loaded).precomputation().is_none());
    assert_eq!((n_loaded.load(Ordering::SeqCst), index.n_not_precomputed().unwrap()), (0, index.n_units()));
    index.precomputation().unwrap().embed(&|| false, &|_| {}).unwrap();
    assert_eq!(n_loaded.load(Ordering::SeqCst), 1);
    let index = open_stored(&fixture, 2, &n_loaded);
    assert_eq!(index.n_not_precomputed().unwrap(), 0);
    assert_eq!(rank(&index, QUERY), (owned(["b.py", "a.py"]), true));
    assert_eq!(rank(&index, "first").0[0], "a.py");
    // Reports gain nothing by it.
    let report = format!(
        "Bug: it waits forever\n\n{QUERY}\n\nTraceback (most recent call last):\n  File \"b.py\", line 3, in second\nValueError: no reply\n"
    );
    assert!(!rank(&index, &report).1);
    let options = OpenOptions { directory: Some(fixture.index_directory()), ..OpenOptions::default() };
    let status = Index::status(&fixture.root(), &options).unwrap().index.unwrap();
    assert_eq!(status.precomputed.into_iter().collect::<Vec<_>>(), [("zebra".to_owned(), index.n_units())]);
    // Half of the results are new: their vectors are missing.
    fixture.write("a.py", "def first(socket):\n    \"\"\"Wait until the reply to a request arrives again.\"\"\"\n    return None\n");
    let index = open_stored(&fixture, 2, &n_loaded);
    assert!(!rank(&index, QUERY).1);
    assert!(index.n_not_precomputed().unwrap() > 0);
}

/// Gives each word of a text a vector: of the word it prefers, or of any other.
impl TokenEmbedder for Prefers {
    fn query_tokens(&self, _: &str) -> Result<Vectors, EmbedError> {
        Ok(Vectors { dimension: 2, values: vec![1.0, 0.0, 0.0, 1.0] })
    }

    fn document_tokens(&self, texts: &[&str]) -> Result<Vec<Vectors>, EmbedError> {
        let of_text = |text: &&str| {
            let row = |word: &str| if word.contains(self.0) { [1.0, 0.0] } else { [0.0, 1.0] };
            Vectors { dimension: 2, values: text.split_whitespace().flat_map(row).collect() }
        };
        Ok(texts.iter().map(of_text).collect())
    }
}

/// Prefers a word by the vectors of tokens.
struct ByTokens(Prefers);

impl Embedder for ByTokens {
    fn id(&self) -> &str {
        "by tokens"
    }

    fn dimension(&self) -> usize {
        2
    }

    fn embed_queries(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
        unreachable!("it gives several vectors")
    }

    fn embed_documents(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
        unreachable!("it gives several vectors")
    }

    fn token_embedder(&self) -> Option<&dyn TokenEmbedder> {
        Some(&self.0)
    }
}

#[test]
fn a_reranker_may_give_each_token_a_vector() {
    let fixture = tree();
    let open = || {
        let (first, reranker) = (WordHashes::new("words"), Arc::new(ByTokens(Prefers("zebra"))));
        fixture.open_with(Some(Arc::new(WithReranker { first, reranker }))).unwrap().index
    };
    let index = open();
    let hits = search(&index, QUERY);
    assert_eq!(paths(&hits), ["b.py", "a.py"]);
    // The mean over the tokens of the query: one has its word, the other any.
    assert_eq!((hits[0].parts.reranker, hits[1].parts.reranker), (1.0, 0.5));
    index.precomputation().unwrap().embed(&|| false, &|_| {}).unwrap();
    let stored = search(&open(), QUERY);
    assert!((stored[1].parts.reranker - 0.5).abs() < 0.01, "{:?}", stored[1].parts);
}
