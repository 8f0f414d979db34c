//! Credentials: API keys and tokens, good and bad.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rowlock_core::org::Scope;
use serde_json::{Value, json};

use crate::support::{AUDIENCE, Answer, ISSUER, SECRET, Server, text};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims(server: &Server) -> Value {
    json!({
        "sub": "ann", "org": server.org.to_string(), "scope": "openid read hold", "iss": ISSUER, "aud": AUDIENCE,
        "exp": now() + 600, "nbf": now() - 1, "iat": now() - 1,
    })
}

fn sign(algorithm: Algorithm, secret: &[u8], claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
}

/// A request that any user with the scope read may make. 404 means that the credential was good.
async fn try_with(server: &Server, credential: &str) -> Answer {
    let path = "/api/events/0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77";
    server.get(path).with(credential).send().await
}

#[tokio::test]
async fn tokens_are_checked_in_every_part() {
    let server = Server::start().await;
    let good = claims(&server);
    try_with(&server, &sign(Algorithm::HS256, SECRET, &good)).await.refused(404, "unknown_event");
    let several = json!([AUDIENCE, "other"]);
    let changes: [(&str, Value); 17] = [
        ("exp", json!(now() - 60)),
        ("exp", json!("9999999999")),
        ("exp", Value::Null),
        ("nbf", json!(now() + 600)),
        ("nbf", json!("0")),
        ("iss", json!("https://other.example")),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", Value::Null),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(" ann")),
        ("sub", json!("a\u{0}b")),
        ("sub", json!("x".repeat(129))),
        ("org", Value::Null),
        ("org", json!("opera")),
        ("org", json!(7)),
    ];
    for (name, value) in changes {
        let mut claims = good.clone();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        let answer = try_with(&server, &sign(Algorithm::HS256, SECRET, &claims)).await;
        assert_eq!(answer.status, 401, "{name}: {claims}");
    }
    // Fractions of seconds are allowed in times.
    let mut precise = good.clone();
    (precise["exp"], precise["nbf"]) = (json!(now() as f64 + 60.5), json!(now() as f64 - 60.5));
    try_with(&server, &sign(Algorithm::HS256, SECRET, &precise)).await.refused(404, "unknown_event");
    // What must be understood, and is not, is refused.
    let header = Header { crit: Some(vec!["exp".into()]), ..Header::new(Algorithm::HS256) };
    let critical = jsonwebtoken::encode(&header, &good, &EncodingKey::from_secret(SECRET)).unwrap();
    try_with(&server, &critical).await.refused(401, "unauthenticated");
    let mut many = good.clone();
    many["aud"] = several;
    try_with(&server, &sign(Algorithm::HS256, SECRET, &many)).await.refused(404, "unknown_event");
}

#[tokio::test]
async fn a_token_does_not_choose_its_algorithm() {
    let server = Server::start().await;
    let good = claims(&server);
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        try_with(&server, &sign(algorithm, SECRET, &good)).await.refused(401, "unauthenticated");
    }
    try_with(&server, &sign(Algorithm::HS256, b"another secret of thirty-two bytes", &good))
        .await
        .expect(401);
    let signed = sign(Algorithm::HS256, SECRET, &good);
    let payload = signed.split('.').nth(1).unwrap();
    for header in [json!({"alg": "none", "typ": "JWT"}), json!({"alg": "None"}), json!({})] {
        let header = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
        try_with(&server, &format!("{header}.{payload}.")).await.refused(401, "unauthenticated");
    }
    let (unsigned, _) = signed.rsplit_once('.').unwrap();
    try_with(&server, &format!("{unsigned}.")).await.refused(401, "unauthenticated");
    try_with(&server, unsigned).await.refused(401, "unauthenticated");
}

struct KeyPair {
    signing: EncodingKey,
    jwk: Value,
}

fn ed25519(id: &str) -> KeyPair {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    let document = Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let x = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": id, "x": x});
    KeyPair { signing: EncodingKey::from_ed_der(document.as_ref()), jwk }
}

/// Identity providers publish keys for encryption beside those for signing, and often leave `alg` out.
#[tokio::test]
async fn a_providers_jwks_is_read_as_it_is() {
    let mut pair = ed25519("one");
    pair.jwk.as_object_mut().unwrap().remove("alg");
    let other =
        json!({"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "kid": "enc", "n": "AQAB", "e": "AQAB"});
    let jwks = json!({"keys": [other, pair.jwk]}).to_string();
    let server = Server::start_with(|options| {
        options.jwt.hs256_secret = None;
        options.jwt.jwks = Some(jwks.clone());
    })
    .await;
    let header = Header { kid: Some("one".into()), ..Header::new(Algorithm::EdDSA) };
    let token = jsonwebtoken::encode(&header, &claims(&server), &pair.signing).unwrap();
    try_with(&server, &token).await.refused(404, "unknown_event");
}

/// A key without a name stands for tokens without one, and does not put those in doubt that name theirs.
#[tokio::test]
async fn a_key_without_a_name_does_not_hide_the_others() {
    let (named, mut nameless) = (ed25519("one"), ed25519("none"));
    nameless.jwk.as_object_mut().unwrap().remove("kid");
    let jwks = json!({"keys": [nameless.jwk, named.jwk]}).to_string();
    let server = Server::start_with(|options| {
        options.jwt.hs256_secret = None;
        options.jwt.jwks = Some(jwks.clone());
    })
    .await;
    let header = Header { kid: Some("one".into()), ..Header::new(Algorithm::EdDSA) };
    let token = jsonwebtoken::encode(&header, &claims(&server), &named.signing).unwrap();
    try_with(&server, &token).await.refused(404, "unknown_event");
}

#[tokio::test]
async fn public_keys_from_a_jwks_are_believed() {
    let (first, second, stranger) = (ed25519("one"), ed25519("two"), ed25519("one"));
    let jwks = json!({"keys": [first.jwk, second.jwk]}).to_string();
    let server = Server::start_with(|options| {
        options.jwt.hs256_secret = None;
        options.jwt.jwks = Some(jwks.clone());
    })
    .await;
    let good = claims(&server);
    let sign_ed = |pair: &KeyPair, id: Option<&str>| {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, &good, &pair.signing).unwrap()
    };
    for (pair, id) in [(&first, "one"), (&second, "two")] {
        try_with(&server, &sign_ed(pair, Some(id))).await.refused(404, "unknown_event");
    }
    for bad in [
        sign_ed(&first, Some("two")),
        sign_ed(&stranger, Some("one")),
        sign_ed(&first, Some("three")),
        // Which of the two keys is meant?
        sign_ed(&first, None),
        // The public key is no secret.
        sign(Algorithm::HS256, jwks.as_bytes(), &good),
        sign(Algorithm::HS256, first.jwk["x"].as_str().unwrap().as_bytes(), &good),
        sign(Algorithm::HS256, SECRET, &good),
    ] {
        try_with(&server, &bad).await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn settings_that_can_not_be_used_are_named() {
    let server = Server::start().await;
    let fails = |change: fn(&mut rowlock_api::ApiOptions)| {
        let mut options = crate::support::options();
        change(&mut options);
        rowlock_api::Api::new(server.engine.clone(), options).err().expect("it is refused").setting
    };
    assert_eq!(fails(|o| o.jwt.hs256_secret = Some(b"short".to_vec())), "jwt.hs256_secret");
    assert_eq!(fails(|o| o.jwt.issuer = String::new()), "jwt.issuer");
    assert_eq!(fails(|o| o.jwt.audience = " ".into()), "jwt.audience");
    assert_eq!(fails(|o| o.jwt.jwks = Some("{}".into())), "jwt.jwks");
    assert_eq!(fails(|o| o.jwt.jwks = Some(r#"{"keys":[]}"#.into())), "jwt.jwks");
    // A symmetric key in a file of public keys is a mistake.
    let symmetric = |o: &mut rowlock_api::ApiOptions| {
        o.jwt.jwks = Some(r#"{"keys":[{"kty":"oct","alg":"HS256","k":"c2VjcmV0"}]}"#.into());
    };
    assert_eq!(fails(symmetric), "jwt.jwks");
    assert_eq!(fails(|o| o.trusted_proxies = vec!["nowhere".into()]), "trusted_proxies");
    assert_eq!(fails(|o| o.limits.request_timeout = std::time::Duration::ZERO), "limits.request_timeout");
    assert_eq!(fails(|o| o.limits.json_depth = 1), "limits.json_depth");
}

#[tokio::test]
async fn keys_are_checked_in_every_part() {
    let server = Server::start().await;
    let good = server.key(&[Scope::Read]).await;
    try_with(&server, &good).await.refused(404, "unknown_event");
    let (head, secret) = good.rsplit_once('_').unwrap();
    let other = server.key(&[Scope::Read]).await;
    let (_, other_secret) = other.rsplit_once('_').unwrap();
    for bad in [
        format!("{head}_{other_secret}"),
        format!("rk_{}_{secret}", "0".repeat(32)),
        format!("{head}_"),
        format!("{good}x"),
        "rk_".to_owned(),
        "x".to_owned(),
        "x".repeat(7000),
    ] {
        try_with(&server, &bad).await.refused(401, "unauthenticated");
    }
    let path = "/api/admin/org";
    for value in ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", &good, &format!("Token {good}")] {
        let answer = server.get(path).header("authorization", value).send().await;
        answer.refused(401, "unauthenticated");
    }
    let admin = server.admin.clone();
    server.get(path).header("authorization", &format!("bearer {admin}")).send().await.expect(200);
}

#[tokio::test]
async fn only_a_key_that_may_act_names_a_user() {
    let server = Server::start().await;
    let event = server.event().await;
    let path = event.path("");
    let plain = server.key(&[Scope::Read, Scope::Hold]).await;
    server.get(&path).with(&plain).acting_for("ann").send().await.refused(403, "act_as_refused");
    let token = server.token(server.org, "ann", &[Scope::Read, Scope::ActAs]);
    server.get(&path).with(&token).acting_for("ann").send().await.refused(403, "act_as_refused");
    let backend = server.key(&[Scope::Read, Scope::ActAs]).await;
    server.get(&path).with(&backend).acting_for("ann").send().await.expect(200);
    for bad in ["", " ", &"x".repeat(129), "a\u{80}b"] {
        let answer = server.get(&path).with(&backend).acting_for(bad).send().await;
        assert_eq!(answer.refused(422, "invalid")["field"], "Rowlock-User", "{bad:?}");
    }
    // A gateway that adds its user to a client's own must not act for the client's.
    let twice = server.get(&path).with(&backend).acting_for("ann").acting_for("bob").send().await;
    assert_eq!(twice.refused(422, "invalid")["field"], "Rowlock-User");
    server.get(&path).with(&backend).with(&plain).send().await.refused(401, "unauthenticated");
    let longest = "ü".repeat(128);
    server.get(&path).with(&backend).acting_for(&longest).send().await.expect(200);
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once() {
    let server = Server::start().await;
    let body = json!({"name": "till", "scopes": ["read"]});
    let created = server.post("/api/admin/keys", body).with(&server.admin).send().await.expect(201);
    let key = text(&created["key"]);
    try_with(&server, &key).await.refused(404, "unknown_event");
    let path = format!("/api/admin/keys/{}", text(&created["key_id"]));
    let revoked = server.delete(&path).with(&server.admin).send().await.expect(200);
    assert!(revoked["revoked_at"].is_string() && revoked.get("key").is_none());
    try_with(&server, &key).await.refused(401, "unauthenticated");
    assert_eq!(server.delete(&path).with(&server.admin).send().await.expect(200), revoked);
}
