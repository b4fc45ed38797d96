//! The vectors that training starts from.

use super::{Examples, Settings, State, Table, Vocabulary};
use crate::Teacher;
use crate::teacher::{mean, principal_directions};

/// The state before the first step.
pub(super) fn start(
    vocabulary: &Vocabulary,
    settings: &Settings,
    teacher: Option<&Teacher>,
    examples: &Examples,
) -> State {
    let (n, dimension) = (vocabulary.hashes.len(), settings.dimension);
    let mut documents = Table::new(n, dimension, settings.positions, settings.seed);
    if let Some(teacher) = teacher.filter(|_| settings.start_from_teacher) {
        start_from(teacher, vocabulary, &mut documents);
    }
    if settings.sif > 0.0 {
        weight_by_frequency(&mut documents, &examples.frequencies(n), settings.sif);
    }
    let mut queries = Table::new(vocabulary.n_query, dimension, 0, settings.seed);
    // Both tables start from one point, so that from the first step equal words of both sides attract.
    let shared = queries.values.len();
    queries.values.copy_from_slice(&documents.values[..shared]);
    State { step: 0, documents, queries }
}

/// Replaces the vectors of words that the teacher knows by its own, centered and projected on their principal
/// directions (as model2vec does), at the mean length of the random ones that they replace. Columns beyond the
/// teacher's dimension stay random.
fn start_from(teacher: &Teacher, vocabulary: &Vocabulary, table: &mut Table) {
    let known: Vec<(usize, &[f32])> = vocabulary
        .texts
        .iter()
        .enumerate()
        .filter_map(|(at, text)| Some((at, teacher.vector(text)?)))
        .collect();
    let vectors: Vec<f32> = known.iter().flat_map(|(_, vector)| *vector).copied().collect();
    let mean = mean(&vectors, teacher.dimension);
    let directions = principal_directions(&vectors, teacher.dimension, table.dimension);
    let length = (1.0f32 / 3.0).sqrt();
    for (at, vector) in known {
        let row = &mut table.values[at * table.dimension * 3..][..table.dimension];
        for (x, direction) in row.iter_mut().zip(directions.chunks_exact(teacher.dimension)) {
            *x = direction.iter().zip(vector).zip(&mean).map(|((d, v), m)| d * (v - m)).sum();
        }
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
        row.iter_mut().for_each(|x| *x *= length / norm);
    }
}

/// Multiplies each vector by `sif / (sif + frequency)` (smooth inverse frequency, Arora et al. 2017), then all by one
/// number, so that their mean length stays.
fn weight_by_frequency(table: &mut Table, frequencies: &[f32], sif: f32) {
    let before = mean_length(table);
    let dimension = table.dimension;
    for (row, frequency) in table.values.chunks_exact_mut(dimension * 3).zip(frequencies) {
        row[..dimension].iter_mut().for_each(|x| *x *= sif / (sif + frequency));
    }
    let scale = before / mean_length(table).max(1e-12);
    for row in table.values.chunks_exact_mut(dimension * 3) {
        row[..dimension].iter_mut().for_each(|x| *x *= scale);
    }
}

fn mean_length(table: &Table) -> f32 {
    let length = |row: &[f32]| row[..table.dimension].iter().map(|x| x * x).sum::<f32>().sqrt();
    let lengths = table.values.chunks_exact(table.dimension * 3).map(length);
    (lengths.map(f64::from).sum::<f64>() / table.n_rows().max(1) as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_model::{VocabularySize, choose};
    use quarry_embed::vocabulary::{Tokenizer, build_slots};
    use quarry_source::FunctionPair;

    fn length(table: &Table, row: usize) -> f32 {
        let row = &table.values[row * table.dimension * 3..][..table.dimension];
        row.iter().map(|x| x * x).sum::<f32>().sqrt()
    }

    #[test]
    fn frequent_tokens_get_shorter_and_the_mean_length_stays() {
        let mut table = Table::new(3, 4, 0, 1);
        for row in table.values.chunks_exact_mut(12) {
            row[..4].fill(0.5);
        }
        weight_by_frequency(&mut table, &[1e-1, 1e-3, 0.0], 1e-3);
        let lengths = [0, 1, 2].map(|row| length(&table, row));
        assert!((lengths[2] / lengths[1] - 2.0).abs() < 1e-4, "{lengths:?}");
        assert!((lengths[2] / lengths[0] - 101.0).abs() < 1e-2, "{lengths:?}");
        assert!((lengths.iter().sum::<f32>() - 3.0).abs() < 1e-4, "{lengths:?}");
    }

    #[test]
    fn both_tables_start_weighted_by_word_frequency() {
        let pair = FunctionPair {
            query: "reads the file".to_owned(),
            doc: String::new(),
            name: "read".to_owned(),
            code: "read the the the the the file".to_owned(),
            language: "python".to_owned(),
            repository: "owner/name".to_owned(),
            path: String::new(),
            negatives: Vec::new(),
        };
        let pairs = [&pair, &pair, &pair];
        let vocabulary = choose(&pairs, VocabularySize { words: 10, bigrams: 0, query: 10 });
        let slots = build_slots(&vocabulary.hashes);
        let lengths = |sif: f32| {
            let settings = Settings { dimension: 64, sif, ..Settings::default() };
            let tokenizer = Tokenizer { slots: &slots, max_words: 100 };
            let state = start(&vocabulary, &settings, None, &Examples::new(&pairs, tokenizer, &settings));
            let at = |word: &str| vocabulary.texts.iter().position(|text| text == word).unwrap();
            assert!(at("the") < state.queries.n_rows());
            [at("the"), at("file")].map(|row| {
                assert_eq!(length(&state.queries, row), length(&state.documents, row));
                length(&state.documents, row)
            })
        };
        let ([the, file], [equal_the, equal_file]) = (lengths(1e-2), lengths(0.0));
        assert!(the < 0.5 * file, "{the} {file}");
        assert!((equal_the / equal_file - 1.0).abs() < 0.3, "{equal_the} {equal_file}");
    }
}
