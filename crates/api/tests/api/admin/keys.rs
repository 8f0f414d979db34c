use std::sync::Arc;

use rowlock_core::limits::MAX_KEYS_LISTED;
use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Server, text};

#[tokio::test]
async fn a_key_is_shown_once() {
    let server = Server::start().await;
    let body = json!({"name": "till", "scopes": ["read", "act_as"]});
    let made = server.post("/api/admin/keys", body).with(&server.admin).send().await.expect(201);
    let key = text(&made["key"]);
    assert!(key.starts_with(&format!("rk_{}_", text(&made["key_id"]).replace('-', ""))) && key.len() == 79);
    let listed = server.get("/api/admin/keys").with(&server.admin).send().await;
    let shown = String::from_utf8_lossy(&listed.bytes).into_owned();
    let (_, secret) = key.rsplit_once('_').unwrap();
    assert!(!shown.contains(secret) && !shown.contains("hash"), "{shown}");
    let keys = listed.expect(200);
    let found =
        keys["keys"].as_array().unwrap().iter().find(|other| other["key_id"] == made["key_id"]).unwrap();
    assert_eq!((&found["name"], &found["scopes"]), (&json!("till"), &json!(["read", "act_as"])));
}

/// What is in force is shown before what is revoked, so that a list which is cut off still has what matters.
#[tokio::test]
async fn a_list_of_keys_has_an_end() {
    let server = Arc::new(Server::start().await);
    let make = |n: u32| {
        let server = Arc::clone(&server);
        async move {
            let body = json!({"name": format!("key {n}"), "scopes": ["read"]});
            text(&server.post("/api/admin/keys", body).with(&server.admin).send().await.expect(201)["key_id"])
        }
    };
    let revoked = make(0).await;
    let path = format!("/api/admin/keys/{revoked}");
    server.delete(&path).with(&server.admin).send().await.expect(200);
    let list =
        async || server.get("/api/admin/keys").with(&server.admin).send().await.expect(200)["keys"].clone();
    assert_eq!(list().await[1]["key_id"], revoked, "the key of the test, then the revoked one");
    let many: tokio::task::JoinSet<String> = (1..MAX_KEYS_LISTED).map(make).collect();
    assert_eq!(many.join_all().await.len() as u32 + 1, MAX_KEYS_LISTED);
    let listed = list().await;
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len() as u32, MAX_KEYS_LISTED);
    assert!(listed.iter().all(|key| key.get("revoked_at").is_none()));
}

#[tokio::test]
async fn nobody_gives_away_more_than_they_have() {
    let server = Server::start().await;
    let clerk = server.key(&[Scope::Keys, Scope::Read]).await;
    let make = |scopes: serde_json::Value| {
        server.post("/api/admin/keys", json!({"name": "k", "scopes": scopes})).with(&clerk).send()
    };
    make(json!(["read", "keys"])).await.expect(201);
    for scope in ["hold", "admin", "operator", "act_as"] {
        let problem = make(json!(["read", scope])).await.refused(403, "missing_scope");
        assert_eq!(problem["scope"], scope);
    }
    let listed = server.get("/api/admin/keys").with(&clerk).send().await.expect(200);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 3);
}
