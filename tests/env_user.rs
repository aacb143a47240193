//! A service that is told by its environment alone where to lock: says its token, or what is wrong.

#![expect(clippy::print_stdout, reason = "it is its answer")]

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let (said, code) = match lock().await {
        Ok(said) => (said, ExitCode::SUCCESS),
        Err(error) => (error.report(), ExitCode::FAILURE),
    };
    println!("{said}");
    code
}

async fn lock() -> tenure::Result<String> {
    let coordinator = tenure::connect_env().await?;
    let guard = coordinator.lock("job").await?;
    let said = format!("{} {:?}", guard.token(), coordinator.options().ttl);
    guard.release().await?;
    coordinator.close().await?;
    Ok(said)
}
