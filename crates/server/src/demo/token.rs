//! The demo buyer's token. It is kept from start to start while it is good for some time.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rowlock_api::credential;
use rowlock_core::org::Scope;
use rowlock_core::{OrgId, Time, UserId};
use serde::Deserialize;

use crate::settings::Auth;

const BUYER: &str = "demo-buyer";
const TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// A token with less time left than this is replaced.
const RENEWAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub struct Signer<'a> {
    pub auth: &'a Auth,
    pub secret: &'a [u8],
    pub org: OrgId,
}

#[derive(Deserialize)]
struct Times {
    iat: i64,
    exp: i64,
}

impl Signer<'_> {
    pub fn sign(&self, now: Time) -> String {
        let user = UserId::new(BUYER).expect("the demo's buyer has a valid name");
        let scopes = [Scope::Read, Scope::Hold].into_iter().collect();
        let Auth { issuer, audience, .. } = self.auth;
        credential::sign_token(self.secret, issuer, audience, self.org, &user, scopes, TTL, now)
    }

    /// Whether a token is one that this signer made and lasts a while. Signing is deterministic, so signing again for
    /// the same moment tells: secret, issuer, audience and all.
    pub fn is_good(&self, token: &str, now: Time) -> bool {
        let Some(times) = times(token) else { return false };
        let enough = now.plus_millis(RENEWAL.as_millis() as i64).millis() / 1000;
        times.exp > enough && self.sign(Time::from_millis(times.iat.saturating_mul(1000))) == token
    }
}

fn times(token: &str) -> Option<Times> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_it_is_near_its_end_or_the_secret_changes() {
        let auth = Auth::default();
        let signer = |secret| Signer { auth: &auth, secret, org: OrgId::from_uuid(uuid::Uuid::max()) };
        let (ours, other) = (signer(b"ours-ours-ours-ours-ours-ours-ours"), signer(b"other"));
        let now = Time::from_millis(1_700_000_000_123);
        let token = ours.sign(now);
        let days = |days: u32| now.plus_seconds(days * 86_400);
        assert!(ours.is_good(&token, now) && ours.is_good(&token, days(22)));
        assert!(!ours.is_good(&token, days(23)), "less than a week is left");
        assert!(!other.is_good(&token, now));
        assert!(!ours.is_good("", now) && !ours.is_good("a.b.c", now));
    }
}
