//! The OpenAPI document: what the handlers declare, and what is true of all of them.

mod links;

use std::collections::{BTreeMap, BTreeSet};

use rowlock_core::limits::MAX_USER_CHARS;
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{Conflict, ProblemView, code};
use crate::limits::DEFAULT_PAGE;
use crate::{routes, wire};

const METHODS: [&str; 3] = ["get", "post", "delete"];

/// What the middleware and the extractors can answer, whatever the route.
const OF_ALL: &[&str] = &["internal", "timeout"];
const OF_ALL_GUARDED: &[&str] =
    &["unauthenticated", "missing_scope", "invalid", "rate_limited", "unavailable"];
const OF_WITH_ACT_AS: &[&str] = &["act_as_refused"];
const OF_ALL_POSTS: &[&str] =
    &["malformed_json", "json_too_deep", "body_unreadable", "body_too_large", "unsupported_media_type"];
const OF_ALL_THAT_REPLAY: &[&str] = &["idempotency_key_reused"];
const OF_ALL_CHANGES: &[&str] = &["busy", "stopping"];

const NEXT_PAGE: &str = "Where the next page is, as `<address>; rel=\"next\"`. Absent from the last page.";

pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&sorted(document())).expect("the document is JSON");
    text.push('\n');
    text
}

fn document() -> Value {
    let mut guarded = value(routes::guarded().into_openapi());
    let mut probes = value(routes::probes().into_openapi());
    let mut paths = object(guarded["paths"].take());
    for (_, item) in &mut paths {
        for_operations(item, |method, operation| complete(method, operation, true));
    }
    let mut open = object(probes["paths"].take());
    for (_, item) in &mut open {
        for_operations(item, |method, operation| complete(method, operation, false));
    }
    paths.append(&mut open);
    let mut schemas = object(guarded["components"]["schemas"].take());
    schemas.append(&mut object(probes["components"]["schemas"].take()));
    add::<ProblemView<'_>>(&mut schemas);
    add::<Conflict>(&mut schemas);
    let codes: Vec<&str> = code::ALL.iter().map(|code| code.name).collect();
    schemas["Problem"]["properties"]["code"] = json!({
        "type": "string", "enum": codes, "description": "Stable. Programs should look at this and at nothing else.",
    });
    for (name, schema) in &mut schemas {
        close(schema);
        flatten(schema);
        refine(name, schema);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rowlock",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Seat holds and reservations. Errors are explained at /docs/errors/{code}.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "tags": [
            { "name": "bookings", "description": "Holding, confirming, cancelling." },
            { "name": "events", "description": "Events, their seats and how full they are." },
            { "name": "admin", "description": "For organizers and operators." },
            { "name": "operations", "description": "Probes and metrics." },
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http", "scheme": "bearer",
                    "description": "An API key (rk_…) or a JWT.",
                },
            },
        },
    })
}

fn value(openapi: utoipa::openapi::OpenApi) -> Value {
    serde_json::to_value(openapi).expect("the document is JSON")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn add<T: ToSchema>(schemas: &mut Map<String, Value>) {
    let schema = serde_json::to_value(<T as PartialSchema>::schema()).expect("a schema is JSON");
    schemas.insert(T::name().into_owned(), schema);
}

fn for_operations(item: &mut Value, mut change: impl FnMut(&str, &mut Value)) {
    for method in METHODS {
        if let Some(operation) = item.get_mut(method) {
            change(method, operation);
        }
    }
}

/// Adds to an operation what its handler does not have to say.
fn complete(method: &str, operation: &mut Value, guarded: bool) {
    let mut problems: BTreeSet<String> = match operation.get("x-problems") {
        Some(Value::Array(names)) => {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        _ => BTreeSet::new(),
    };
    let mut also = |names: &[&str]| problems.extend(names.iter().map(|&name| name.to_owned()));
    also(OF_ALL);
    if guarded {
        also(OF_ALL_GUARDED);
        also(OF_WITH_ACT_AS);
        operation["security"] = json!([{ "bearer": [] }]);
        if let Some(Value::Array(parameters)) = operation.get_mut("parameters") {
            parameters.iter_mut().for_each(refine_parameter);
        }
        if let Some(body) = operation.get_mut("requestBody") {
            refine_body(body);
        }
        add_headers(method, operation);
    }
    let replays = method == "post" && !keeps_no_answer(operation);
    if method == "post" {
        also(OF_ALL_POSTS);
    }
    if replays {
        also(OF_ALL_THAT_REPLAY);
    }
    if method != "get" {
        also(OF_ALL_CHANGES);
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for name in &problems {
        let known = code::ALL.iter().find(|code| code.name == name);
        let code = known.unwrap_or_else(|| panic!("{name} is not in the table of codes"));
        by_status.entry(code.status).or_default().push(code.name);
    }
    for (status, names) in by_status {
        operation["responses"][status.to_string()] = problem_response(status, &names);
    }
    operation["responses"]["405"] = problem_response(405, &["method_not_allowed"]);
    let parameters = operation["parameters"].as_array();
    let has_pages =
        parameters.is_some_and(|given| given.iter().any(|parameter| parameter["name"] == "after"));
    if let Some(Value::Object(responses)) = operation.get_mut("responses") {
        for (status, response) in responses {
            add_response_headers(status, response, guarded, replays);
            if has_pages && status == "200" {
                response["headers"]["Link"] = text_field(NEXT_PAGE);
            }
            links::add(response);
        }
    }
    operation["x-problems"] = json!(problems);
}

fn problem_response(status: u16, names: &[&str]) -> Value {
    let words: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let description = format!("{}.", words.join(", "));
    let mut response = json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    let field = |description: &str, schema: Value| json!({ "description": description, "schema": schema });
    match status {
        401 => {
            response["headers"]["WWW-Authenticate"] = field("Bearer.", json!({ "type": "string" }));
        }
        405 => response["headers"]["Allow"] = field("What is possible.", json!({ "type": "string" })),
        429 | 503 => {
            let seconds = json!({ "type": "integer", "minimum": 0 });
            response["headers"]["Retry-After"] = field("Seconds to wait.", seconds);
        }
        _ => {}
    }
    response
}

fn add_headers(method: &str, operation: &mut Value) {
    let mut parameters = match operation.get_mut("parameters").map(Value::take) {
        Some(Value::Array(parameters)) => parameters,
        _ => Vec::new(),
    };
    parameters.push(json!({
        "name": "Rowlock-User", "in": "header", "required": false,
        "description": "The user that a backend acts for, as UTF-8. Only with an API key of the scope act_as.",
        "schema": { "type": "string", "minLength": 1, "maxLength": MAX_USER_CHARS, "pattern": wire::TEXT_PATTERN },
    }));
    if method == "post" && !keeps_no_answer(operation) {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Makes a repetition safe for 24 hours: the same key and body, byte for byte, get the answer of the first time, as it was then. Only what succeeded is recorded: after an error the key is free. Quotes around all of it are not a part of it.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!#-~]+$" },
        }));
    }
    operation["parameters"] = Value::Array(parameters);
}

/// Whether an idempotency key means nothing here, as the handler says.
fn keeps_no_answer(operation: &Value) -> bool {
    operation["x-keeps-no-answer"] == json!(true)
}

fn add_response_headers(status: &str, response: &mut Value, guarded: bool, replays: bool) {
    let mut add = |name: &str, description| response["headers"][name] = text_field(description);
    add("X-Request-Id", "Ties the answer to the log.");
    if guarded && status != "401" {
        add("RateLimit", "What is left of the rate limit.");
        add("RateLimit-Policy", "The rate limit.");
    }
    if replays && status.starts_with('2') {
        add("Idempotency-Replayed", "«true» when the answer is a recorded one.");
    }
}

fn text_field(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "string" } })
}

/// Nothing but what is described comes: neither in nor out.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("type") == Some(&json!("object")) && map.contains_key("properties") {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            map.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Puts the description of an inlined schema into it. The derive macro adds it as a second schema, of type object.
fn flatten(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Array(parts)) = map.get("allOf")
                && let [Value::Object(first), Value::Object(second)] = parts.as_slice()
                && second.keys().all(|name| name == "description" || name == "type")
            {
                let mut joined = first.clone();
                joined.extend(
                    second.iter().filter(|(name, _)| *name != "type").map(|(n, v)| (n.clone(), v.clone())),
                );
                map.remove("allOf");
                map.append(&mut joined);
            }
            map.values_mut().for_each(flatten);
        }
        Value::Array(items) => items.iter_mut().for_each(flatten),
        _ => {}
    }
}

/// A body that may be left out is not the same as the body `null`.
fn refine_body(body: &mut Value) {
    let schema = &mut body["content"]["application/json"]["schema"];
    let optional = schema["oneOf"]
        .as_array()
        .and_then(|choices| choices.iter().find(|choice| choice["$ref"].is_string()));
    let optional = optional.cloned();
    body["required"] = json!(optional.is_none());
    if let Some(only) = optional {
        body["content"]["application/json"]["schema"] = only;
    }
}

/// What the derive macro can't say of parameters.
fn refine_parameter(parameter: &mut Value) {
    match parameter["name"].as_str() {
        Some("form") => {
            parameter["schema"] = json!({ "type": "string", "enum": ["full", "compact", "status"] })
        }
        Some("If-None-Match") => parameter["schema"] = json!({ "type": "string" }),
        // Of the release: elsewhere it is a part of the path.
        Some("seat_id") if parameter["in"] == "query" => parameter["schema"]["uniqueItems"] = json!(true),
        Some("user_id") => parameter["schema"]["pattern"] = json!(wire::TEXT_PATTERN),
        Some("limit") => parameter["schema"]["default"] = json!(DEFAULT_PAGE),
        _ => {}
    }
}

/// What the derived schemas can't say.
fn refine(name: &str, schema: &mut Value) {
    match name {
        "HoldSeats" | "Book" => {
            schema["properties"]["seat_ids"]["uniqueItems"] = json!(true);
            schema["anyOf"] = json!([
                { "required": ["seat_ids"], "properties": { "seat_ids": { "minItems": 1 } } },
                { "required": ["areas"], "properties": { "areas": { "minItems": 1 } } },
            ]);
        }
        "SeatList" => schema["properties"]["seat_ids"]["uniqueItems"] = json!(true),
        "CreateKey" => schema["properties"]["scopes"]["uniqueItems"] = json!(true),
        _ => {}
    }
}

/// By name at every level: another crate may make the JSON library keep the order of insertion.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let by_name: BTreeMap<String, Value> =
                map.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(by_name.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
