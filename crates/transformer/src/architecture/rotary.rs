//! Spellings of the base of rotary positions in configurations.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::attention::Rotary;
use quarry_embed::EmbedError;

/// Checks that the columns of a head form pairs.
pub(super) fn check_width(path: &Path, head_width: usize) -> Result<(), EmbedError> {
    if head_width.is_multiple_of(2) {
        return Ok(());
    }
    let problem = format!("gives heads {head_width} columns; expected an even number for rotary positions");
    Err(EmbedError::model(path, problem))
}

/// The fields of a `config.json` about rotary positions: newer ones have all in `rope_parameters`, for all layers or for
/// each kind of layer.
#[derive(Deserialize, Default)]
pub(super) struct Fields {
    rope_parameters: Option<Map<String, Value>>,
    rope_scaling: Option<Map<String, Value>>,
}

impl Fields {
    /// The rotation of the layers of a kind, whose base is `old` where older configurations have it, else `default`.
    pub(super) fn rotary(
        &self,
        path: &Path,
        kind: &str,
        old: Option<f32>,
        default: f32,
    ) -> Result<Rotary, EmbedError> {
        let wrong = |problem: String| Err(EmbedError::model(path, problem));
        let parameters = self.rope_parameters.as_ref();
        let of_kind = parameters.and_then(|all| all.get(kind)).and_then(Value::as_object);
        let parameters = of_kind.or(parameters);
        for (name, fields) in [("rope_parameters", parameters), ("rope_scaling", self.rope_scaling.as_ref())]
        {
            let kind = fields.and_then(|fields| fields.get("rope_type").or_else(|| fields.get("type")));
            if let Some(kind) = kind.filter(|kind| *kind != "default") {
                return wrong(format!(
                    "asks in {name} for rotary positions of type {kind}, which is not supported; expected \"default\""
                ));
            }
        }
        let found = parameters.and_then(|fields| fields.get("rope_theta")).and_then(Value::as_f64);
        let base = found.map(|base| base as f32).or(old).unwrap_or(default);
        if !(base.is_finite() && base > 0.0) {
            return wrong(format!("gives rotary positions the base {base}; expected a number above 0"));
        }
        Ok(Rotary { base })
    }
}
