//! Candidates: the codes of the pool that may answer each query.

pub(crate) mod depth;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quarry_corpus::formats::{Document, Query};
use quarry_embed::{Embedder, Side, Vectors, embed_many};
use quarry_eval::method::{Corpus, LoadModel, Method, ModelName, QUERIES_PER_BATCH};
use quarry_transformer::nearest::{Neighbor, nearest};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::BuildError;
use crate::jsonl::{self, Writer};
use crate::outputs::{CANDIDATES, QUERIES};
use crate::plan::{CandidatePlan, RELEASED_PARTITION};
use crate::record::{Candidate, CodeRecord, Found, QueryRecord, normalized_hash};
use crate::sources::pool::POOL;
use crate::step::{Key, Step, write_file};

/// Indices of codes with their scores, best first.
type Ranked = Vec<(usize, f32)>;

/// Incremented when the same pool, queries and methods lead to other candidates.
const VERSION: u32 = 3;

/// Number of codes that are embedded and compared at a time.
const BLOCK: usize = 16_384;

const TEXTS_AT_ONCE: usize = 512;

/// Number of codes that are compared exactly in addition to those requested, because matrix products have rounding
/// errors.
const MARGIN: usize = 8;

/// The method name for candidates found by the encoders together.
const ENCODERS: &str = "encoders";

pub(crate) struct Methods {
    /// The encoders, by their names in the plan.
    encoders: Vec<Arc<dyn Embedder>>,
    union: Vec<(String, Method)>,
    /// Identities of all models with their weights.
    identities: Vec<String>,
}

impl Methods {
    /// Loads the models of a plan, with paths relative to its directory.
    pub(crate) fn open(
        plan: &CandidatePlan,
        directory: &Path,
        load: &LoadModel<'_>,
    ) -> Result<Self, BuildError> {
        let mut methods = Self { encoders: Vec::new(), union: Vec::new(), identities: Vec::new() };
        let method = |name: &String| {
            let method = name.parse::<Method>().map_err(quarry_eval::EvalError::from)?;
            Ok::<_, BuildError>(method.in_directory(directory))
        };
        for name in &plan.encoders {
            let method = method(name)?;
            if let Some(model) = model_of(&method) {
                let embedder = load.load(model)?;
                methods.identities.push(embedder.id().to_owned());
                methods.encoders.push(embedder);
            }
        }
        for name in &plan.union {
            let method = method(name)?;
            for model in method.leaves().into_iter().filter_map(model_of) {
                methods.identities.push(load.load(model)?.id().to_owned());
            }
            methods.union.push((name.clone(), method));
        }
        Ok(methods)
    }

    /// Seconds that the static model takes for a code, if it is one of the encoders. Other models may keep vectors, or
    /// cost money.
    pub(crate) fn static_seconds(&self, plan: &CandidatePlan, codes: &[&str]) -> Option<f64> {
        let place = plan.encoders.iter().position(|name| name == "static")?;
        let begin = Instant::now();
        self.encoders.get(place)?.embed_documents(codes).ok()?;
        Some(begin.elapsed().as_secs_f64() / codes.len().max(1) as f64)
    }

    pub(crate) fn step(&self, plan: &CandidatePlan, pool: &Key, queries: &Key) -> Step {
        Step::new("candidates", VERSION, &(plan, &self.identities), &[pool, queries])
    }
}

fn model_of(method: &Method) -> Option<ModelName<'_>> {
    match method {
        Method::Static | Method::Hybrid => Some(ModelName::Builtin),
        Method::Model(path) => Some(ModelName::Path(path)),
        Method::Api(api) => Some(ModelName::Api(api)),
        _ => None,
    }
}

/// The best codes found so far for each query; indices refer to the pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Best {
    /// Number of codes compared so far.
    n_seen: usize,
    /// By query: index of the code and score, best first.
    found: Vec<Ranked>,
}

/// The state of the work, for resuming it.
struct Workspace<'w> {
    directory: &'w Path,
    stop: &'w AtomicBool,
}

/// Writes the candidates of all queries, among codes with distinct texts (runs of white space count as one space):
/// the `k` best by the mean cosine of the encoders, and the `k` best of every other method. For encoders the pool is
/// read in blocks, and the results so far are stored in `workspace` after each; the other methods need it in memory.
pub(crate) fn write(
    plan: &CandidatePlan,
    methods: &Methods,
    load: &LoadModel<'_>,
    (pool, queries): (&Path, &Path),
    (step, workspace): (&Path, &Path),
    stop: &AtomicBool,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let pool = pool.join(POOL);
    let queries: Vec<QueryRecord> = jsonl::read_all(&queries.join(QUERIES))?;
    let workspace = Workspace { directory: workspace, stop };
    let mut by_method: Vec<(&str, Vec<Ranked>)> = Vec::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    if !methods.encoders.is_empty() {
        let mut found = if plan.as_released {
            let scales = workspace.scales(&methods.encoders, &pool, &queries)?;
            let best = workspace.by_encoders(
                &methods.encoders,
                &pool,
                &queries,
                RELEASED_PARTITION,
                Some(&scales),
            )?;
            partitioned(best, &queries, plan.k)
        } else {
            workspace.by_encoders(&methods.encoders, &pool, &queries, plan.k, None)?
        };
        if let Some(minimum) = plan.minimum {
            counts.insert("below the minimum".to_owned(), drop_below(&mut found, minimum));
        }
        if let Some(maximum) = plan.maximum_uses {
            counts.insert("used too often".to_owned(), limit_uses(&mut found, maximum));
        }
        by_method.push((ENCODERS, found));
    }
    if !methods.union.is_empty() {
        let (numbers, documents) = distinct_documents(&pool)?;
        for (name, method) in &methods.union {
            let prepared = method.prepare(Corpus::from(&documents[..]), load, &mut |_| {})?;
            let asked: Vec<Query> = queries
                .iter()
                .map(|query| Query { id: query.id.clone(), text: query.text.clone() })
                .collect();
            let mut found = Vec::with_capacity(asked.len());
            for batch in asked.chunks(QUERIES_PER_BATCH) {
                workspace.check()?;
                let batch: Vec<&Query> = batch.iter().collect();
                let best = prepared.scorer.best(&batch, plan.k)?;
                found.extend(best.into_iter().map(|best| {
                    // Codes without a common word with the query were not found.
                    let is_found = |neighbor: &Neighbor| neighbor.similarity > 0.0;
                    let numbered = |neighbor: Neighbor| (numbers[neighbor.position], neighbor.similarity);
                    best.into_iter().filter(is_found).map(numbered).collect()
                }));
            }
            by_method.push((name, found));
        }
    }
    let ids = ids_of(&pool, &by_method)?;
    let mut writer = Writer::create(&step.join(CANDIDATES))?;
    let (mut n_candidates, mut n_shared) = (0, 0);
    for (number, query) in queries.iter().enumerate() {
        for (code, found) in join(by_method.iter().map(|(name, found)| (*name, &found[number][..]))) {
            n_candidates += 1;
            n_shared += u64::from(found.len() > 1);
            writer.write(&Candidate { query: query.id.clone(), code: ids[&code].clone(), found })?;
        }
    }
    writer.finish()?;
    counts.insert("queries".to_owned(), queries.len() as u64);
    counts.insert("candidates".to_owned(), n_candidates);
    counts.insert("found by several methods".to_owned(), n_shared);
    Ok(counts)
}

/// Removes candidates below the minimum similarity; returns their number.
fn drop_below(found: &mut [Ranked], minimum: f32) -> u64 {
    let count = |found: &[Ranked]| found.iter().map(|ranked| ranked.len() as u64).sum::<u64>();
    let before = count(found);
    found.iter_mut().for_each(|ranked| ranked.retain(|(_, score)| *score >= minimum));
    before - count(found)
}

/// Leaves each code to at most `maximum` queries, those that it is most similar to; returns the number of removed
/// candidates. The order in which CoSQA applied its maximum is not published.
fn limit_uses(found: &mut [Ranked], maximum: usize) -> u64 {
    let mut all: Vec<(f32, usize, usize)> = Vec::new();
    for (query, ranked) in found.iter().enumerate() {
        all.extend(ranked.iter().map(|(code, score)| (*score, query, *code)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut uses: HashMap<usize, usize> = HashMap::new();
    let mut lost: HashSet<(usize, usize)> = HashSet::new();
    for (_, query, code) in all {
        let uses = uses.entry(code).or_default();
        *uses += 1;
        if *uses > maximum {
            lost.insert((query, code));
        }
    }
    for (query, ranked) in found.iter_mut().enumerate() {
        ranked.retain(|(code, _)| !lost.contains(&(query, *code)));
    }
    lost.len() as u64
}

/// Any `k` of the best codes of each query, as a partition that is not sorted leaves them: drawn by the query.
fn partitioned(mut best: Vec<Ranked>, queries: &[QueryRecord], k: usize) -> Vec<Ranked> {
    for (ranked, query) in best.iter_mut().zip(queries) {
        fastrand::Rng::with_seed(xxh3_64(query.id.as_bytes())).shuffle(ranked);
        ranked.truncate(k);
    }
    best
}

/// The codes found for a query by several methods, in the order of the methods and then of their ranks, without
/// duplicates.
fn join<'m>(by_method: impl Iterator<Item = (&'m str, &'m [(usize, f32)])>) -> Vec<(usize, Vec<Found>)> {
    let mut joined: Vec<(usize, Vec<Found>)> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for (by, found) in by_method {
        for (rank, (code, score)) in (1..).zip(found) {
            let place = *places.entry(*code).or_insert_with(|| {
                joined.push((*code, Vec::new()));
                joined.len() - 1
            });
            joined[place].1.push(Found { by: by.to_owned(), rank, score: *score });
        }
    }
    joined
}

impl Workspace<'_> {
    fn check(&self) -> Result<(), BuildError> {
        if self.stop.load(Ordering::SeqCst) { Err(BuildError::Stopped) } else { Ok(()) }
    }

    /// The maximum absolute cosine of each query with any code, by encoder.
    fn scales(
        &self,
        encoders: &[Arc<dyn Embedder>],
        pool: &Path,
        queries: &[QueryRecord],
    ) -> Result<Vec<Vec<f32>>, BuildError> {
        let path = self.directory.join("scales.json");
        let known = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        // Each query and its negation, to which the code with the minimum cosine is closest.
        let mut asked = Vec::new();
        for encoder in encoders {
            let mut both = embed_concatenated(slice::from_ref(encoder), Side::Query, &texts)?;
            let opposite: Vec<f32> = both.values.iter().map(|value| -value).collect();
            both.values.extend(opposite);
            asked.push(both);
        }
        let mut scales = vec![vec![0.0_f32; queries.len()]; encoders.len()];
        for_each_block(pool, 0, &mut |block, _| {
            self.check()?;
            let texts: Vec<&str> = block.iter().map(|(_, text)| text.as_str()).collect();
            for ((encoder, asked), scales) in encoders.iter().zip(&asked).zip(&mut scales) {
                let documents = embed_concatenated(slice::from_ref(encoder), Side::Document, &texts)?;
                let found = nearest(asked, &documents, 1);
                for (row, found) in found.iter().enumerate() {
                    let scale = &mut scales[row % queries.len()];
                    *scale = found.iter().map(|neighbor| neighbor.similarity).fold(*scale, f32::max);
                }
            }
            Ok(())
        })?;
        write_file(&path, &serde_json::to_vec(&scales).unwrap_or_default())?;
        Ok(scales)
    }

    /// The best codes by the mean of the cosines of all encoders, block by block; with `scales` each cosine is divided by
    /// that of its encoder and query.
    fn by_encoders(
        &self,
        encoders: &[Arc<dyn Embedder>],
        pool: &Path,
        queries: &[QueryRecord],
        k: usize,
        scales: Option<&[Vec<f32>]>,
    ) -> Result<Vec<Ranked>, BuildError> {
        let path = self.directory.join("best.json");
        let known = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut best: Best =
            known.unwrap_or_else(|| Best { n_seen: 0, found: vec![Vec::new(); queries.len()] });
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let mut asked = embed_concatenated(encoders, Side::Query, &texts)?;
        if let Some(scales) = scales {
            let dimensions: Vec<usize> = encoders.iter().map(|encoder| encoder.dimension()).collect();
            scale(&mut asked, &dimensions, scales);
        }
        for_each_block(pool, best.n_seen, &mut |block, n_seen| {
            self.check()?;
            let texts: Vec<&str> = block.iter().map(|(_, text)| text.as_str()).collect();
            let documents = embed_concatenated(encoders, Side::Document, &texts)?;
            let found = nearest(&asked, &documents, k + MARGIN);
            for (row, (all, found)) in best.found.iter_mut().zip(found).enumerate() {
                let exact = |neighbor: Neighbor| {
                    (block[neighbor.position].0, product(&asked, row, &documents, neighbor.position))
                };
                all.extend(found.into_iter().map(exact));
                // Ties stay in the order of the pool.
                all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                all.truncate(k);
            }
            best.n_seen = n_seen;
            write_file(&path, &serde_json::to_vec(&best).unwrap_or_default())
        })?;
        Ok(best.found)
    }
}

/// Receives a block: codes with their numbers in the pool, and the number of codes read so far.
type TakeBlock<'t> = dyn FnMut(&[(usize, String)], usize) -> Result<(), BuildError> + 't;

/// Reads the codes of a pool whose texts are distinct, block by block, from the one with number `skip` on.
fn for_each_block(pool: &Path, skip: usize, each: &mut TakeBlock<'_>) -> Result<(), BuildError> {
    let (mut seen, mut number) = (HashSet::new(), 0);
    let mut block: Vec<(usize, String)> = Vec::with_capacity(BLOCK);
    jsonl::for_each(pool, &mut |record: CodeRecord, _| {
        let is_first = seen.insert(normalized_hash(&record.code));
        if is_first && number >= skip {
            block.push((number, record.code));
        }
        number += 1;
        if block.len() == BLOCK {
            each(&block, number)?;
            block.clear();
        }
        Ok(())
    })?;
    if block.is_empty() { Ok(()) } else { each(&block, number) }
}

/// Divides the part of each encoder in joined vectors by the scale of encoder and row.
fn scale(joined: &mut Vectors, dimensions: &[usize], scales: &[Vec<f32>]) {
    let rows = joined.values.chunks_exact_mut(joined.dimension.max(1));
    for (row, mut values) in rows.enumerate() {
        for (dimension, scales) in dimensions.iter().zip(scales) {
            let (part, rest) = values.split_at_mut(*dimension);
            // Without any similarity there is nothing to divide.
            let scale = if scales[row] > 0.0 { scales[row] } else { 1.0 };
            part.iter_mut().for_each(|value| *value /= scale);
            values = rest;
        }
    }
}

/// The dot product of two vectors. The last digits of a matrix product depend on the number of threads that share the
/// work.
fn product(queries: &Vectors, query: usize, documents: &Vectors, document: usize) -> f32 {
    fn row(vectors: &Vectors, row: usize) -> &[f32] {
        &vectors.values[row * vectors.dimension..(row + 1) * vectors.dimension]
    }
    let products = row(queries, query).iter().zip(row(documents, document));
    products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

/// The vectors of several encoders combined into one, whose dot product is the mean of their cosines.
fn embed_concatenated(
    encoders: &[Arc<dyn Embedder>],
    side: Side,
    texts: &[&str],
) -> Result<Vectors, BuildError> {
    let parts: Vec<Vectors> = encoders
        .iter()
        .map(|encoder| {
            let mut vectors = embed_many(encoder.as_ref(), side, texts, TEXTS_AT_ONCE, |_| {})?;
            // Those of encoders whose similarity is a dot product have other lengths.
            vectors.normalize();
            Ok::<_, BuildError>(vectors)
        })
        .collect::<Result<_, _>>()?;
    let dimension = parts.iter().map(|part| part.dimension).sum();
    let scale = (encoders.len() as f32).sqrt().recip();
    let mut values = Vec::with_capacity(dimension * texts.len());
    for row in 0..texts.len() {
        for part in &parts {
            let vector = &part.values[row * part.dimension..(row + 1) * part.dimension];
            values.extend(vector.iter().map(|value| value * scale));
        }
    }
    Ok(Vectors { dimension, values })
}

/// The codes of a pool with distinct texts, with their indices in it.
fn distinct_documents(pool: &Path) -> Result<(Vec<usize>, Vec<Document>), BuildError> {
    let (mut numbers, mut documents, mut seen, mut number) = (Vec::new(), Vec::new(), HashSet::new(), 0);
    jsonl::for_each(pool, &mut |record: CodeRecord, _| {
        if seen.insert(normalized_hash(&record.code)) {
            numbers.push(number);
            documents
                .push(Document { language: Some(record.language), ..Document::new(record.id, record.code) });
        }
        number += 1;
        Ok(())
    })?;
    Ok((numbers, documents))
}

/// The ids of the codes that were found, by their indices.
fn ids_of(pool: &Path, by_method: &[(&str, Vec<Ranked>)]) -> Result<HashMap<usize, String>, BuildError> {
    let found = by_method.iter().flat_map(|(_, found)| found).flatten();
    let wanted: HashSet<usize> = found.map(|(number, _)| *number).collect();
    let (mut ids, mut number) = (HashMap::with_capacity(wanted.len()), 0);
    jsonl::for_each(pool, &mut |record: CodeRecord, _| {
        if wanted.contains(&number) {
            ids.insert(number, record.id);
        }
        number += 1;
        Ok(())
    })?;
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use quarry_embed::EmbedError;

    use super::*;
    use crate::record::id_of;

    /// Counts one letter, and all other characters; the vectors have this length.
    struct Letter(char, f32);

    impl Embedder for Letter {
        fn id(&self) -> &str {
            "letter"
        }
        fn dimension(&self) -> usize {
            2
        }
        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed_documents(texts)
        }
        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            let row = |text: &&str| {
                let own = text.chars().filter(|c| *c == self.0).count() as f32;
                let other = text.chars().filter(|c| *c != self.0).count() as f32;
                [own, other]
            };
            let mut vectors = Vectors { dimension: 2, values: texts.iter().flat_map(row).collect() };
            vectors.normalize();
            vectors.values.iter_mut().for_each(|value| *value *= self.1);
            Ok(vectors)
        }
    }

    fn letters(letters: [char; 2]) -> [Arc<dyn Embedder>; 2] {
        letters.map(|letter| Arc::new(Letter(letter, 1.0)) as Arc<dyn Embedder>)
    }

    fn cosine(letter: char, one: &str, other: &str) -> f32 {
        let vectors = Letter(letter, 1.0).embed_documents(&[one, other]).unwrap().values;
        vectors[0] * vectors[2] + vectors[1] * vectors[3]
    }

    fn query(text: &str) -> QueryRecord {
        QueryRecord { id: id_of(&[text]), text: text.into(), origin: "q".into(), codes: Vec::new() }
    }

    #[test]
    fn the_product_of_joined_vectors_is_the_mean_of_cosines() {
        let encoders = letters(['a', 'b']);
        let texts = ["ab", "aab", "bbbc"];
        let joined = embed_concatenated(&encoders, Side::Document, &texts).unwrap();
        let found = nearest(&joined, &joined, 3);
        for (row, text) in texts.iter().enumerate() {
            for neighbor in &found[row] {
                let other = texts[neighbor.position];
                let mean = (cosine('a', text, other) + cosine('b', text, other)) / 2.0;
                assert!((neighbor.similarity - mean).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn a_code_stays_with_the_queries_that_it_is_most_similar_to() {
        let mut found = vec![vec![(7, 0.9)], vec![(7, 0.6), (8, 0.4)], vec![(7, 0.8)], vec![(7, 0.6)]];
        assert_eq!(drop_below(&mut found, 0.5), 1);
        assert_eq!(limit_uses(&mut found, 3), 1);
        assert_eq!(found, [vec![(7, 0.9)], vec![(7, 0.6)], vec![(7, 0.8)], vec![]]);
    }

    fn pool(directory: &Path, codes: &[&str]) -> std::path::PathBuf {
        let path = directory.join("pool.jsonl");
        let mut writer = Writer::create(&path).unwrap();
        for code in codes {
            let language = quarry_source::language_named("python").unwrap();
            writer
                .write(&crate::sources::function::snippet_record(&crate::Origin::default(), language, code))
                .unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn each_encoder_is_scaled_by_its_best_code_as_released() {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool(directory.path(), &["ab", "aab", "bbbc", "aab "]);
        let encoders = letters(['a', 'c']);
        let queries = ["aaab", "ccb"].map(query);
        let stop = AtomicBool::new(false);
        let workspace = Workspace { directory: directory.path(), stop: &stop };
        let scales = workspace.scales(&encoders, &pool, &queries).unwrap();
        let codes = ["ab", "aab", "bbbc"];
        for (letter, scales) in ['a', 'c'].into_iter().zip(&scales) {
            for (query, scale) in queries.iter().zip(scales) {
                let most =
                    codes.iter().map(|code| cosine(letter, &query.text, code).abs()).fold(0.0, f32::max);
                assert!((most - scale).abs() < 1e-6, "{letter} {most} {scale}");
            }
        }
        let found = workspace.by_encoders(&encoders, &pool, &queries, 30, Some(&scales)).unwrap();
        for (query, (text, found)) in queries.iter().map(|query| &query.text).zip(&found).enumerate() {
            assert_eq!(found.len(), 3);
            for (code, score) in found {
                let sum = cosine('a', text, codes[*code]) / scales[0][query]
                    + cosine('c', text, codes[*code]) / scales[1][query];
                assert!((score - sum / 2.0).abs() < 1e-5, "{score} {sum}");
            }
        }
        let drawn = partitioned(found.clone(), &queries, 2);
        assert!(
            drawn
                .iter()
                .zip(&found)
                .all(|(drawn, found)| drawn.len() == 2 && drawn.iter().all(|one| found.contains(one)))
        );
    }

    #[test]
    fn methods_are_joined_and_a_code_is_a_candidate_once() {
        let joined = join([("x", &[(3, 0.5), (1, 0.4)][..]), ("y", &[(1, 9.0), (2, 8.0)])].into_iter());
        let codes: Vec<usize> = joined.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [3, 1, 2]);
        let found = |by: &str, rank, score| Found { by: by.into(), rank, score };
        assert_eq!(joined[1].1, [found("x", 2, 0.4), found("y", 1, 9.0)]);
    }

    #[test]
    fn scores_are_cosines_of_vectors_of_any_length() {
        let encoders: [Arc<dyn Embedder>; 2] = [Arc::new(Letter('a', 7.0)), Arc::new(Letter('b', 1.0))];
        let texts = ["aab", "abbb c"];
        let queries = embed_concatenated(&encoders, Side::Query, &texts).unwrap();
        let documents = embed_concatenated(&encoders, Side::Document, &texts).unwrap();
        for row in 0..2 {
            assert!((product(&queries, row, &documents, row) - 1.0).abs() < 1e-6);
        }
        // The mean of the cosines of (2, 1) with (1, 5) and of (1, 2) with (3, 3).
        let expected = (7.0 / 130f32.sqrt() + 9.0 / 90f32.sqrt()) / 2.0;
        assert!((product(&queries, 0, &documents, 1) - expected).abs() < 1e-6);
    }

    #[test]
    fn an_interrupted_search_continues() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path().join("pool.jsonl");
        let mut writer = Writer::create(&pool).unwrap();
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let code: String = (0..20).map(|_| random.choice(['a', 'b', 'c', ' ']).unwrap()).collect();
            let record = serde_json::json!({
                "id": id_of(&[&code]), "kind": "function", "source": "s", "repository": "r", "path": "p",
                "start_line": 1, "end_line": 1, "language": "python", "code": code,
            });
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let queries = [query("aaab"), query("bc")];
        let encoders = letters(['a', 'b']);
        let stop = AtomicBool::new(false);
        let workspace = Workspace { directory: directory.path(), stop: &stop };
        let whole = workspace.by_encoders(&encoders, &pool, &queries, 7, None).unwrap();
        assert_eq!((whole.len(), whole[0].len()), (2, 7));
        assert!(whole[0].is_sorted_by(|a, b| a.1 >= b.1));
        // As if the process had been killed after the first hundred codes.
        let mut half = Best { n_seen: 100, found: vec![Vec::new(); 2] };
        let texts: Vec<String> =
            jsonl::read_all::<CodeRecord>(&pool).unwrap().into_iter().map(|record| record.code).collect();
        let first: Vec<&str> = texts[..100].iter().map(String::as_str).collect();
        let asked = embed_concatenated(&encoders, Side::Query, &["aaab", "bc"]).unwrap();
        let documents = embed_concatenated(&encoders, Side::Document, &first).unwrap();
        for (row, found) in nearest(&asked, &documents, 7).into_iter().enumerate() {
            let exact = found
                .into_iter()
                .map(|found| (found.position, product(&asked, row, &documents, found.position)));
            half.found[row].extend(exact);
        }
        fs::write(directory.path().join("best.json"), serde_json::to_vec(&half).unwrap()).unwrap();
        assert_eq!(workspace.by_encoders(&encoders, &pool, &queries, 7, None).unwrap(), whole);
        stop.store(true, Ordering::SeqCst);
        fs::remove_file(directory.path().join("best.json")).unwrap();
        assert!(matches!(
            workspace.by_encoders(&encoders, &pool, &queries, 7, None),
            Err(BuildError::Stopped)
        ));
    }
}
