//! Builds labeled benchmarks and training pairs from any code: sources, a pool of functions, queries, candidates,
//! labels, splits, exports and a data card, all from one plan.
//!
//! [`Plan::open`] reads and validates a plan, [`build`] executes it. Every step of a build is a directory named by
//! the hash of everything it depends on ([`Key`]), created atomically: a changed parameter invalidates only what
//! depends on it, and an interrupted build can be resumed. The logic between the steps consists of pure functions:
//! extracting functions ([`extract_records`]), filtering them ([`Filter`]), deciding which queries look for code
//! ([`Intents`]).

mod analysis;
mod annotation;
mod authoring;
mod build;
mod calibration;
mod calls;
mod candidates;
mod card;
mod categories;
mod category;
mod comments;
mod compare;
mod croissant;
mod depth;
mod detect;
mod documented;
mod english;
mod error;
mod estimate;
mod evaluation;
mod export;
mod filter;
mod fixes;
mod forecast;
mod found;
mod function;
mod graph;
mod harmless;
mod history;
mod intent;
mod intent_model;
mod issues;
mod jsonl;
mod labels;
mod leaks;
mod license;
mod mask;
mod order;
mod other_languages;
mod outputs;
mod pairs;
mod people;
mod plan;
mod pool;
mod query;
mod record;
mod snippet;
mod source;
mod step;
mod styles;
mod written;

pub use analysis::{CallRow, QualityRow, WrittenReport};
pub use authoring::WRITTEN;
pub use build::{Built, DryRun, Event, Tools, build, dry_run, steps_of};
pub use calibration::{FULL_UNDERSTANDING, Understanding, UnderstandingRow};
pub use calls::{CallKind, CallRules, Project, classify};
pub use comments::{CommentBlock, comment_blocks, comment_blocks_as_released};
pub use compare::{Comparison, Damage, DamageKind, StepChange, compare, damaged_exports, parts_of_build};
pub use depth::{AHEAD, Depth, DepthRow, FLAT, depth_of_build, depth_of_run};
pub use documented::file_name as documentation_name;
pub use error::FactoryError;
pub use estimate::{WrittenEstimate, estimate_written};
pub use filter::{Filter, filters};
pub use forecast::{Amount, Forecast};
pub use function::{Origin, extract_records};
pub use graph::{Api, apis_of_build};
pub use intent::{Category, Finding, Intents};
pub use intent_model::IntentModel;
pub use pairs::{BuiltPair, for_each_pair};
pub use plan::Plan;
pub use query::{draw_queries, read_file as for_each_query};
pub use record::{CodeRecord, QueryRecord};
pub use step::{Key, OutputFile, Step};
