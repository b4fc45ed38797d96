//! The description of the API, from the types of its answers.

use serde_json::{Value, json};

/// The OpenAPI description of the HTTP API.
#[must_use]
pub fn description() -> Value {
    json!({})
}
