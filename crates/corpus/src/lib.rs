//! Walks source trees and reads data set files.

pub mod dataset;
mod flags;
pub mod formats;
pub mod pairs;
pub mod walk;
