//! The suite on the memory backend.

use std::sync::Arc;

use tenure_conformance::Harness;
use tenure_core::{Backend, ContenderId, MemoryBackend, QueueName, async_trait};

struct Memory(MemoryBackend);

#[async_trait]
impl Harness for Memory {
    async fn client(&self) -> Arc<dyn Backend> {
        Arc::new(self.0.other_client())
    }

    async fn remove(&self, queue: &QueueName, id: &ContenderId) {
        assert!(self.0.remove(queue, id));
    }
}

tenure_conformance::conformance! {
    harness: async { Memory(MemoryBackend::new()) },
    excused: [],
}
