//! Intervals with the errors of labels cover a known truth as often as they say.

#[path = "../examples/label_noise.rs"]
#[allow(unreachable_pub, reason = "an example is a program of its own")]
mod simulation;

use simulation::{MEASURES, SCENARIOS, Scenario, simulate};

#[test]
fn nominal_intervals_cover_the_truth_when_labels_err() {
    let scenario = Scenario { queries: 40, documents: 15, ..SCENARIOS[1] };
    for (measure, found) in MEASURES.iter().zip(simulate(&scenario, 150, 100, 3)) {
        for covered in [found.covered[1], found.difference_covered] {
            assert!((0.93..=0.97).contains(&covered), "{measure}: {found:?}");
        }
        // Those of labels as they are miss it.
        assert!(found.covered[0] < 0.9, "{measure}: {found:?}");
    }
}
