//! Rate limits: per user, per API key and per address.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::auth::Caller;
use crate::error::Problem;
use crate::limits::{BURST_SECONDS, MAX_RATE_ENTRIES};
use crate::options::RateLimits;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// How often a limiter looks whether it remembers too many callers.
const TIDY_EVERY: u32 = 4096;

pub struct Rates {
    user: Option<Limit>,
    key: Option<Limit>,
    address: Option<Limit>,
    /// Callers are remembered as digests with a random seed: small, and nobody can aim at another's.
    seed: RandomState,
}

struct Limit {
    name: &'static str,
    policy: HeaderValue,
    limiter: RateLimiter<u64, DashMapStateStore<u64>, DefaultClock, StateInformationMiddleware>,
    checks: AtomicU32,
}

/// Where the caller stands with a limit. The answer says so.
pub struct Standing<'a> {
    limit: &'a Limit,
    left: u32,
    /// Seconds until the next request, for who is over the limit.
    wait: Option<u32>,
}

impl Rates {
    pub fn new(options: &RateLimits) -> Self {
        Self {
            user: Limit::new("user", options.per_user_per_second),
            key: Limit::new("key", options.per_key_per_second),
            address: Limit::new("address", options.per_address_per_second),
            seed: RandomState::new(),
        }
    }

    pub fn check_address(&self, address: IpAddr) -> Option<Standing<'_>> {
        let limit = self.address.as_ref()?;
        let address = address.to_canonical();
        let network = match address {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
        };
        Some(limit.check(self.digest(&(address.is_ipv4(), network))))
    }

    pub fn check_caller(&self, caller: &Caller) -> Option<Standing<'_>> {
        let (limit, digest) = match (caller.key, &caller.user) {
            (Some(key), _) => (&self.key, self.digest(&key)),
            (None, user) => (&self.user, self.digest(&(caller.org, user))),
        };
        limit.as_ref().map(|limit| limit.check(digest))
    }

    fn digest(&self, caller: &impl Hash) -> u64 {
        self.seed.hash_one(caller)
    }
}

impl Limit {
    fn new(name: &'static str, per_second: u32) -> Option<Self> {
        let rate = NonZeroU32::new(per_second)?;
        let burst = rate.saturating_mul(NonZeroU32::new(BURST_SECONDS)?);
        let policy = HeaderValue::from_str(&format!("\"{name}\";q={burst};w={BURST_SECONDS}"));
        let limiter = RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst));
        Some(Self {
            name,
            policy: policy.expect("a policy is plain text"),
            limiter: limiter.with_middleware::<StateInformationMiddleware>(),
            checks: AtomicU32::new(0),
        })
    }

    fn check(&self, digest: u64) -> Standing<'_> {
        if self.checks.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY_EVERY)
            && self.limiter.len() > MAX_RATE_ENTRIES
        {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key(&digest) {
            Ok(state) => Standing { limit: self, left: state.remaining_burst_capacity(), wait: None },
            Err(until) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                Standing { limit: self, left: 0, wait: Some(wait.as_secs() as u32 + 1) }
            }
        }
    }
}

impl Standing<'_> {
    pub fn problem(&self) -> Option<Problem> {
        self.wait.map(Problem::rate_limited)
    }

    pub fn note(&self, headers: &mut HeaderMap) {
        let mut text = String::with_capacity(32);
        text.extend(["\"", self.limit.name, "\";r=", itoa::Buffer::new().format(self.left)]);
        if let Some(seconds) = self.wait {
            text.extend([";t=", itoa::Buffer::new().format(seconds)]);
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(RATE_LIMIT, value);
        }
        headers.insert(RATE_LIMIT_POLICY, self.limit.policy.clone());
    }
}
