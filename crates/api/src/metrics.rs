//! What is measured of requests. Labels come from closed sets only: the routes, methods, statuses.

use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The bounds of the measured times, in seconds.
const BOUNDS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Took {
    route: &'static str,
}

/// The measurements of the API.
#[derive(Clone, Debug)]
pub struct Metrics {
    answered: Family<Answered, Counter>,
    took: Family<Took, Histogram>,
}

impl Metrics {
    /// Measurements that the registry shows.
    pub fn register(registry: &mut Registry) -> Self {
        let answered = Family::default();
        let took = Family::new_with_constructor((|| Histogram::new(BOUNDS)) as fn() -> Histogram);
        registry.register("http_requests", "Requests that were answered", answered.clone());
        registry.register(
            "http_request_duration_seconds",
            "How long an answer took to begin",
            took.clone(),
        );
        Self { answered, took }
    }

    pub(crate) fn count(&self, route: &'static str, method: &Method, status: u16, took: Duration) {
        let answered = Answered { route, method: method.to_string(), status };
        self.answered.get_or_create(&answered).inc();
        self.took.get_or_create(&Took { route }).observe(took.as_secs_f64());
    }
}
