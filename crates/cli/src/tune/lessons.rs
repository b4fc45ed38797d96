//! Questions of a tree about its functions: pairs to learn from, and held-out questions.

use std::collections::HashSet;

use quarry_corpus::evaluation_guard::{ComparedFiles, EvaluationGuard};
use quarry_corpus::pairs::{fingerprint, split_summary};
use quarry_eval::self_benchmark::hold_out::{HoldOut, Lesson, held_out_functions, hold_out};
use quarry_eval::self_benchmark::tree::{Functions, SourceFile};
use quarry_eval::self_benchmark::view::View;
use quarry_eval::self_benchmark::{
    LabeledQuery, QuerySet, QuerySource, Questions, SelfBenchmarkOptions, questions_about,
};
use quarry_source::FunctionPair;
use quarry_text::near::NearIndex;

use super::TuneArgs;
use crate::output;
use crate::train::{Permission, training_pairs};

/// Similarity from which the code of a pair is that of a function.
const SAME_CODE: f64 = 0.9;

/// The questions of a tree, and the pairs to learn from. No function is on both sides, whichever code asks.
pub fn collect(args: &TuneArgs, files: &[SourceFile]) -> anyhow::Result<(HoldOut, Vec<FunctionPair>)> {
    let mut options =
        SelfBenchmarkOptions { queries: usize::MAX, seed: args.seed, ..SelfBenchmarkOptions::default() };
    options.history.commits = args.commits;
    let functions = Functions::collect(files);
    let benchmark = questions_about(&functions, &args.path, files, Vec::new(), &options);
    benchmark.notes.iter().for_each(|text| output::note(text));
    let is_held_out = held_out_functions(&functions, args.hold_out, args.seed);
    let mut split = hold_out(&benchmark.sets, &functions, &is_held_out);
    let mut pairs: Vec<FunctionPair> =
        split.learned.iter().flat_map(|lesson| pairs_of(lesson, &functions)).collect();
    if !args.exclude.is_empty() {
        let guard = EvaluationGuard::new(&args.exclude)?;
        guard.warnings().for_each(|warning| output::note(&warning));
        pairs.retain(|pair| {
            let code = std::iter::once((pair.code.as_str(), None));
            guard.shared(&[], &pair.query, code).is_none()
        });
    }
    if let Some(path) = &args.pairs {
        let files = ComparedFiles { named: &args.exclude, ..ComparedFiles::default() };
        let (lessons, _) = training_pairs(path, files, Permission::Never)?;
        add(lessons, &functions, &is_held_out, &mut split, &mut pairs);
    }
    Ok((split, pairs))
}

fn pairs_of<'a>(lesson: &'a Lesson, functions: &'a Functions<'_>) -> impl Iterator<Item = FunctionPair> + 'a {
    lesson.functions.iter().map(|number| {
        let function = &functions.all[*number];
        let doc = &function.unit.doc;
        let doc = match lesson.source {
            // The question itself is hidden from the code that it asks for.
            QuerySource::Docstring => split_summary(doc, function.own_name()).1,
            _ => doc.clone(),
        };
        FunctionPair {
            query: lesson.text.clone(),
            doc,
            name: function.unit.name.clone(),
            code: function.code.clone(),
            language: String::new(),
            repository: String::new(),
            path: String::new(),
            negatives: Vec::new(),
        }
    })
}

/// Adds pairs from elsewhere: those about held-out functions to the held-out questions, the others to those to learn
/// from.
fn add(
    given: Vec<FunctionPair>,
    functions: &Functions<'_>,
    is_held_out: &[bool],
    split: &mut HoldOut,
    pairs: &mut Vec<FunctionPair>,
) {
    let mut near = NearIndex::new(SAME_CODE);
    functions.all.iter().for_each(|function| _ = near.add(&function.code));
    let held_out = |code: &str| near.find(code).filter(|number| is_held_out[*number]);
    let queries = split.held_out.iter().flat_map(|set| &set.questions.queries);
    let mut asked: HashSet<u64> = queries.map(|query| fingerprint(&query.text)).collect();
    let mut questions = Questions::default();
    let mut others = Vec::new();
    for mut pair in given {
        match held_out(&pair.code) {
            Some(number) if !pair.query.trim().is_empty() => {
                if asked.insert(fingerprint(&pair.query)) {
                    let answers = vec![functions.spans([number])];
                    questions.queries.push(LabeledQuery { text: pair.query, answers });
                }
            }
            Some(_) => {}
            None => {
                pair.negatives.retain(|code| held_out(code).is_none());
                others.push(pair);
            }
        }
    }
    let learned = |pair: &FunctionPair| !asked.contains(&fingerprint(&pair.query));
    pairs.retain(learned);
    pairs.extend(others.into_iter().filter(learned));
    // Queries from elsewhere may be documentation.
    let view = View { hides_docs: true, ..View::default() };
    if !questions.queries.is_empty() {
        split.held_out.push(QuerySet { source: QuerySource::Queries, view, questions });
    }
}
