//! Reports for people: a page with tables and charts.

pub mod chart;
mod comparison;
mod document;
mod html;
pub mod training;

pub use chart::{Bar, Series, bars_alone, curves_alone, reliability_alone};
pub use comparison::{Order, Question, comparison};
pub use document::{ServedPage, document, served_document, served_file, table};
pub use html::{page, served_list, served_page};
