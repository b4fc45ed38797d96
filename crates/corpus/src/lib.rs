//! Walks source trees and reads data set files.

mod flags;
pub mod formats;
pub mod pairs;
pub mod walk;
