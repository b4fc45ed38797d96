//! The first results in the order of a re-ranker.

use quarry_embed::WithReranker;

use super::*;

/// A document with the word is like every query, all others are not.
struct Prefers(&'static str);

impl Embedder for Prefers {
    fn id(&self) -> &str {
        "prefers"
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
fn what_cannot_be_read_counts_like_the_worst_that_was() {
    let fixture = tree();
    let index = open(&fixture, Some("zebra"));
    fs::remove_file(fixture.root().join("b.py")).unwrap();
    let hits = search(&index, QUERY);
    assert_eq!(paths(&hits), ["a.py", "b.py"]);
    assert_eq!((hits[1].parts.reranker, hits[1].parts.reranker_factor), (0.0, 1.0));
}
