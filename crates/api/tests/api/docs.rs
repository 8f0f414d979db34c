//! The documentation works without the internet.

use crate::support::Server;

#[tokio::test]
async fn the_pages_refer_to_nothing_outside() {
    let server = Server::start().await;
    let index = server.get("/docs/").send().await;
    let html = String::from_utf8(index.bytes).unwrap();
    assert!(html.contains("swagger-ui"));
    let mut files = Vec::new();
    for part in html.split(['"', '\'']) {
        assert!(!part.starts_with("http") && !part.starts_with("//"), "{part}");
        if let Some(file) = part.strip_prefix("./") {
            files.push(file.to_owned());
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let answer = server.get(&format!("/docs/{file}")).send().await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.bytes.is_empty());
    }
    let start = server.get("/docs/swagger-initializer.js").send().await;
    let script = String::from_utf8(start.bytes).unwrap();
    assert!(script.contains("/openapi.json") && script.contains("\"validatorUrl\": \"none\""), "{script}");
    assert!(!script.contains("http"), "{script}");
    assert_eq!(server.get("/docs").send().await.status, 200);
}

#[tokio::test]
async fn every_code_is_explained_where_its_type_says() {
    let server = Server::start().await;
    for code in rowlock_api::error::code::ALL {
        let answer = server.get(&format!("/docs/errors/{}", code.name)).send().await;
        assert_eq!(answer.header("content-type"), "text/markdown; charset=utf-8");
        assert!(String::from_utf8(answer.bytes).unwrap().starts_with(&format!("# {}", code.name)));
    }
}

#[tokio::test]
async fn a_page_that_is_not_there_is_a_problem_with_a_code() {
    let server = Server::start().await;
    for path in ["/docs/nothing.js", "/docs/%de", "/docs/errors/%de", "/docs/errors/nothing"] {
        server.get(path).send().await.refused(404, "unknown_route");
    }
}
