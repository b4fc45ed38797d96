//! Reports for people: a page with tables and charts.

pub mod chart;
mod document;
mod html;

pub use chart::{Bar, Series, bars_alone, curves_alone};
pub use document::{document, table};
pub use html::page;
