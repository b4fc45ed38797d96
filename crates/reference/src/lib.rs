//! The pages in `docs/reference` that are generated from the program's definitions (commands, settings, languages, formats,
//! protocols), help texts, and a check that the command lines in all documents parse.
//!
//! Everything here is a test: `UPDATE_EXPECT=1 cargo test -p quarry-reference` rewrites the pages.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "tests")]

mod command_lines;
mod pages;
