//! An open index: what it finds of its trees, and the sources of its units.

pub(crate) mod filter;
pub(crate) mod indexed_file;
pub(crate) mod intact;
pub(crate) mod portable;
pub(crate) mod roots;
pub(crate) mod source;
