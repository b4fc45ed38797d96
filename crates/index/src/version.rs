//! The versions that tell whether an index is of use to this program.

/// Version of the files in the directory; an index of another version is rebuilt, never read.
pub(crate) const FORMAT: u32 = 13;

/// Version of this program, and of the languages that it supports.
pub(crate) const PROGRAM: &str = if quarry_source::HAS_MORE_LANGUAGES {
    concat!(env!("CARGO_PKG_VERSION"), " with more languages")
} else {
    env!("CARGO_PKG_VERSION")
};
