//! Rate limits per credential and per address.

use rowlock_core::org::Scope;

use crate::support::{Answer, Server};

async fn ask(server: &Server, credential: &str) -> Answer {
    server.get("/api/events/0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77").with(credential).send().await
}

#[tokio::test]
async fn a_user_has_a_burst_and_then_waits() {
    let server = Server::start_with(|options| options.rates.per_user_per_second = 1).await;
    // All that takes time first: after a second there is one more request to be had.
    let (ann, bob) = (server.buyer("ann"), server.buyer("bob"));
    let other = crate::support::new_org(&server.engine, "Other").await;
    let elsewhere = server.token(other, "ann", &[Scope::Read]);
    let fresh = server.token(server.org, "ann", &[Scope::Read]);
    let first = ask(&server, &ann).await;
    assert_eq!((first.status, first.header("ratelimit")), (404, "\"user\";r=1"));
    assert_eq!(first.header("ratelimit-policy"), "\"user\";q=2;w=2");
    ask(&server, &ann).await.refused(404, "unknown_event");
    let refused = ask(&server, &ann).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("ratelimit"), "\"user\";r=0;t=1");
    assert_eq!(refused.header("retry-after"), "1");
    // Another user is another user, whatever the token; and so is the same one in another org.
    ask(&server, &bob).await.refused(404, "unknown_event");
    ask(&server, &elsewhere).await.refused(404, "unknown_event");
    ask(&server, &fresh).await.refused(429, "rate_limited");
    // Keys have their own limit, which is off here.
    assert_eq!(ask(&server, &server.admin).await.header("ratelimit"), "");
}

#[tokio::test]
async fn a_key_has_its_own_limit() {
    let server = Server::start_with(|options| options.rates.per_key_per_second = 1).await;
    let key = server.key(&[Scope::Read, Scope::ActAs]).await;
    for left in ["\"key\";r=1", "\"key\";r=0"] {
        assert_eq!(ask(&server, &key).await.header("ratelimit"), left);
    }
    ask(&server, &key).await.refused(429, "rate_limited");
    ask(&server, &server.buyer("ann")).await.refused(404, "unknown_event");
}

async fn ask_from(server: &Server, address: &str) -> u16 {
    server.get("/openapi.json").header("x-forwarded-for", address).send().await.status
}

#[tokio::test]
async fn an_address_is_the_peers_unless_a_trusted_proxy_says_otherwise() {
    let strict = Server::start_with(|options| options.rates.per_address_per_second = 1).await;
    let behind = Server::start_with(|options| {
        options.rates.per_address_per_second = 1;
        options.trusted_proxies = vec!["127.0.0.0/8".into()];
    })
    .await;
    assert_eq!(ask_from(&strict, "1.1.1.1").await, 200);
    assert_eq!(ask_from(&strict, "2.2.2.2").await, 200);
    assert_eq!(ask_from(&strict, "3.3.3.3").await, 429);
    // Probes are never limited, and bad credentials are.
    for _ in 0..5 {
        assert_eq!(strict.get("/livez").send().await.status, 200);
    }
    let mut refused = false;
    for _ in 0..5 {
        refused |= strict.get("/api/admin/org").with("rk_x").send().await.status == 429;
    }
    assert!(refused);
    assert_eq!(ask_from(&behind, "1.1.1.1").await, 200);
    assert_eq!(ask_from(&behind, "1.1.1.1").await, 200);
    assert_eq!(ask_from(&behind, "1.1.1.1").await, 429);
    assert_eq!(ask_from(&behind, "2.2.2.2").await, 200);
    // What a stranger writes in front does not help.
    assert_eq!(ask_from(&behind, "9.9.9.9, 1.1.1.1").await, 429);
}
