//! Builds labeled benchmarks and training pairs from any code: sources, a pool of functions, queries, candidates,
//! labels, splits, exports and a data card, all from one plan.
//!
//! [`Plan::open`] reads and validates a plan, [`build`] executes it. Every step of a build is a directory named by
//! the hash of everything it depends on ([`Key`]), created atomically: a changed parameter invalidates only what
//! depends on it, and an interrupted build can be resumed. The logic between the steps consists of pure functions:
//! extracting functions ([`extract_records`]), filtering them ([`Filter`]), deciding which queries look for code
//! ([`Intents`]).

mod build;
mod candidates;
mod error;
mod export;
mod harmless;
mod jsonl;
mod labels;
mod outputs;
mod plan;
mod queries;
mod record;
mod report;
mod sources;
mod step;

pub use build::{Built, DryRun, Event, Tools, build, dry_run, steps_of};
pub use candidates::depth::{AHEAD, Depth, DepthRow, FLAT, depth_of_build};
pub use error::BuildError;
pub use labels::calibration::{FULL_UNDERSTANDING, UnderstandingRow};
pub use labels::estimate::{WrittenEstimate, estimate_written};
pub use labels::living::{
    Fate, LivingPair, LivingReport, LivingRun, Place, follow, functions_in, tested_pairs,
};
pub use labels::{JudgingEstimate, judging_plans};
pub use plan::Plan;
pub use queries::authoring::{StepCost, WRITTEN};
pub use queries::intent::{Category, Finding, Intents};
pub use queries::{draw_queries, read_file as for_each_query};
pub use record::{CodeRecord, QueryRecord};
pub use report::analysis::{CallRow, QualityRow, WrittenReport};
pub use report::compare::{Comparison, Damage, DamageKind, StepChange, compare, damaged_exports};
pub use report::forecast::{Amount, Forecast};
pub use sources::calls::{CallKind, CallRules, Project, classify};
pub use sources::comments::{CommentBlock, comment_blocks, comment_blocks_as_released};
pub use sources::documented::file_name as documentation_name;
pub use sources::filter::{Filter, filters};
pub use sources::function::{Origin, extract_records};
pub use sources::graph::{Api, apis_of_build};
pub use step::{Key, OutputFile, Step, last_build};
