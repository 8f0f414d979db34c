//! What all handlers share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rowlock_core::{Command, IdempotencyKey, Outcome};
use rowlock_registry::{Engine, Reply};

use crate::auth::{Caller, Verifier};
use crate::error::{Problem, code};
use crate::http_metrics::HttpMetrics;
use crate::options::{ApiOptions, HttpLimits, OptionsError};
use crate::proxy::TrustedProxies;
use crate::rate::Rates;
use crate::seats::MapCache;

pub type App = Arc<Shared>;

pub struct Shared {
    pub engine: Engine,
    pub limits: HttpLimits,
    pub verifier: Verifier,
    pub rates: Rates,
    pub proxies: TrustedProxies,
    pub prometheus: Option<metrics_exporter_prometheus::PrometheusHandle>,
    pub http_metrics: HttpMetrics,
    pub maps: MapCache,
    /// Set before the server stops: load balancers look elsewhere while requests are still served.
    pub draining: AtomicBool,
}

impl Shared {
    pub fn new(engine: Engine, options: ApiOptions) -> Result<Self, OptionsError> {
        if options.limits.request_timeout.is_zero() {
            return Err(OptionsError::new("limits.request_timeout", "must be more than nothing"));
        }
        if options.limits.body_bytes == 0 {
            return Err(OptionsError::new("limits.body_bytes", "must be at least 1"));
        }
        if options.limits.json_depth < 4 {
            return Err(OptionsError::new(
                "limits.json_depth",
                "must be at least 4, which the requests need",
            ));
        }
        Ok(Self {
            engine,
            verifier: Verifier::new(&options.jwt)?,
            rates: Rates::new(&options.rates),
            proxies: TrustedProxies::new(&options.trusted_proxies)?,
            limits: options.limits,
            prometheus: options.metrics,
            http_metrics: HttpMetrics::new(),
            maps: MapCache::default(),
            draining: AtomicBool::new(false),
        })
    }

    /// Carries out a command of a caller. The request is made before there is a future, which then need not carry the command.
    pub fn execute(
        &self,
        caller: &Caller,
        command: Command,
        idempotency: Option<IdempotencyKey>,
    ) -> impl Future<Output = Result<Reply, Problem>> {
        let reply = self.engine.execute(caller.request(command, idempotency));
        async { Ok(reply.await?) }
    }
}

/// An outcome that does not fit its command. It can't be, so if it is, it is our mistake.
pub fn unexpected(outcome: &Outcome) -> Problem {
    tracing::error!(?outcome, "a command was answered with the outcome of another");
    Problem::new(&code::INTERNAL, "the answer was not understood; the log says why")
}
