//! Finds evaluation data among training data.

use std::path::PathBuf;

use anyhow::Context;
use quarry_corpus::dataset::near::NearIndex;
use quarry_corpus::pairs::{Exclusion, each_text};
use quarry_train::encoder::Row;

/// The similarity from which on two codes are near duplicates.
const NEAR: f64 = 0.8;

/// The texts of evaluation data.
pub struct EvaluationData {
    exclusion: Exclusion,
    near: NearIndex,
}

impl EvaluationData {
    /// Reads files of any form with text.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<EvaluationData> {
        let mut data = EvaluationData { exclusion: Exclusion::default(), near: NearIndex::new(NEAR) };
        for path in paths {
            let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
            each_text(&String::from_utf8_lossy(&bytes), &mut |text| {
                data.exclusion.add(text);
                if is_code(text) {
                    data.near.add(text);
                }
            });
        }
        Ok(data)
    }

    /// The rows whose code is in the data: the same letters and digits, or nearly the same runs of identifiers.
    pub fn find(&self, rows: &[Row]) -> Vec<String> {
        let is_known =
            |code: &str| self.exclusion.holds_code(code) || (is_code(code) && self.near.find(code).is_some());
        let name = |(at, row): (usize, &Row)| {
            let query: String = row.query.chars().take(60).collect();
            std::iter::once(&row.code)
                .chain(&row.negatives)
                .any(|code| is_known(code))
                .then(|| format!("pair {} ({query:?})", at + 1))
        };
        rows.iter().enumerate().filter_map(name).collect()
    }
}

/// Whether a text is long enough for near duplicates to mean anything.
fn is_code(text: &str) -> bool {
    quarry_text::identifiers(text).take(20).count() == 20
}
