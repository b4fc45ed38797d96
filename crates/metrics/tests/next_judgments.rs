//! Judgments that are chosen by what they could change reach the final order of methods with fewer than others.

#[path = "../examples/next_judgments.rs"]
#[allow(unreachable_pub, reason = "an example is a program of its own")]
mod simulation;

use quarry_metrics::Measure;
use quarry_metrics::significance::{Pool, PooledDocument};
use simulation::{Reached, median, simulate};

#[test]
fn fewer_judgments_reach_the_final_order_than_at_random_or_by_rank() {
    let Reached { by_worth, random, pooled, .. } = simulate(Measure::ReciprocalRank(None), 5, 20, 2);
    let [by_worth, random, pooled] = [by_worth, random, pooled].map(|judgments| median(&judgments));
    assert!(2 * by_worth < random && by_worth < pooled, "{by_worth} {random} {pooled}");
}

fn document(grade: Option<i32>, ranks: [usize; 2]) -> PooledDocument {
    PooledDocument { grade, ranks: ranks.to_vec() }
}

#[test]
fn documents_that_methods_rank_alike_are_not_worth_a_judgment() {
    let queries = vec![
        vec![document(Some(1), [1, 3]), document(Some(0), [3, 1]), document(None, [2, 2])],
        vec![document(None, [1, 9]), document(Some(0), [2, 1]), document(Some(1), [3, 2])],
    ];
    // One that depends on nothing but what is within the depth.
    let pool = Pool::new(queries, Measure::Precision(2)).unwrap();
    let next = pool.next(5, 1);
    assert_eq!((next.len(), next[0].query, next[0].document), (2, 1, 0), "{next:?}");
    assert_eq!((next[0].worth, next[1].worth), (1.0, 0.0));
    assert_eq!(pool.order(1).unknown, 2);
}

#[test]
fn a_method_that_the_pool_favors_loses_its_place_without_its_own_documents() {
    // Only the first method found anything relevant in most queries, and only its documents were judged.
    let of_query = |query: usize| {
        let mut documents =
            vec![document(Some(1), [1, 99]), document(None, [99, 1]), document(None, [98, 2])];
        documents.push(document(Some(i32::from(query.is_multiple_of(4))), [7, 3]));
        documents
    };
    let queries: Vec<Vec<PooledDocument>> = (0..20).map(of_query).collect();
    let plain = |pool: &Pool| pool.order(1).order;
    let pool = Pool::new(queries.clone(), Measure::ReciprocalRank(None)).unwrap();
    assert_eq!(plain(&pool), [0, 1]);
    let relevant_everywhere = |mut documents: Vec<PooledDocument>| {
        documents[1].grade = Some(1);
        documents[2].grade = Some(1);
        documents[3].grade = Some(1);
        documents
    };
    let queries: Vec<Vec<PooledDocument>> = queries.into_iter().map(relevant_everywhere).collect();
    let pool = Pool::new(queries, Measure::AveragePrecision(None)).unwrap();
    assert_eq!(plain(&pool), [1, 0]);
    assert_eq!(
        pool.rank_without_own_judgments(1, 10, 1),
        plain(&pool).iter().position(|method| *method == 1).unwrap() + 1
    );
}
