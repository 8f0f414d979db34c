//! How long requests take, by route. Handles are kept, because looking one up by its labels costs more than it does.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use metrics::Histogram;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

pub const NAME: &str = "rowlock_http_request_duration_seconds";

const METHODS: [&str; 5] = ["GET", "POST", "DELETE", "HEAD", "other"];
/// The last: the client had gone before there was an answer.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "gone"];

type Handles = [[OnceLock<Histogram>; CLASSES.len()]; METHODS.len()];

pub struct HttpMetrics {
    /// By route template. The router has a fixed number of those, so this can't grow with what clients ask for.
    routes: RwLock<FxHashMap<Box<str>, Arc<Handles>>>,
}

impl HttpMetrics {
    pub fn new() -> Self {
        metrics::describe_histogram!(
            NAME,
            "How long requests took, from when their head was read until their answer began."
        );
        Self { routes: RwLock::default() }
    }

    pub fn record(&self, route: &str, method: &Method, status: Option<StatusCode>, took: Duration) {
        let known = self.routes.read().get(route).map(Arc::clone);
        let handles =
            known.unwrap_or_else(|| Arc::clone(self.routes.write().entry(route.into()).or_default()));
        let method = METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1);
        let class = status.map_or(CLASSES.len(), |status| usize::from(status.as_u16() / 100));
        let class = class.clamp(1, CLASSES.len()) - 1;
        let histogram = handles[method][class].get_or_init(|| {
            metrics::histogram!(
                NAME,
                "route" => route.to_owned(),
                "method" => METHODS[method],
                "status" => CLASSES[class]
            )
        });
        histogram.record(took.as_secs_f64());
    }
}
