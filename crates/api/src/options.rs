//! What whoever runs the API decides.

use std::time::Duration;

use crate::limits;

pub struct ApiOptions {
    pub jwt: JwtOptions,
    pub limits: HttpLimits,
    pub rates: RateLimits,
    /// Addresses or CIDRs. `X-Forwarded-For` is believed only when the peer is one of these.
    pub trusted_proxies: Vec<String>,
    /// Where `/metrics` gets its text.
    pub metrics: Option<metrics_exporter_prometheus::PrometheusHandle>,
}

/// Which tokens are believed. With neither a secret nor keys there are only API keys.
#[derive(Clone, Default)]
pub struct JwtOptions {
    pub issuer: String,
    pub audience: String,
    pub hs256_secret: Option<Vec<u8>>,
    /// The text of a JWKS document.
    pub jwks: Option<String>,
}

/// A secret is never printed, not even by accident.
impl std::fmt::Debug for JwtOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtOptions")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("hs256_secret", &self.hs256_secret.as_ref().map(|_| "…"))
            .field("jwks", &self.jwks.is_some())
            .finish()
    }
}

#[derive(Clone, Debug)]
pub struct HttpLimits {
    pub body_bytes: usize,
    pub request_timeout: Duration,
    pub json_depth: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes: limits::DEFAULT_BODY_BYTES,
            request_timeout: limits::DEFAULT_REQUEST_TIMEOUT,
            json_depth: limits::DEFAULT_JSON_DEPTH,
        }
    }
}

/// Requests a second; 0 is no limit. A burst may be twice that.
#[derive(Clone, Debug)]
pub struct RateLimits {
    /// Of one user with tokens.
    pub per_user_per_second: u32,
    /// With one API key.
    pub per_key_per_second: u32,
    /// From one address; IPv6 by /64.
    pub per_address_per_second: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            per_user_per_second: limits::DEFAULT_PER_USER,
            per_key_per_second: limits::DEFAULT_PER_KEY,
            per_address_per_second: limits::DEFAULT_PER_ADDRESS,
        }
    }
}

/// A setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {rule}")]
pub struct OptionsError {
    pub setting: &'static str,
    pub rule: String,
}

impl OptionsError {
    pub(crate) fn new(setting: &'static str, rule: impl std::fmt::Display) -> Self {
        Self { setting, rule: rule.to_string() }
    }
}
