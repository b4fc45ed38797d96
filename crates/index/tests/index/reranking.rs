//! The first results in the order of a re-ranker.

use quarry_embed::{PairModel, WithCrossEncoder, WithReranker};
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
    // What is asked by its name is found by its name.
    assert_eq!(paths(&search(&preferring, "first"))[0], "a.py");
}

#[test]
fn a_reranker_changes_no_confidence() {
    let fixture = tree();
    for query in [QUERY, "first", "zebra unicorn host recipes"] {
        let request = SearchRequest {
            query,
            limit: 10,
            ranking: RankingWeights::default(),
            filter: &Filter::default(),
        };
        let without = open(&fixture, None).search(&request).unwrap();
        for word in ["zebra", "again", "nothing here"] {
            let with = open(&fixture, Some(word)).search(&request).unwrap();
            assert_eq!((with.confidence, with.evidence), (without.confidence, without.evidence), "{query}");
        }
    }
}

#[test]
fn what_cannot_be_read_counts_like_the_worst_that_was() {
    let fixture = tree();
    let index = open(&fixture, Some("zebra"));
    fs::remove_file(fixture.root().join("b.py")).unwrap();
    let hits = search(&index, QUERY);
    assert_eq!(paths(&hits), ["a.py", "b.py"]);
    assert_eq!((hits[1].parts.reranker, hits[1].parts.reranker_factor), (0.0, 1.0));
}

#[test]
fn a_second_reranker_reads_the_best_pieces_of_the_first_results() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let fixture = tree();
    // The word that the first re-ranker looks for is in the last of several pieces; the second one reads no other.
    let filler = "    socket.horse()\n".repeat(60);
    let long = |end: &str| format!("def third(socket):\n{filler}    return socket.{end}()\n");
    fixture.write("c.py", &long("zebra_donkey"));
    let open = |fixture: &Fixture| {
        let second = Arc::new(Counts(Prefers("donkey"), &COUNT));
        let reranker = Arc::new(WithReranker { first: Arc::new(Prefers("zebra")), reranker: second });
        let model = Arc::new(WithReranker { first: WordHashes::new("words"), reranker });
        fixture.open_with(Some(model)).unwrap().index
    };
    let index = open(&fixture);
    let expected = search(&index, QUERY);
    assert_eq!(paths(&expected)[0], "c.py");
    let [first, last] = [&expected[0].parts, &expected.last().unwrap().parts];
    assert_eq!((first.reranker, first.second_reranker, first.second_reranker_factor), (1.0, 1.0, 1.0));
    assert!(last.second_reranker_factor < 0.1, "{last:?}");
    // A piece of each result.
    assert_eq!(taken(&COUNT), expected.len());
    // Both models embed all units ahead, the second one each of their pieces.
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: expected.len(), missing: 0 });
    assert!(taken(&COUNT) > expected.len());
    let hits = search(&open(&fixture), QUERY);
    assert_eq!((paths(&hits), taken(&COUNT)), (paths(&expected), 0));
    for (hit, expected) in hits.iter().zip(&expected) {
        let (found, expected) = (hit.parts.second_reranker, expected.parts.second_reranker);
        assert!((found - expected).abs() < 0.01, "{found} {expected}");
    }
    // Of what has changed, both models embed the new units, in a search of several trees too.
    let other = tree();
    fixture.write("d.py", "def fourth(socket):\n    return socket.donkey()\n");
    let together = || Index::together(vec![open(&fixture), open(&other)]).unwrap();
    assert_eq!(embed_ahead(&together(), NEVER), PrecomputedCounts { embedded: 3, missing: 0 });
    taken(&COUNT);
    assert!(!search(&together(), QUERY).is_empty());
    assert_eq!(taken(&COUNT), 0);
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
    // What cannot be read counts like the worst that was.
    fs::remove_file(fixture.root().join("b.py")).unwrap();
    let hits = search(&index, QUERY);
    assert_eq!((hits[1].parts.cross_encoder, hits[1].parts.cross_encoder_factor), (0.0, 1.0));
}

/// How many documents were embedded since the last call.
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

#[test]
fn what_was_embedded_ahead_is_not_read_by_searches() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let fixture = tree();
    let index = open_counting(&fixture, &COUNT);
    let expected = search(&index, QUERY);
    assert_eq!((paths(&expected), taken(&COUNT)), (vec!["b.py", "a.py"], 2));
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: 2, missing: 0 });
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
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: 1, missing: 0 });
    assert_eq!(taken(&COUNT), 1);
    // Nor does a search without the re-ranker drop them.
    fixture.write("c.py", "def fourth(socket):\n    return socket.horse()\n");
    fixture.open_with(Some(WordHashes::new("words"))).unwrap();
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: 1, missing: 0 });
}

#[test]
fn embedding_ahead_goes_on_where_it_was_stopped() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let function = |n: usize| format!("def function_{n}(socket):\n    return socket.wait({n})\n\n\n");
    let source: String = (0..150).map(function).collect();
    let fixture = Fixture::new(&[("a.py", &source)]);
    let index = open_counting(&fixture, &COUNT);
    let asked = AtomicUsize::new(0);
    let after_one = || asked.fetch_add(1, Ordering::SeqCst) == 1;
    let PrecomputedCounts { embedded, missing } = embed_ahead(&index, &after_one);
    assert!(embedded > 0 && missing > 0, "{embedded} {missing}");
    assert_eq!(taken(&COUNT), embedded);
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: missing, missing: 0 });
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
    assert_eq!(embed_ahead(&index, &write), PrecomputedCounts { embedded: 0, missing: 2 });
    let index = open_counting(&fixture, &COUNT);
    assert_eq!(embed_ahead(&index, NEVER), PrecomputedCounts { embedded: 2, missing: 0 });
    taken(&COUNT);
    let hits = search(&open_counting(&fixture, &COUNT), QUERY);
    assert_eq!(taken(&COUNT), 0);
    assert!(hits.iter().all(|hit| hit.parts.reranker > 0.99), "{hits:?}");
}

#[test]
fn units_of_several_trees_are_embedded_ahead() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (one, other) = (tree(), Fixture::new(&[("c.py", "def third(zebra):\n    return zebra\n")]));
    let together = || Index::together(vec![open_counting(&one, &COUNT), open_counting(&other, &COUNT)]);
    assert_eq!(embed_ahead(&together().unwrap(), NEVER), PrecomputedCounts { embedded: 3, missing: 0 });
    taken(&COUNT);
    search(&together().unwrap(), QUERY);
    assert_eq!(taken(&COUNT), 0);
}
