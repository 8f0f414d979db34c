//! The id that ties an answer, the journal and the log together.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use rand::RngCore;
use uuid::Uuid;

use crate::limits::MAX_REQUEST_ID_CHARS;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's id where it is short and printable, else a fresh one.
pub fn of(headers: &HeaderMap) -> Arc<str> {
    if let Some(given) = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok())
        && (1..=MAX_REQUEST_ID_CHARS).contains(&given.len())
        && given.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Arc::from(given);
    }
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    let mut text = Uuid::encode_buffer();
    Arc::from(&*Uuid::from_bytes(bytes).simple().encode_lower(&mut text))
}
