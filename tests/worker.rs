//! A worker of the history test, with all backends that are compiled in.

// One thread: while a worker computes, its keep-alive cannot run, and only the clock can tell it of a loss.
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    tenure_conformance::history::work(tenure::drivers()).await
}
