//! What goes wrong in a command is told to a person, so it is a sentence.

/// A reason to stop, ready to be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}
