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
