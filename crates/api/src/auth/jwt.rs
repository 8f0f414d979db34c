//! Tokens: which are believed, and what they say.

use std::collections::HashMap;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use parking_lot::RwLock;
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{OrgId, Time, UserId};

use crate::credential::Claims;
use crate::error::Problem;
use crate::limits::{MAX_CACHED_TOKENS, MIN_SECRET_BYTES, TOKEN_LEEWAY_SECONDS};
use crate::options::{JwtOptions, OptionsError};

/// What a verified token says.
#[derive(Debug)]
pub struct Token {
    pub org: OrgId,
    pub user: UserId,
    pub scopes: Scopes,
    expires: u64,
    not_before: u64,
}

/// Checks tokens against the keys of the configuration. Each key has exactly one algorithm: a token can't choose how
/// it is checked.
pub struct Verifier {
    keys: Vec<Key>,
    /// Tokens whose signature was found good. Times are checked every time.
    seen: RwLock<HashMap<Box<str>, Arc<Token>>>,
}

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    decoding: DecodingKey,
    validation: Validation,
}

impl Verifier {
    pub fn new(options: &JwtOptions) -> Result<Self, OptionsError> {
        let mut keys = Vec::new();
        if options.hs256_secret.is_some() || options.jwks.is_some() {
            for (setting, value) in [("jwt.issuer", &options.issuer), ("jwt.audience", &options.audience)] {
                if value.trim().is_empty() {
                    return Err(OptionsError::new(setting, "must not be empty when tokens are in use"));
                }
            }
        }
        if let Some(secret) = &options.hs256_secret {
            if secret.len() < MIN_SECRET_BYTES {
                let rule = format!("must have at least {MIN_SECRET_BYTES} bytes");
                return Err(OptionsError::new("jwt.hs256_secret", rule));
            }
            let decoding = DecodingKey::from_secret(secret);
            keys.push(Key::new(None, Algorithm::HS256, decoding, options));
        }
        if let Some(text) = &options.jwks {
            let set: JwkSet =
                serde_json::from_str(text).map_err(|error| OptionsError::new("jwt.jwks", error))?;
            if set.keys.is_empty() {
                return Err(OptionsError::new("jwt.jwks", "must have at least one key"));
            }
            // Providers publish keys for other purposes in the same file.
            let before = keys.len();
            for jwk in set.keys.iter().filter(|jwk| signs(jwk)) {
                keys.push(public_key(jwk, options)?);
            }
            if keys.len() == before {
                let rule = "must have a signing key for RS256, ES256 or EdDSA";
                return Err(OptionsError::new("jwt.jwks", rule));
            }
        }
        Ok(Self { keys, seen: RwLock::default() })
    }

    pub fn verify(&self, text: &str, now: Time) -> Result<Arc<Token>, Problem> {
        let seen = self.seen.read().get(text).cloned();
        let token = match seen {
            Some(token) => token,
            None => {
                let token = Arc::new(self.check(text)?);
                let mut seen = self.seen.write();
                if seen.len() >= MAX_CACHED_TOKENS {
                    seen.clear();
                }
                seen.insert(text.into(), Arc::clone(&token));
                token
            }
        };
        let now = now.millis().max(0) as u64 / 1000;
        if now >= token.expires.saturating_add(TOKEN_LEEWAY_SECONDS) {
            self.seen.write().remove(text);
            return Err(Problem::unauthenticated("the token has expired"));
        }
        if now.saturating_add(TOKEN_LEEWAY_SECONDS) < token.not_before {
            return Err(Problem::unauthenticated("the token is not valid yet"));
        }
        Ok(token)
    }

    fn check(&self, text: &str) -> Result<Token, Problem> {
        let refused = || Problem::unauthenticated("the token is not valid");
        let header = jsonwebtoken::decode_header(text).map_err(|_| refused())?;
        let key = self.key(header.alg, header.kid.as_deref()).ok_or_else(refused)?;
        let claims = jsonwebtoken::decode::<Claims>(text, &key.decoding, &key.validation)
            .map_err(|error| match error.kind() {
                jsonwebtoken::errors::ErrorKind::ExpiredSignature => {
                    Problem::unauthenticated("the token has expired")
                }
                _ => refused(),
            })?
            .claims;
        let org = claims.org.parse().map_err(|_| refused())?;
        let user = UserId::new(&claims.sub).map_err(|_| refused())?;
        // Words of other systems, such as openid, are none of ours.
        let scopes = claims.scope.split_ascii_whitespace().filter_map(|word| word.parse::<Scope>().ok());
        Ok(Token {
            org,
            user,
            scopes: scopes.collect(),
            expires: claims.exp,
            not_before: claims.nbf.unwrap_or(0),
        })
    }

    /// The key that a token names, or the only one of its algorithm when it names none.
    fn key(&self, algorithm: Algorithm, id: Option<&str>) -> Option<&Key> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithm == algorithm)
            .filter(|key| id.is_none() || key.id.is_none() || key.id.as_deref() == id);
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(key),
            _ => None,
        }
    }
}

impl Key {
    fn new(id: Option<String>, algorithm: Algorithm, decoding: DecodingKey, options: &JwtOptions) -> Self {
        let mut validation = Validation::new(algorithm);
        validation.leeway = TOKEN_LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&options.issuer]);
        validation.set_audience(&[&options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        Self { id, algorithm, decoding, validation }
    }
}

/// Whether a key is one that tokens can be signed with here.
fn signs(jwk: &Jwk) -> bool {
    let for_signing = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    for_signing && algorithm(jwk).is_some()
}

/// The one algorithm of a key: what it says, or what its type is for when it says nothing.
fn algorithm(jwk: &Jwk) -> Option<Algorithm> {
    match (jwk.common.key_algorithm, &jwk.algorithm) {
        (Some(KeyAlgorithm::RS256), _) => Some(Algorithm::RS256),
        (Some(KeyAlgorithm::ES256), _) => Some(Algorithm::ES256),
        (Some(KeyAlgorithm::EdDSA), _) => Some(Algorithm::EdDSA),
        (Some(_), _) => None,
        (None, AlgorithmParameters::RSA(_)) => Some(Algorithm::RS256),
        (None, AlgorithmParameters::EllipticCurve(curve)) if curve.curve == EllipticCurve::P256 => {
            Some(Algorithm::ES256)
        }
        (None, AlgorithmParameters::OctetKeyPair(_)) => Some(Algorithm::EdDSA),
        (None, _) => None,
    }
}

fn public_key(jwk: &Jwk, options: &JwtOptions) -> Result<Key, OptionsError> {
    let invalid = |rule: &str| {
        let id = jwk.common.key_id.as_deref().unwrap_or("without kid");
        OptionsError::new("jwt.jwks", format!("key {id}: {rule}"))
    };
    let algorithm = algorithm(jwk).ok_or_else(|| invalid("must have alg RS256, ES256 or EdDSA"))?;
    let decoding = DecodingKey::from_jwk(jwk).map_err(|error| invalid(&error.to_string()))?;
    if decoding.family() != algorithm.family() {
        return Err(invalid("its alg is not one of its key type"));
    }
    Ok(Key::new(jwk.common.key_id.clone(), algorithm, decoding, options))
}
