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

use pyo3::prelude::*;

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
    Ok(())
}
