//! JSON, written and read quickly: the same text that serde_json writes, for little more than half of the instructions, and what
//! clients usually send, for about as much less.
//!
//! Every hold is written as JSON twice, for the journal and for its buyer, and most of what serde_json does for it is to
//! look at every byte for something to escape. Here names of fields are taken as they are, and texts are looked at many bytes at a time.

mod escape;
mod read;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Error;

pub use self::read::NotPlain;
use self::read::Reader;
use self::write::Writer;

/// A value as JSON. `capacity` is how long the text is likely to be.
///
/// Keys of maps are strings, numbers or booleans; others are an error. A `RawValue` is not known here.
pub fn to_string<T: Serialize + ?Sized>(value: &T, capacity: usize) -> Result<String, Error> {
    let mut text = String::with_capacity(capacity);
    append(value, &mut text)?;
    Ok(text)
}

/// The same, behind what is written already.
pub fn append<T: Serialize + ?Sized>(value: &T, text: &mut String) -> Result<(), Error> {
    value.serialize(Writer(text))
}

/// Reads JSON of the plainest kind. What is read here serde_json reads too, and as the same. What is not may still be JSON: ask
/// serde_json then, which also says what is wrong.
pub fn read_plain<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, NotPlain> {
    let mut reader = Reader::new(text);
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}
