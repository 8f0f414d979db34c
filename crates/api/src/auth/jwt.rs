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
use crate::wire::FromText;

/// What a verified token says.
#[derive(Debug)]
pub struct Token {
    pub org: OrgId,
    pub user: UserId,
    pub scopes: Scopes,
    expires: u64,
    not_before: u64,
}

impl Token {
    fn check_times(&self, now: Time) -> Result<(), Problem> {
        let now = now.millis().max(0) as u64 / 1000;
        if now >= self.expires.saturating_add(TOKEN_LEEWAY_SECONDS) {
            return Err(Problem::unauthenticated("the token has expired"));
        }
        if now.saturating_add(TOKEN_LEEWAY_SECONDS) < self.not_before {
            return Err(Problem::unauthenticated("the token is not valid yet"));
        }
        Ok(())
    }
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
            let set: JwkSet = serde_json::from_str(text).map_err(|error| {
                OptionsError::new("jwt.jwks", format_args!("must be a JWKS in JSON: {error}"))
            })?;
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

    /// `now` is the truth's: a node whose own clock is wrong believes the same tokens as all the others.
    pub fn verify(&self, text: &str, now: Time) -> Result<Arc<Token>, Problem> {
        let seen = self.seen.read().get(text).cloned();
        if let Some(token) = seen {
            let in_time = token.check_times(now);
            if in_time.is_err() {
                self.seen.write().remove(text);
            }
            return in_time.map(|()| token);
        }
        let token = Arc::new(self.check(text)?);
        token.check_times(now)?;
        let mut seen = self.seen.write();
        if seen.len() >= MAX_CACHED_TOKENS {
            seen.clear();
        }
        seen.insert(text.into(), Arc::clone(&token));
        Ok(token)
    }

    fn check(&self, text: &str) -> Result<Token, Problem> {
        let refused = || Problem::unauthenticated("the token is not valid");
        let header = jsonwebtoken::decode_header(text).map_err(|_| refused())?;
        // Whoever signs with something that must be understood must not be believed by who does not.
        if header.crit.is_some() {
            return Err(refused());
        }
        let key = self.key(header.alg, header.kid.as_deref()).ok_or_else(refused)?;
        let decoded = jsonwebtoken::decode::<Claims>(text, &key.decoding, &key.validation);
        let claims = decoded.map_err(|_| refused())?.claims;
        let org = claims.org.parse().map_err(|_| refused())?;
        let user = <UserId as FromText>::read(&claims.sub).map_err(|_| refused())?;
        // Words of other systems, such as openid, are none of ours.
        let scopes = claims.scope.split_ascii_whitespace().filter_map(|word| word.parse::<Scope>().ok());
        Ok(Token { org, user, scopes: scopes.collect(), expires: claims.exp, not_before: claims.nbf })
    }

    /// The key that a token names, or the only one of its algorithm when it names none.
    fn key(&self, algorithm: Algorithm, id: Option<&str>) -> Option<&Key> {
        let of_algorithm = self.keys.iter().filter(|key| key.algorithm == algorithm);
        if let Some(named) = of_algorithm.clone().find(|key| id.is_some() && key.id.as_deref() == id) {
            return Some(named);
        }
        let mut fitting = of_algorithm.filter(|key| id.is_none() || key.id.is_none());
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(key),
            _ => None,
        }
    }
}

impl Key {
    fn new(id: Option<String>, algorithm: Algorithm, decoding: DecodingKey, options: &JwtOptions) -> Self {
        let mut validation = Validation::new(algorithm);
        // The library would ask the clock of this node. Times are checked by [`Token::check_times`].
        validation.validate_exp = false;
        validation.validate_nbf = false;
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
        OptionsError::new("jwt.jwks", format!("has the key {id}, which can't be used: {rule}"))
    };
    let algorithm = algorithm(jwk).ok_or_else(|| invalid("must have alg RS256, ES256 or EdDSA"))?;
    let decoding = DecodingKey::from_jwk(jwk).map_err(|error| invalid(&error.to_string()))?;
    if decoding.family() != algorithm.family() {
        return Err(invalid("its alg is not one of its key type"));
    }
    Ok(Key::new(jwk.common.key_id.clone(), algorithm, decoding, options))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::credential::sign_token;

    const SECRET: &[u8] = b"a secret of more than thirty-two bytes";
    /// Far from the clock of any machine that runs this.
    const THEN: u64 = 1_000_000_000;

    fn verifier() -> Verifier {
        let (issuer, audience) = ("issuer".to_owned(), "audience".to_owned());
        let secret = Some(SECRET.to_vec());
        Verifier::new(&JwtOptions { issuer, audience, hs256_secret: secret, jwks: None }).unwrap()
    }

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds as i64 * 1000)
    }

    fn org() -> OrgId {
        OrgId::from_uuid(uuid::Uuid::from_u128(7))
    }

    /// A good token for a minute from [`THEN`] on, with one claim changed or, for null, left as null.
    fn with(name: &str, value: Value) -> String {
        let mut claims = json!({
            "sub": "ann", "org": org().to_string(), "iss": "issuer", "aud": "audience",
            "nbf": THEN, "exp": THEN + 60,
        });
        claims[name] = value;
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET);
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
    }

    #[test]
    fn only_the_clock_that_is_given_decides() {
        let verifier = verifier();
        let user = UserId::new("ann").unwrap();
        let (scopes, minute) = ([Scope::Read].into_iter().collect(), Duration::from_secs(60));
        let token = sign_token(SECRET, "issuer", "audience", org(), &user, scopes, minute, at(THEN));
        // Twice each: first as one that was never seen, then as one that is known.
        for good in [THEN - TOKEN_LEEWAY_SECONDS, THEN, THEN + 60 + TOKEN_LEEWAY_SECONDS - 1] {
            for verifier in [&verifier, &self::verifier()] {
                assert_eq!(verifier.verify(&token, at(good)).unwrap().user, user, "{good}");
            }
        }
        for bad in [0, THEN - TOKEN_LEEWAY_SECONDS - 1, THEN + 60 + TOKEN_LEEWAY_SECONDS, u64::from(u32::MAX)]
        {
            for verifier in [&verifier, &self::verifier()] {
                assert!(verifier.verify(&token, at(bad)).is_err(), "{bad}");
            }
        }
    }

    #[test]
    fn times_are_numbers_and_an_end_is_needed() {
        let verifier = verifier();
        assert!(verifier.verify(&with("nbf", json!(0)), at(THEN)).is_ok());
        for (name, value) in [
            ("exp", Value::Null),
            ("exp", json!("9999999999")),
            ("exp", json!(-1)),
            ("exp", json!(0)),
            ("nbf", Value::Null),
            ("nbf", json!("0")),
            ("nbf", json!(-1)),
            ("nbf", json!(u64::MAX)),
        ] {
            let token = with(name, value);
            assert!(verifier.verify(&token, at(THEN)).is_err(), "{name} in {token}");
        }
        // The latest end there is must not run over.
        assert!(verifier.verify(&with("exp", json!(u64::MAX)), at(THEN)).is_ok());
    }
}
