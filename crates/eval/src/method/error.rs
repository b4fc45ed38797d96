//! Why an expression is not a method.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at character {}, found {found}\n  {text}\n  {}^", .at + 1, " ".repeat(*.at))]
pub struct MethodError {
    pub(super) text: String,
    /// Offset of the error in characters.
    pub(super) at: usize,
    pub(super) expected: String,
    pub(super) found: String,
}
