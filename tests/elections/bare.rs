//! What an election cannot have on a backend that keeps no data: a history. All else it has.

use tenure_conformance::bare::Bare;
use tenure_core::{Coordinator, ErrorKind, MemoryBackend, Options};

#[tokio::test]
async fn a_backend_without_data_leads_without_a_history_and_says_why() {
    let coordinator = Coordinator::new(Bare::new(MemoryBackend::new()), Options::default()).expect("good options");
    let election = coordinator.election("x").with_history();
    let leadership = election.campaign("a").await.expect("won");
    let error = election.history().await.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("keeps no data behind a fence, and so no history"), "{error}");
    assert!(leadership.is_held());
    leadership.resign_because("enough").await.expect("resigned, with nothing noted");
    assert_eq!(election.leader().await.expect("asked"), None);
}
