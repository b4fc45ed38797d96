//! Walks source trees and reads data set files.

pub mod formats;
pub mod pairs;
pub mod walk;
