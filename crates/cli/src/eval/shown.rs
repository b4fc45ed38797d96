//! Numbers and names as tables show them.

use std::path::Path;

use quarry_metrics::significance::Interval;

/// Four decimals, or a dash if the value is undefined.
pub fn format_defined(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.4}"))
}

pub fn format_interval(Interval { low, high }: Interval) -> String {
    format!("[{low:.4}, {high:.4}]")
}

pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The directory's own name, even if it is given as `.`.
pub fn directory_name(path: &Path) -> String {
    file_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}
