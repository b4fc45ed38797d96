//! Errors, with the texts of the command line.

use std::error::Error;

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use quarry_text::with_causes;

create_exception!(
    quarry._quarry,
    QuarryError,
    PyException,
    "What Quarry could not do, with the file, what was expected and what to do."
);

/// An exception with the text of an error.
pub(crate) fn raised(error: impl Error) -> PyErr {
    QuarryError::new_err(with_causes(&error))
}
