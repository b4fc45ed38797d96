//! Measures how often functions are taken for evaluation data that they are not.
//!
//! The functions of each tree are evaluation data for those of the other trees. Projects that share no code have no copies of each
//! other's functions, so what is found is a false alarm, unless the printed functions are copies after all.
//!
//! ```sh
//! cargo run --release -p quarry-corpus --example false_alarms -- TREE TREE...
//! ```

use std::path::Path;

use quarry_corpus::dataset::compared::{ComparedCode, ComparedQuery};
use quarry_corpus::evaluation_data::EvaluationData;
use quarry_corpus::evaluation_guard::EvaluationGuard;
use quarry_corpus::pairs::read_tree;
use quarry_source::FunctionPair;

fn evaluation_data<'f>(functions: impl IntoIterator<Item = &'f FunctionPair>) -> EvaluationData {
    let mut data = EvaluationData::default();
    for function in functions {
        data.add_query(&function.query);
        data.add_code(&function.code, Some(&function.language));
    }
    data
}

#[expect(clippy::print_stdout, reason = "a program for a terminal")]
fn main() {
    let trees: Vec<(String, Vec<FunctionPair>)> = std::env::args()
        .skip(1)
        .map(|tree| {
            let functions = read_tree(Path::new(&tree), &tree, &EvaluationGuard::default());
            (tree, functions.unwrap_or_default())
        })
        .collect();
    let (mut n_codes, mut n_queries, mut same_code, mut same_query) = (0_usize, 0_usize, 0_usize, 0_usize);
    for (number, (tree, functions)) in trees.iter().enumerate() {
        let data = evaluation_data(functions);
        println!("{tree}: {}", data.counts());
        let others = trees.iter().enumerate().filter(|(other, _)| *other != number);
        for (other, function) in
            others.flat_map(|(_, (tree, of_tree))| of_tree.iter().map(move |of| (tree, of)))
        {
            let code = ComparedCode::new(&function.code, Some(&function.language));
            let query = ComparedQuery::new(&function.query);
            n_codes += 1;
            n_queries += usize::from(!function.query.is_empty());
            let is_alike = |data: &EvaluationData| (data.has_code(&code), data.has_query(&query));
            let (by_code, by_query) = is_alike(&data);
            same_code += usize::from(by_code);
            same_query += usize::from(by_query);
            if by_code || by_query {
                let found = functions.iter().find(|own| is_alike(&evaluation_data([*own])) != (false, false));
                let found = found.map_or_else(String::new, |own| format!("{} {:?}", own.name, own.query));
                let what = if by_code { "code" } else { "query" };
                println!("  {what} of {other}: {} {:?} is taken for {found}", function.name, function.query);
            }
        }
    }
    println!("{same_code} of {n_codes} comparisons by code, {same_query} of {n_queries} by query");
}
