//! What is known of the election, for Prometheus.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::board::View;

/// As the format wants it.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All of them, as of now.
pub(super) fn text(view: &View) -> String {
    let labels = [("name".into(), view.name.clone().into()), ("backend".into(), view.backend.clone().into())];
    let mut registry = Registry::with_labels(labels.into_iter());
    registry.register_collector(Box::new(Now::of(view)));
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        text.clear(); // cannot be: a string takes everything
    }
    text
}

#[derive(Debug)]
struct Now {
    gauges: [(&'static str, &'static str, f64); 6],
    counters: [(&'static str, &'static str, u64); 3],
    left: f64,
}

impl Now {
    fn of(view: &View) -> Self {
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "tokens are small numbers for a long time")]
        let token = view.token.unwrap_or(0) as f64;
        Self {
            gauges: [
                ("tenure_election_is_leader", "Whether this candidate leads", flag(view.leads)),
                ("leader_election_master_status", "The same, by the name that dashboards know", flag(view.leads)),
                (
                    "tenure_election_leader_known",
                    "Whether it is known who leads, or that nobody does",
                    flag(view.known),
                ),
                ("tenure_election_token", "The fencing token of this candidate, 0 while it does not lead", token),
                ("tenure_session_held", "Whether the session is held", flag(view.session_held)),
                ("tenure_session_in_jeopardy", "Whether the last renewal failed", flag(view.in_jeopardy)),
            ],
            counters: [
                ("tenure_election_transitions", "Changes of leader that were observed", view.transitions),
                ("tenure_election_terms", "How often this candidate has led", view.terms),
                ("tenure_election_terms_lost", "Of these, how many were lost, not given up", view.lost),
            ],
            left: view.left.as_secs_f64(),
        }
    }
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, help, value) in self.gauges {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in self.counters {
            ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let (name, help) =
            ("tenure_election_deadline", "The time to the deadline, 0 while this candidate does not lead");
        let left = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(self.left).encode(left)
    }
}
