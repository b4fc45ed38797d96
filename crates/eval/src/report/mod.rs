//! Reports for people: a page with tables and charts.

mod chart;
mod html;

pub use chart::{Series, curves_alone};
pub use html::page;
