//! Errors, with the texts of the command line.

use std::error::Error;

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    quarry._quarry,
    QuarryError,
    PyException,
    "What Quarry could not do, with the file, what was expected and what to do."
);

/// An exception with the text of an error.
pub(crate) fn raised(error: impl Error) -> PyErr {
    QuarryError::new_err(text_of(&error))
}

/// The text of an error and of its causes, as the command line prints them.
pub(crate) fn text_of(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
