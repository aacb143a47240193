//! The service goes away and comes back, with three candidates.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_conformance::server::until;
use tenure_core::{Coordinator, FencingToken, State};
use tenure_tests::rounds;
use tokio::time::sleep;

use super::{
    service::Service,
    stage::{Candidate, Stage},
};

/// So that no term is ended much before its deadline.
const SHORT_DRAIN: Duration = Duration::from_millis(200);

/// An outage of so many halves of the ttl.
#[derive(Clone, Copy)]
struct Outage {
    seconds: u32,
    halves: u32,
    /// The default, unless it is set. With that, an outage that no term is to be ended by begins right after a keep-alive.
    drain: Option<Duration>,
}

struct Replicas {
    stage: Arc<Stage>,
    coordinators: Vec<Coordinator>,
    candidates: Vec<Candidate>,
}

impl Replicas {
    async fn start(service: &Service, settings: &str, drain: Option<Duration>) -> Self {
        let (stage, mut coordinators, mut candidates) = (Arc::<Stage>::default(), Vec::new(), Vec::new());
        for number in 0..3 {
            let coordinator = service.coordinator(settings).await;
            let election = coordinator.election("x");
            let election = drain.map_or(election.clone(), |drain| election.drain(drain));
            candidates.push(stage.run(election, number.to_string()));
            coordinators.push(coordinator);
        }
        service.until_queued(3).await;
        Self { stage, coordinators, candidates }
    }

    /// The coordinator of the leader.
    async fn leading(&self) -> &Coordinator {
        let leader = self.coordinators[0].election("x").leader().await.expect("asked").expect("somebody leads");
        &self.coordinators[String::from_utf8(leader.value).expect("text").parse::<usize>().expect("a number")]
    }

    async fn until_renewed(&self) {
        let leading = self.leading().await;
        let deadline = || match leading.session_state() {
            Some(State::Held { deadline }) => Some(deadline),
            _ => None,
        };
        let before = deadline();
        assert!(until(Duration::from_secs(10), async || deadline() != before).await, "no keep-alive");
    }

    /// Whoever leads for the service is the one that runs.
    async fn until_one_leads(&self, limit: Duration) -> FencingToken {
        let agreed = async || {
            let leader = self.coordinators[0].election("x").leader().await.ok().flatten().map(|leader| leader.token);
            leader.is_some() && leader == self.stage.seen().on_stage
        };
        assert!(until(limit, agreed).await, "{:?}: they do not agree on a leader", self.stage.seen());
        self.stage.seen().on_stage.expect("one leads")
    }
}

/// A server that comes back may count the ttl anew, so the next leader may take two.
async fn over(outage: Outage, mut service: Service) {
    let Outage { seconds, halves, drain } = outage;
    let ttl = Duration::from_secs(seconds.into());
    let replicas = Replicas::start(&service, &format!("ttl={seconds}s"), drain).await;
    let stage = replicas.stage.clone();
    let (token, sessions) = (replicas.until_one_leads(ttl).await, service.sessions().await);
    if halves == 1 && drain.is_none() {
        replicas.until_renewed().await;
    }
    service.kill();
    // So that it is over in time if it is to be, and not before if it is not.
    let start = if halves == 1 { service.takes_to_start() } else { Duration::ZERO };
    sleep((ttl * halves / 2).saturating_sub(start)).await;
    let back = Instant::now();
    service.restart().await;
    replicas.until_one_leads(ttl * 4).await;
    println!("outage of {halves}/2 ttl: one leads {:?} after the restart", back.elapsed());
    sleep(ttl).await;
    service.until_queued(3).await;
    // The service's own word: all stand in line again, and whose session is not there any more has lost it.
    let now: BTreeSet<_> = service.sessions().await.into_iter().collect();
    let lost: Vec<_> = sessions.iter().map(|session| !now.contains(session)).collect();
    let after = stage.seen();
    let rose = replicas.until_one_leads(ttl).await > token;
    assert_eq!(rose, lost[0], "the token rises if and only if the leader's session was lost: {after:?}");
    assert_eq!(lost, [halves > 1; 3], "the sessions are lost if and only if the outage is longer than they last");
    assert_eq!((after.started - after.ended, after.ended > 0), (1, rose), "{after:?}");
    for candidate in replicas.candidates {
        candidate.stop().await;
    }
    let end = stage.seen();
    assert!(end.on_stage.is_none() && end.started == end.ended, "{end:?}");
}

const HALF_OF_3: Outage = Outage { seconds: 3, halves: 1, drain: Some(SHORT_DRAIN) };
const RIGHT_AFTER_A_KEEP_ALIVE: Outage = Outage { seconds: 4, halves: 1, drain: None };
const HALF_OF_12: Outage = Outage { seconds: 12, halves: 1, drain: Some(SHORT_DRAIN) };
const ONE: Outage = Outage { seconds: 3, halves: 2, drain: None };
const TWO: Outage = Outage { seconds: 3, halves: 4, drain: None };
const TEN: Outage = Outage { seconds: 3, halves: 20, drain: None };

macro_rules! outages {
    ($($name:ident: $outage:ident, $service:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for _ in 0..rounds(1) {
                over($outage, $service).await;
            }
        }
    )*};
}

outages! {
    half_a_ttl_ends_no_term_on_etcd: HALF_OF_3, Service::etcd().await;
    half_a_ttl_right_after_a_keep_alive_ends_no_term_on_etcd: RIGHT_AFTER_A_KEEP_ALIVE, Service::etcd().await;
    one_leads_after_one_ttl_on_etcd: ONE, Service::etcd().await;
    one_leads_after_two_ttls_on_etcd: TWO, Service::etcd().await;
    one_leads_after_ten_ttls_on_etcd: TEN, Service::etcd().await;
    half_a_ttl_ends_no_term_on_zookeeper: HALF_OF_12, Service::zookeeper().await;
    one_leads_after_one_ttl_on_zookeeper: ONE, Service::zookeeper().await;
    one_leads_after_two_ttls_on_zookeeper: TWO, Service::zookeeper().await;
    one_leads_after_ten_ttls_on_zookeeper: TEN, Service::zookeeper().await;
    half_a_ttl_right_after_a_keep_alive_ends_no_term_on_sqlite: RIGHT_AFTER_A_KEEP_ALIVE, Service::sqlite();
    one_leads_after_one_ttl_on_sqlite: ONE, Service::sqlite();
    one_leads_after_two_ttls_on_sqlite: TWO, Service::sqlite();
    one_leads_after_ten_ttls_on_sqlite: TEN, Service::sqlite();
}
