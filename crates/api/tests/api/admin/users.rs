use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn the_active_holds_of_a_user_in_all_events() {
    let server = Server::start().await;
    let (first, second) = (server.event().await, server.event().await);
    let user = "ann/ü +1";
    let one = server.hold(&first, user, &[0]).await;
    server.hold(&second, user, &[3]).await;
    server.book(&second, "carl", &[5]).await;
    server.hold(&second, "bob", &[4]).await;
    let path = "/api/admin/users/ann%2F%C3%BC%20%2B1/holds";
    let answer = server.get(path).with(&server.admin).send().await;
    let page = answer.expect(200);
    let holds = page["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 2);
    assert!(holds.iter().all(|hold| hold["user_id"] == user));
    assert!(holds.iter().all(|hold| hold["status"] == "active"));
    assert_eq!(holds.iter().find(|hold| hold["hold_token"] == one["hold_token"]), Some(&one));
    let converted = server.get("/api/admin/users/carl/holds").with(&server.admin).send().await.expect(200);
    assert_eq!(converted, json!({"holds": []}));
    // Page by page, following the links.
    let mut path = format!("{path}?limit=1");
    let mut seen = 0;
    loop {
        let answer = server.get(&path).with(&server.admin).send().await;
        seen += answer.expect(200)["holds"].as_array().unwrap().len();
        match answer.header("link").strip_prefix('<') {
            Some(link) => path = link.split('>').next().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, 2);
    let nobody = server.get("/api/admin/users/nobody/holds").with(&server.admin).send().await.expect(200);
    assert_eq!(nobody, json!({"holds": []}));
}
