//! Making credentials: API keys and, for development, tokens.
//!
//! The text of an API key is `rk_<key id, 32 hex digits>_<secret, 43 characters>`. Only the SHA-256 of the secret is
//! stored. The secret is 256 random bits, so a slow password hash would add nothing.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::RngCore;
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{KeyId, OrgId, Time, UserId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub(crate) const KEY_PREFIX: &str = "rk_";
pub(crate) const SECRET_CHARS: usize = 43;

/// A fresh secret and the hash that is stored of it.
pub fn new_secret() -> (String, [u8; 32]) {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    let secret = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let hash = hash(&secret);
    (secret, hash)
}

pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The key as its owner is shown it, once.
pub fn key_text(id: KeyId, secret: &str) -> String {
    format!("{KEY_PREFIX}{}_{secret}", id.uuid().simple())
}

/// The id of the key that a text is of.
pub fn key_id(text: &str) -> Option<KeyId> {
    parse_key(text).map(|(id, _)| id)
}

/// The two parts of a key's text.
pub(crate) fn parse_key(text: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = text.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    if id.len() != 32 || secret.len() != SECRET_CHARS {
        return None;
    }
    Some((KeyId::from_uuid(Uuid::try_parse(id).ok()?), secret))
}

/// Whether two digests are the same, in a time that does not depend on where they differ.
pub(crate) fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b))) == 0
}

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub sub: String,
    pub org: String,
    #[serde(default)]
    pub scope: String,
    #[serde(deserialize_with = "seconds")]
    pub exp: u64,
    /// Always, when it does not say.
    #[serde(default, deserialize_with = "seconds")]
    pub nbf: u64,
}

/// Times of tokens may have fractions, and some issuers write them.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    if seconds >= 0.0 { Ok(seconds as u64) } else { Err(serde::de::Error::custom("no time")) }
}

#[derive(Serialize)]
struct Signed<'a> {
    #[serde(flatten)]
    claims: Claims,
    iat: u64,
    iss: &'a str,
    aud: &'a str,
}

/// A token for a user, signed with the shared secret.
#[allow(clippy::too_many_arguments)]
pub fn sign_token(
    secret: &[u8],
    issuer: &str,
    audience: &str,
    org: OrgId,
    user: &UserId,
    scopes: Scopes,
    ttl: Duration,
    now: Time,
) -> String {
    let now = now.millis().max(0) as u64 / 1000;
    let scope = scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ");
    let claims = Claims {
        sub: user.to_string(),
        org: org.to_string(),
        scope,
        exp: now.saturating_add(ttl.as_secs()),
        nbf: now,
    };
    let signed = Signed { claims, iat: now, iss: issuer, aud: audience };
    let key = jsonwebtoken::EncodingKey::from_secret(secret);
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &signed, &key).expect("HS256 signs anything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text() {
        let (secret, stored) = new_secret();
        let id = KeyId::from_uuid(Uuid::from_u128(7));
        let text = key_text(id, &secret);
        let (read, read_secret) = parse_key(&text).unwrap();
        assert_eq!((read, hash(read_secret)), (id, stored));
        assert!(same(&stored, &hash(&secret)) && !same(&stored, &[0; 32]));
    }

    #[test]
    fn other_texts_are_not_keys() {
        let (secret, _) = new_secret();
        let id = "0".repeat(32);
        for bad in [
            String::new(),
            "rk_".into(),
            format!("rk_{id}"),
            format!("rk_{id}_"),
            format!("rk_{}_{secret}", &id[1..]),
            format!("rk_{id}_{}", &secret[1..]),
            format!("RK_{id}_{secret}"),
            format!("rk_{}_{secret}", "z".repeat(32)),
        ] {
            assert!(parse_key(&bad).is_none(), "{bad}");
        }
    }
}
