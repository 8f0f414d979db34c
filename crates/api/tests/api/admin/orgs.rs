use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Server, text};

#[tokio::test]
async fn a_new_org_comes_with_a_key_that_works() {
    let server = Server::start().await;
    let made = server
        .post("/api/admin/orgs", json!({"name": "Stadium"}))
        .with(&server.admin)
        .send()
        .await
        .expect(201);
    let key = text(&made["admin_key"]["key"]);
    let own = server.get("/api/admin/org").with(&key).send().await.expect(200);
    assert_eq!(own, made["org"]);
    let scopes = made["admin_key"]["scopes"].as_array().unwrap();
    assert!(scopes.contains(&json!("admin")) && !scopes.contains(&json!("operator")));
    // An organizer does not make orgs.
    server
        .post("/api/admin/orgs", json!({"name": "X"}))
        .with(&key)
        .send()
        .await
        .refused(403, "missing_scope");
    let ours = server.get("/api/admin/org").with(&server.admin).send().await.expect(200);
    assert_eq!((&ours["name"], &ours["org_id"]), (&json!("Opera"), &json!(server.org.to_string())));
}

#[tokio::test]
async fn orgs_are_listed_by_pages() {
    let server = Server::start().await;
    for i in 0..4 {
        let body = json!({"name": format!("Org {i}")});
        server.post("/api/admin/orgs", body).with(&server.admin).send().await.expect(201);
    }
    let mut path = "/api/admin/orgs?limit=2".to_owned();
    let mut names = Vec::new();
    for _ in 0..4 {
        let answer = server.get(&path).with(&server.admin).send().await;
        let page = answer.expect(200);
        names.extend(page["orgs"].as_array().unwrap().iter().map(|org| text(&org["name"])));
        match answer.header("link").strip_prefix('<').and_then(|link| link.split_once(">; rel=\"next\"")) {
            Some((next, _)) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names, ["Opera", "Org 0", "Org 1", "Org 2", "Org 3"]);
}

#[tokio::test]
async fn a_token_of_an_unknown_org_finds_nothing() {
    let server = Server::start().await;
    let org = rowlock_core::OrgId::from_uuid(uuid::Uuid::from_u128(9));
    let token = server.token(org, "ann", &[Scope::Admin, Scope::Keys]);
    server.get("/api/admin/org").with(&token).send().await.refused(404, "unknown_org");
    let body = json!({"name": "k", "scopes": ["keys"]});
    server.post("/api/admin/keys", body).with(&token).send().await.refused(404, "unknown_org");
    let listed = server.get("/api/admin/keys").with(&token).send().await.expect(200);
    assert_eq!(listed, json!({"keys": []}));
}
