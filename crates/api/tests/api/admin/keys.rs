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

#[tokio::test]
async fn a_list_of_keys_comes_in_pages() {
    let server = Server::start().await;
    let mut made = Vec::new();
    for n in 0..4 {
        let body = json!({"name": format!("key {n}"), "scopes": ["read"]});
        let key = server.post("/api/admin/keys", body).with(&server.admin).send().await.expect(201);
        made.push(text(&key["key_id"]));
    }
    let revoke = format!("/api/admin/keys/{}", made[0]);
    server.delete(&revoke).with(&server.admin).send().await.expect(200);
    let (mut path, mut pages, mut listed) = ("/api/admin/keys?limit=2".to_owned(), 0, Vec::new());
    loop {
        let answer = server.get(&path).with(&server.admin).send().await;
        listed.extend(answer.expect(200)["keys"].as_array().unwrap().iter().cloned());
        pages += 1;
        match answer.header("link").strip_prefix('<').and_then(|link| link.split_once(">; rel=\"next\"")) {
            Some((next, _)) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((pages, listed.len()), (3, 5), "with the key of the test");
    let is_listed = |id: &String| listed.iter().filter(|key| key["key_id"] == **id).count() == 1;
    assert!(made.iter().all(is_listed), "{listed:?}");
    let revoked = listed.iter().filter(|key| key.get("revoked_at").is_some());
    assert_eq!(revoked.map(|key| text(&key["key_id"])).collect::<Vec<_>>(), made[..1]);
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
