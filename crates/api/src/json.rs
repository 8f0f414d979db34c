//! JSON in and out.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::error::{Problem, code};
use crate::limits::MAX_SAID_CHARS;
use crate::list::Object;

/// Reads a body. What is wrong with it is found in a second pass, so that good bodies don't pay for it: they are no deeper
/// than what they are read as.
pub fn read<T: DeserializeOwned>(body: &[u8], max_depth: usize) -> Result<T, Problem> {
    // Looked at once as a whole, and not again string by string.
    let read = match std::str::from_utf8(body) {
        Ok(text) => rowlock_json::read_plain(text).or_else(|_| serde_json::from_str(text)),
        Err(_) => serde_json::from_slice(body),
    };
    read.map(|Object(value)| value).map_err(|error| {
        if depth(body) > max_depth {
            let detail = format!("objects and lists may be at most {max_depth} deep");
            return Problem::new(&code::JSON_TOO_DEEP, detail);
        }
        match error.classify() {
            Category::Data => invalid::<T>(body, &error),
            // It is JSON; only no number here can be so large. serde_json has no other sign for that.
            _ if error.to_string().starts_with("number out of range") => invalid::<T>(body, &error),
            _ => Problem::new(&code::MALFORMED_JSON, error.to_string()),
        }
    })
}

fn invalid<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Problem {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let path = match serde_path_to_error::deserialize::<_, Object<T>>(&mut reader) {
        Err(error) => error.path().to_string(),
        Ok(_) => String::new(),
    };
    let text = error.to_string();
    let rule = text.rsplit_once(" at line ").map_or(text.as_str(), |(rule, _)| rule);
    // A field that is unknown may have a very long name, and need not be read out in full.
    let (rule, path) = (shortened(rule), shortened(&path));
    // The field itself is the better name where the rule is about a field that is missing, unknown or doubled.
    let quoted = rule.split('`').nth(1).filter(|_| rule.contains("field `"));
    match (path, quoted) {
        ("." | "", Some(field)) => Problem::invalid(field.to_owned(), format_args!("is wrong: {rule}")),
        ("." | "", None) => Problem::invalid("", format_args!("the body is wrong: {rule}")),
        (path, _) if rule.starts_with("must ") => Problem::invalid(path.to_owned(), rule),
        (path, _) => Problem::invalid(path.to_owned(), format_args!("is wrong: {rule}")),
    }
}

fn shortened(text: &str) -> &str {
    text.char_indices().nth(MAX_SAID_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// How deep objects and lists go in a text that may or may not be JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

pub fn respond(status: StatusCode, view: &impl Serialize) -> Response {
    response(status, rowlock_json::to_string(view, 1024).expect("a view is JSON"))
}

/// A text as the body of an answer. The room that is left in it is given up first: bytes with room to spare would be counted
/// references, which nobody needs here, and those are one more allocation.
pub fn body(text: String) -> Body {
    Body::from(Bytes::from(text.into_bytes().into_boxed_slice()))
}

/// An answer of JSON that is written already.
pub fn response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(self::body(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_outside_strings_only() {
        for (text, expected) in
            [("", 0), ("1", 0), ("{}", 1), ("[[1],[2,{}]]", 3), (r#"{"a":"[[[\"[["}"#, 1), ("]]][[", 2)]
        {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sample {
        name: String,
        #[serde(default)]
        counts: Vec<u32>,
    }

    fn detail(body: &str) -> (&'static str, String) {
        let problem = read::<Sample>(body.as_bytes(), 4).unwrap_err();
        (problem.code().name, problem.detail().to_owned())
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(detail("{").0, "malformed_json");
        assert_eq!(detail("").0, "malformed_json");
        assert_eq!(detail(r#"{"name":"a"} x"#).0, "malformed_json");
        assert_eq!(detail("[[[[[").0, "json_too_deep");
        assert_eq!(detail("{}"), ("invalid", "name is wrong: missing field `name`".into()));
        assert!(detail(r#"{"name":"a","x":1}"#).1.starts_with("x is wrong: unknown field `x`"));
        assert!(detail(r#"{"name":"a","name":"b"}"#).1.starts_with("name is wrong: duplicate field"));
        assert!(detail(r#"{"name":"a","counts":[1,-1]}"#).1.starts_with("counts[1] is wrong"));
        let too_large = detail(r#"{"name":"a","counts":[1,1e400]}"#);
        assert_eq!(too_large, ("invalid", "counts[1] is wrong: number out of range".into()));
        assert!(detail("[]").1.contains("name") || detail("[]").1.contains("body"));
    }
}
