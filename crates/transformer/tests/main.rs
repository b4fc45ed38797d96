//! Tests of encoders. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod code_encoders;
mod copy;
mod damaged;
mod encoders;
mod jina_v3;
mod late_interaction;
mod modern_encoders;
mod token_vectors;
mod transformer;
