//! Reports for people: a page with tables and charts.

mod chart;
mod html;

pub use html::page;
