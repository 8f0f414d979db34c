//! The same text and the same values as serde_json.

mod same_text;
mod same_value;
