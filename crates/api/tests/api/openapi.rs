//! The committed document is the one that the code makes, and it is whole.

use serde_json::Value;

use crate::support::Server;
use crate::support::schema::DOCUMENT;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");

/// `UPDATE_OPENAPI=1` writes it anew.
#[test]
fn the_committed_document_is_current() {
    let made = rowlock_api::openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(COMMITTED, &made).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(made == committed, "openapi.json is not current: run the test with UPDATE_OPENAPI=1");
    assert_eq!(made, rowlock_api::openapi_json(), "it is the same every time");
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let mut used = std::collections::BTreeSet::new();
    let mut open = vec![&*DOCUMENT];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(target)) = map.get("$ref") {
                    assert!(DOCUMENT.pointer(&target[1..]).is_some(), "{target}");
                    used.insert(target.rsplit('/').next().unwrap().to_owned());
                }
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let unused: Vec<_> = schemas.keys().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn every_operation_is_described_whole() {
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{what}: its id is taken");
            assert!(operation["summary"].is_string(), "{what}");
            for parameter in path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}')) {
                let parameters = operation["parameters"].as_array().unwrap();
                assert!(parameters.iter().any(|given| given["name"] == parameter), "{what}: {parameter}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{what}: {parameter}");
            }
            let responses = operation["responses"].as_object().unwrap();
            // The middleware answers for panics and for what takes too long, on every route.
            assert!(responses.contains_key("500") && responses.contains_key("503"), "{what}");
            assert!(responses.keys().any(|status| status.starts_with('2')), "{what}");
            if path.starts_with("/api/") {
                assert_eq!(operation["security"][0]["bearer"], serde_json::json!([]), "{what}");
                assert!(operation["x-scopes"].as_array().is_some_and(|scopes| !scopes.is_empty()), "{what}");
                for status in ["401", "403", "405", "422", "429", "500", "503"] {
                    assert!(responses.contains_key(status), "{what} {status}");
                }
            }
            if method == "post" {
                for status in ["400", "413", "415"] {
                    assert!(responses.contains_key(status), "{what} {status}");
                }
            }
        }
    }
}

/// All operations by their id, with their paths.
fn operations() -> std::collections::BTreeMap<&'static str, (&'static str, &'static Value)> {
    let items = DOCUMENT["paths"].as_object().unwrap().iter();
    let operations = items.flat_map(|(path, item)| {
        item.as_object().unwrap().values().map(move |operation| (path.as_str(), operation))
    });
    operations
        .map(|(path, operation)| (operation["operationId"].as_str().unwrap(), (path, operation)))
        .collect()
}

/// The schema of what a JSON pointer leads to in a document with this one.
fn schema_at(mut schema: &'static Value, pointer: &str) -> Option<&'static Value> {
    for step in pointer.split('/').skip(1) {
        while let Some(reference) = schema["$ref"].as_str() {
            schema = DOCUMENT.pointer(&reference[1..])?;
        }
        schema = match step.parse::<usize>() {
            Ok(_) => schema.get("items")?,
            Err(_) => schema["properties"].get(step)?,
        };
    }
    Some(schema)
}

/// A link that leads nowhere, or takes its id from where there is none, would be silently left out by whoever follows it.
#[test]
fn every_link_leads_somewhere() {
    let operations = operations();
    let mut reached = std::collections::BTreeSet::new();
    for (id, (_, operation)) in &operations {
        for response in operation["responses"].as_object().unwrap().values() {
            let schema = &response["content"]["application/json"]["schema"];
            for (name, link) in response["links"].as_object().into_iter().flatten() {
                let what = format!("{id} to {name}");
                let to = link["operationId"].as_str().unwrap();
                let (path, _) = operations.get(to).unwrap_or_else(|| panic!("{what}: no such operation"));
                reached.insert(to);
                for (parameter, _) in link["parameters"].as_object().into_iter().flatten() {
                    assert!(
                        path.contains(&format!("{{{parameter}}}")),
                        "{what}: {parameter} is not in {path}"
                    );
                }
                let text = link.to_string();
                for from in text.split("$response.body#").skip(1) {
                    let pointer = from.split('"').next().unwrap();
                    assert!(schema_at(schema, pointer).is_some(), "{what}: {pointer} is not in the answer");
                }
            }
        }
    }
    // Nobody is told the id of a user: it is theirs to know.
    let with_ids = operations.iter().filter(|(_, (path, _))| path.contains('{') && !path.contains("user_id"));
    let lost: Vec<_> = with_ids.filter(|(id, _)| !reached.contains(*id)).map(|(id, _)| id).collect();
    assert!(lost.is_empty(), "no link leads to {lost:?}");
}

#[tokio::test]
async fn the_server_shows_the_same_document() {
    let server = Server::start().await;
    let shown = server.get("/openapi.json").send().await;
    assert_eq!(shown.status, 200);
    assert_eq!(String::from_utf8(shown.bytes).unwrap(), rowlock_api::openapi_json());
}

/// Each operation of the document answers, and the router has no method that the document lacks.
#[tokio::test]
async fn the_router_has_exactly_these_operations() {
    let server = Server::start().await;
    for (template, item) in DOCUMENT["paths"].as_object().unwrap() {
        let path: String = template
            .split('/')
            .map(|word| if word.starts_with('{') { "0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77" } else { word })
            .collect::<Vec<_>>()
            .join("/");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let answer = server.call(method, &path).with(&server.admin).send().await;
            let documented = !item[method.to_lowercase()].is_null();
            assert_eq!(answer.status != 405, documented, "{method} {template}");
            // Without a recorder there are no metrics to show.
            if answer.status == 404 && template != "/metrics" {
                assert_ne!(answer.json()["code"], "unknown_route", "{method} {template}");
            }
        }
    }
}
