//! An engine in memory, for tests of everything but the protocol of an engine.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Engine, EngineError, Narrowing, Record, Space, UnitRow};

#[derive(Debug, Default)]
pub struct MemoryEngine(Mutex<EngineState>);

#[derive(Debug, Default)]
struct EngineState {
    dimension: Option<usize>,
    records: BTreeMap<(Space, String), Record>,
    units: BTreeMap<String, UnitRow>,
}

impl MemoryEngine {
    /// Number of records and of units.
    pub fn sizes(&self) -> (usize, usize) {
        let stored = self.stored();
        (stored.records.len(), stored.units.len())
    }

    fn stored(&self) -> MutexGuard<'_, EngineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys of the units with the best scores above 0.
    fn best(&self, limit: usize, within: &Narrowing, score: impl Fn(&UnitRow) -> f32) -> Vec<String> {
        let stored = self.stored();
        let units = stored.units.values().filter(|unit| within.passes(unit));
        let mut scored: Vec<(f32, &str)> = units.map(|unit| (score(unit), unit.key.as_str())).collect();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        scored.into_iter().take(limit).map(|(_, key)| key.to_owned()).collect()
    }
}

impl Narrowing {
    fn passes(&self, unit: &UnitRow) -> bool {
        let is_in = |values: &[String], value: &String| values.is_empty() || values.contains(value);
        let has_extension = || self.extensions.iter().any(|extension| unit.path.ends_with(extension));
        is_in(&self.trees, &unit.tree)
            && (is_in(&self.languages, &unit.language) || has_extension())
            && is_in(&self.kinds, &unit.kind)
            && unit.path.starts_with(&self.directory)
    }
}

impl Engine for MemoryEngine {
    fn prepare(&self, dimension: usize) -> Result<(), EngineError> {
        let mut stored = self.stored();
        if *stored.dimension.get_or_insert(dimension) == dimension {
            return Ok(());
        }
        Err(EngineError::Refused {
            address: "memory".to_owned(),
            action: format!("store vectors of {dimension} columns"),
            reason: format!("expected {}", stored.dimension.unwrap_or_default()),
        })
    }

    fn put(&self, space: Space, records: &[Record]) -> Result<(), EngineError> {
        let mut stored = self.stored();
        for record in records {
            stored.records.insert((space, record.key.clone()), record.clone());
        }
        Ok(())
    }

    fn get(&self, space: Space, keys: &[String]) -> Result<Vec<Record>, EngineError> {
        let stored = self.stored();
        Ok(keys.iter().filter_map(|key| stored.records.get(&(space, key.clone())).cloned()).collect())
    }

    fn all(&self, space: Space) -> Result<Vec<Record>, EngineError> {
        let stored = self.stored();
        let of_space = stored.records.iter().filter(|((of, _), _)| *of == space);
        Ok(of_space.map(|(_, record)| record.clone()).collect())
    }

    fn keys(&self, space: Space, tree: &str) -> Result<Vec<String>, EngineError> {
        let all = self.all(space)?.into_iter();
        Ok(all.filter(|record| record.tree == tree).map(|record| record.key).collect())
    }

    fn delete(&self, space: Space, keys: &[String]) -> Result<(), EngineError> {
        let mut stored = self.stored();
        for key in keys {
            stored.records.remove(&(space, key.clone()));
        }
        Ok(())
    }

    fn put_units(&self, units: &[UnitRow]) -> Result<(), EngineError> {
        let mut stored = self.stored();
        stored.units.extend(units.iter().map(|unit| (unit.key.clone(), unit.clone())));
        Ok(())
    }

    fn delete_units(&self, files: &[String]) -> Result<(), EngineError> {
        let files: HashSet<&String> = files.iter().collect();
        self.stored().units.retain(|_, unit| !files.contains(&unit.file));
        Ok(())
    }

    fn nearest(&self, vector: &[f32], limit: usize, within: &Narrowing) -> Result<Vec<String>, EngineError> {
        let product = |unit: &UnitRow| unit.dense.iter().zip(vector).map(|(a, b)| a * b).sum();
        Ok(self.best(limit, within, product))
    }

    fn with_terms(
        &self,
        terms: &[(u32, f32)],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        let weights: BTreeMap<u32, f32> = terms.iter().copied().collect();
        let product = |unit: &UnitRow| {
            unit.sparse.iter().map(|(term, weight)| weight * weights.get(term).unwrap_or(&0.0)).sum()
        };
        Ok(self.best(limit, within, product))
    }

    fn defining(
        &self,
        symbols: &[String],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError> {
        Ok(self.best(limit, within, |unit| f32::from(u8::from(symbols.contains(&unit.symbol)))))
    }
}
