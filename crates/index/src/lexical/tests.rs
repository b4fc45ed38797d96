use super::*;
use crate::storage::stored_file::StoredFile;

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
    let index = LexicalIndex::in_memory([dogs, LexicalText::body("cat"), LexicalText::body("cow")]).unwrap();
    let flat = |weights| Bm25f { weights, b: [0.0; N_FIELDS], ..Bm25f::default() };
    let score = |weights| index.scores(&terms("dog"), &flat(weights), NO_GROUPS).unwrap().texts[0];
    let thrice = score([1.0, 0.0, 0.0, 1.0, 1.0]);
    assert!((thrice - score([3.0, 0.0, 0.0, 0.0, 0.0])).abs() < 1e-6);
    assert!(thrice < 3.0 * score([1.0, 0.0, 0.0, 0.0, 0.0]));
}

#[test]
fn a_field_counts_no_less_where_few_texts_have_it() {
    let doc = "retry the request with exponential backoff";
    let score_of_first = |n_documented: usize| {
        let names: Vec<String> = (0..1000).map(|number| format!("function{number}")).collect();
        let texts = names.iter().enumerate().map(|(number, name)| LexicalText {
            name,
            doc: if number < n_documented { doc } else { "" },
            ..LexicalText::body("return 1")
        });
        let index = LexicalIndex::in_memory(texts).unwrap();
        index.scores(&terms(doc), &Bm25f::default(), NO_GROUPS).unwrap()
    };
    // The score of one occurrence depends only on the rarity of its word.
    let share = |scores: &Scores| scores.texts[0] / scores.idf.iter().sum::<f32>();
    let (one, all) = (score_of_first(1), score_of_first(1000));
    assert!((share(&one) - share(&all)).abs() < 1e-4, "{} {}", share(&one), share(&all));
    assert!(one.texts[0] > 20.0, "{}", one.texts[0]);
}

#[test]
fn a_group_scores_as_one_text() {
    let index = LexicalIndex::in_memory(["red dog", "blue dog", "red fish"].map(LexicalText::body)).unwrap();
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
fn the_directory_and_memory_agree() {
    let texts = ["read a csv file", "write_csv(path)", ""];
    let temporary = tempfile::tempdir().unwrap();
    let all = texts.map(|text| Terms::new(&LexicalText::body(text)));
    let mut sizes = FieldSizes::default();
    all.iter().for_each(|terms| sizes.add(&terms.n_terms, &has_terms(&terms.n_terms)));
    // In two parts, in reverse order, with a removed text.
    let directory = Directory::open(temporary.path()).unwrap();
    let part = |name: &str, texts: [Terms; 2]| {
        let part = directory.create_directory(name.as_ref()).unwrap();
        LexicalIndex::create(part.create_directory(LEXICAL_DIRECTORY.as_ref()).unwrap(), texts).unwrap();
        let files = StoredFile::all(&part).unwrap();
        Part::stored(&directory, &PartSize { name: name.to_owned(), units: 2, files, ..PartSize::default() })
    };
    let parts = [
        part("a", [all[2].clone(), Terms::new(&LexicalText::body("a csv file"))]),
        part("b", [all[0].clone(), all[1].clone()]),
    ];
    let numbering = Numbering {
        n_units: 3,
        parts: vec![PartUnits::Each(vec![2, PartUnits::GONE]), PartUnits::Run(0..2)],
    };
    let parts = parts.into_iter().map(|part| part.unwrap().into()).collect();
    let on_disk = LexicalIndex::from_parts(parts, &Arc::new(numbering), &sizes);
    let in_memory = LexicalIndex::in_memory(texts.map(LexicalText::body)).unwrap();
    assert_eq!(on_disk.len(), 3);
    let scores =
        |index: &LexicalIndex| index.scores(&terms("csv file"), &Bm25f::default(), NO_GROUPS).unwrap();
    assert_eq!(scores(&on_disk), scores(&in_memory));
    assert!(scores(&on_disk).texts[0] > scores(&on_disk).texts[1]);
}

#[test]
fn a_text_scores_the_same_in_every_window() {
    let text = |number: usize| if number.is_multiple_of(7) { "csv file" } else { "tree" };
    let index = LexicalIndex::in_memory((0..2 * WINDOW + 9).map(|number| LexicalText::body(text(number))));
    let scores = index.unwrap().scores(&terms("csv"), &Bm25f::default(), NO_GROUPS).unwrap().texts;
    assert!(scores[0] > 0.0);
    let expected = |number: usize| if number.is_multiple_of(7) { scores[0] } else { 0.0 };
    assert!(scores.iter().enumerate().all(|(number, score)| *score == expected(number)));
}

#[test]
fn an_empty_directory_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let index = Directory::open(directory.path()).unwrap();
    assert!(Part::stored(&index, &PartSize::default()).is_err());
}
