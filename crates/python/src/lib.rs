//! The module `quarry._quarry` of the Python package: a thin layer over the libraries.
//!
//! Functions return the same JSON as the commands of the program; the classes that people use are in `python/quarry`.

mod encoder;
mod error;
mod evaluation;
mod index;
mod interruptible;
mod model;
mod retriever;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use quarry_cli::Embedded;

/// The module.
#[pymodule]
fn _quarry(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("QuarryError", module.py().get_type::<error::QuarryError>())?;
    module.add_class::<encoder::Encoder>()?;
    module.add_class::<index::Index>()?;
    module.add_class::<retriever::Retriever>()?;
    module.add_function(wrap_pyfunction!(retriever::check_method, module)?)?;
    module.add_function(wrap_pyfunction!(evaluation::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(evaluation::compare, module)?)?;
    module.add_function(wrap_pyfunction!(run_program, module)?)?;
    Ok(())
}

/// Runs the program `quarry` once, and returns its exit code. `arguments` begin with the path of the script; `library` is
/// the file of this module.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<OsString>, library: PathBuf) -> u8 {
    py.detach(|| quarry_cli::run_embedded(Embedded { arguments, library }))
}
