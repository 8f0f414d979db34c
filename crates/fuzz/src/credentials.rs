//! Credentials: the header as it comes, API keys, and tokens with a good signature on anything.

use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rowlock_core::{OrgId, UserId};
use serde::de::IgnoredAny;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::feed::Feed;
use crate::office::{AUDIENCE, ISSUER, KEY, SECRET, knock};
use crate::support::START;

const HEAD: &[u8] = br#"{"alg":"HS256","typ":"JWT"}"#;
const LEEWAY: u64 = 5;
/// Claims that surely fit into a credential.
const MOST: usize = 4096;

pub fn run(data: &[u8]) {
    let mut feed = Feed::new(data);
    match feed.below(4) {
        0 => drop(accepted(data.get(1..).unwrap_or_default())),
        1 => key(feed.rest()),
        2 => {
            let head = feed.until(b'\n');
            let taken = accepted(&bearer(&token(head, feed.rest())));
            let says = serde_json::from_slice::<Value>(head).unwrap_or_default();
            assert!(!taken || says["alg"] == "HS256", "a token chose its algorithm: {says}");
        }
        _ => claims(feed.rest()),
    }
}

/// Whether a value of the header `Authorization` is believed.
fn accepted(value: &[u8]) -> bool {
    let Ok(value) = HeaderValue::from_bytes(value) else { return false };
    // Any org may look at itself with any credential that has one of these scopes.
    let request = Request::get("/api/events/00000000-0000-7000-8000-000000000000");
    let request = request.header(header::AUTHORIZATION, value).body(Body::empty()).expect("a request");
    // 403: believed, but without the scope. 404: believed.
    match knock(request).status {
        401 => false,
        403 | 404 => true,
        other => panic!("{other} is neither yes nor no"),
    }
}

fn bearer(text: &[u8]) -> Vec<u8> {
    [b"Bearer ", text].concat()
}

/// Only the one key is the key.
fn key(text: &[u8]) {
    let taken = accepted(&bearer(text));
    let trimmed = String::from_utf8_lossy(text).trim().to_owned();
    // Hex digits may be written either way.
    let same = trimmed == KEY
        || trimmed.strip_prefix("rk_").and_then(|rest| rest.split_once('_')).is_some_and(|(id, secret)| {
            KEY.eq_ignore_ascii_case(&format!("rk_{id}_{secret}")) && KEY.ends_with(secret)
        });
    assert!(!taken || same, "{trimmed} was taken for the key");
}

/// A good signature on any claims. They are believed exactly if they say all that they must.
fn claims(payload: &[u8]) {
    let taken = accepted(&bearer(&token(HEAD, payload)));
    let Ok(value) = serde_json::from_slice::<Value>(payload) else {
        // What is not asked for is not looked at, so it may be a number that is too large, or text that is none.
        let is_json = serde_json::from_slice::<IgnoredAny>(payload).is_ok();
        assert!(!taken || is_json, "claims that are no JSON");
        return;
    };
    // Written anew, so that no name is in it twice.
    let plain = value.to_string();
    if plain.len() > MOST {
        return;
    }
    let expected = are_good(&value);
    assert_eq!(accepted(&bearer(&token(HEAD, plain.as_bytes()))), expected, "{plain}");
    assert!(!taken || expected, "{plain}");
}

/// What a token must say, written down once more.
fn are_good(claims: &Value) -> bool {
    let now = START.millis() as u64 / 1000;
    let text = |name: &str| claims[name].as_str();
    let names = |name: &str, wanted: &str| match &claims[name] {
        Value::String(text) => text == wanted,
        Value::Array(list) => {
            list.iter().all(Value::is_string) && list.iter().any(|one| one.as_str() == Some(wanted))
        }
        _ => false,
    };
    let absent = |name: &str| claims.get(name).is_none();
    claims.is_object()
        && text("sub").is_some_and(|sub| UserId::new(sub).is_ok())
        && text("org").is_some_and(|org| org.parse::<OrgId>().is_ok())
        && (absent("scope") || claims["scope"].is_string())
        && names("iss", ISSUER)
        && names("aud", AUDIENCE)
        && claims["exp"].as_u64().is_some_and(|exp| now < exp.saturating_add(LEEWAY))
        && (absent("nbf") || claims["nbf"].as_u64().is_some_and(|nbf| nbf <= now + LEEWAY))
}

fn token(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let encode = |part: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(part);
    let signed = format!("{}.{}", encode(head), encode(payload));
    let signature = encode(&hmac(SECRET, signed.as_bytes()));
    format!("{signed}.{signature}").into_bytes()
}

/// HMAC-SHA-256 for a key that is shorter than a block.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}
