//! Format of an index on disk: mapped files, the table of files and units, segments, and the directory that names the
//! valid generation.

pub(crate) mod column;
pub(crate) mod content_hash;
pub(crate) mod field_sizes;
pub(crate) mod index_directory;
pub(crate) mod map;
pub(crate) mod records;
pub(crate) mod segments;
pub(crate) mod stored_file;
pub(crate) mod table;
pub(crate) mod tokens;
pub(crate) mod user_directories;
