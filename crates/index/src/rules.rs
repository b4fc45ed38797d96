//! Ranking rules.
