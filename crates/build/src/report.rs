//! Reports about a build: its card, its analysis, comparisons and forecasts.

pub(crate) mod analysis;
pub(crate) mod card;
pub(crate) mod compare;
pub(crate) mod forecast;
