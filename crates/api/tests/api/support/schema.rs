//! Enough of JSON Schema to compare answers with the OpenAPI document.

use std::sync::LazyLock;

use serde_json::Value;

use super::Answer;

pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&rowlock_api::openapi_json()).unwrap());

/// The template of a concrete path, if the document has one. Fixed words win over parameters.
pub fn template(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (a, b) = (template.split('/'), path.split('/'));
        a.clone().count() == b.clone().count()
            && a.zip(b).all(|(a, b)| a == b || a.starts_with('{') && !b.is_empty())
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().keys();
    paths
        .filter(|template| fits(template))
        .min_by_key(|template| template.matches('{').count())
        .map(String::as_str)
}

/// What any answer over HTTP may have.
const OF_HTTP: [&str; 5] = ["connection", "content-length", "content-type", "date", "transfer-encoding"];

/// Panics when the answer is not one that the document promises.
pub fn check_answer(method: &str, path: &str, answer: &Answer) {
    let Some(template) = template(path) else { return };
    let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
    let operation = &DOCUMENT["paths"][template][&method];
    if operation.is_null() {
        assert_eq!(answer.status, 405, "{method} {template} is not in the document");
        return;
    }
    let response = &operation["responses"][answer.status.to_string()];
    let body = String::from_utf8_lossy(&answer.bytes);
    assert!(!response.is_null(), "{method} {template} may not answer {}: {body}", answer.status);
    if answer.status >= 400 {
        let code = answer.json()["code"].as_str().unwrap().to_owned();
        let names = &operation["x-problems"];
        let listed = names.as_array().unwrap().iter().any(|name| name == &code);
        assert!(listed || code == "method_not_allowed", "{method} {template} may not answer {code}");
    }
    let described = response["headers"].as_object().unwrap();
    for name in answer.headers.keys().filter(|name| !OF_HTTP.contains(&name.as_str())) {
        let is_described = described.keys().any(|known| known.eq_ignore_ascii_case(name.as_str()));
        assert!(is_described, "{method} {template} {} may not have {name}", answer.status);
    }
    if answer.bytes.is_empty() || answer.headers.contains_key("content-encoding") {
        return;
    }
    let kind = answer.header("content-type").split(';').next().unwrap();
    let content = &response["content"][kind];
    assert!(!content.is_null(), "{method} {template} {} may not answer {kind}", answer.status);
    if kind.ends_with("json")
        && let Err(error) = check(&content["schema"], &answer.json(), "$")
    {
        panic!("{method} {template} {}: {error}\n{body}", answer.status);
    }
}

pub fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(target) = schema["$ref"].as_str() {
        let pointer = target.strip_prefix('#').unwrap();
        let schema = DOCUMENT.pointer(pointer).ok_or_else(|| format!("{target} does not exist"))?;
        return check(schema, value, at);
    }
    for combination in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[combination].as_array() {
            let results: Vec<_> = choices.iter().map(|choice| check(choice, value, at)).collect();
            let fitting = results.iter().filter(|result| result.is_ok()).count();
            if fitting == 0 || (combination == "oneOf" && fitting > 1) {
                return Err(format!("{at}: {fitting} of {combination} fit: {results:?}"));
            }
        }
    }
    check_type(schema, value, at)?;
    match value {
        Value::Object(map) => check_object(schema, map, at),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| check(&schema["items"], item, &format!("{at}[{i}]"))),
        Value::String(text) => check_text(schema, text, at),
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let low = schema["minimum"].as_f64().is_some_and(|minimum| number < minimum);
            let high = schema["maximum"].as_f64().is_some_and(|maximum| number > maximum);
            if low || high { Err(format!("{at}: {number} is out of range")) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

fn check_type(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = |wanted: &str| wanted == kind || (wanted == "number" && kind == "integer");
    let ok = match &schema["type"] {
        Value::String(wanted) => fits(wanted),
        Value::Array(kinds) => kinds.iter().any(|wanted| fits(wanted.as_str().unwrap())),
        _ => true,
    };
    if !ok {
        return Err(format!("{at}: {kind} is not {}", schema["type"]));
    }
    match schema["enum"].as_array() {
        Some(words) if !words.contains(value) => Err(format!("{at}: {value} is not one of {words:?}")),
        _ => Ok(()),
    }
}

fn check_object(schema: &Value, map: &serde_json::Map<String, Value>, at: &str) -> Result<(), String> {
    for name in schema["required"].as_array().into_iter().flatten() {
        if !map.contains_key(name.as_str().unwrap()) {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    for (name, value) in map {
        match &schema["properties"][name] {
            Value::Null if schema["additionalProperties"] == false => {
                return Err(format!("{at}: {name} is not described"));
            }
            described => check(described, value, &format!("{at}.{name}"))?,
        }
    }
    Ok(())
}

fn check_text(schema: &Value, text: &str, at: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    let short = schema["minLength"].as_u64().is_some_and(|least| length < least);
    let long = schema["maxLength"].as_u64().is_some_and(|most| length > most);
    let formed = match schema["format"].as_str() {
        Some("uuid") => text.len() == 36 && uuid::Uuid::try_parse(text).is_ok(),
        Some("date-time") => text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T',
        _ => true,
    };
    if short || long || !formed { Err(format!("{at}: «{text}» does not fit")) } else { Ok(()) }
}
