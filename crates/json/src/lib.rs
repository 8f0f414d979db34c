//! JSON, written quickly: the same text that serde_json writes, for little more than half of the instructions.
//!
//! Every hold is written as JSON twice, for the journal and for its buyer, and most of what serde_json does for it is to
//! look at every byte for something to escape. Here names of fields are taken as they are, and texts are looked at many bytes at a time.

mod escape;
mod write;

use serde::Serialize;
use serde_json::Error;

use self::write::Writer;

/// A value as JSON. `capacity` is how long the text is likely to be.
///
/// Keys of maps are strings, numbers or booleans; others are an error. A `RawValue` is not known here.
pub fn to_string<T: Serialize + ?Sized>(value: &T, capacity: usize) -> Result<String, Error> {
    let mut text = String::with_capacity(capacity);
    value.serialize(Writer(&mut text))?;
    Ok(text)
}
