//! What people read: tables in several forms, and a page with charts.

mod chart;
mod html;
mod table;

pub use html::page;
pub use table::{Layout, Table};
