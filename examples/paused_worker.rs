//! A worker is stopped for longer than its lock lasts, between a read and a write. What it writes when it goes on is refused; and with
//! `--no-fence`, where the number is in a plain file, it overwrites what its successor has written.
//!
//! ```sh
//! cargo run --example paused_worker                # on a SQLite file of its own
//! cargo run --example paused_worker -- --no-fence
//! cargo run --example paused_worker --features etcd -- --url 'etcd://127.0.0.1/demo?ttl=2s'
//! cargo run --example paused_worker --features zk -- --url 'zk://127.0.0.1/demo?ttl=2s'
//! ```
//!
//! Ends with 1 if anything else happens.

use std::{
    env, fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tenure::{Coordinator, ErrorKind, LockGuard, Result};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Where the number is: in the service, behind its fence, or in a file that anybody may write.
#[derive(Clone)]
enum Number {
    Fenced,
    File(PathBuf),
}

impl Number {
    async fn read(&self, guard: &LockGuard) -> Outcome<u64> {
        let text = match self {
            Self::Fenced => guard.fenced()?.get("number").await?.map(|stored| stored.value),
            Self::File(path) => fs::read(path).ok(),
        };
        Ok(text.map_or(Ok(0), |text| String::from_utf8_lossy(&text).parse())?)
    }

    async fn write(&self, guard: &LockGuard, number: u64) -> Result<()> {
        match self {
            Self::Fenced => guard.fenced()?.put("number", number.to_string().as_bytes()).await.map(drop),
            Self::File(path) => fs::write(path, number.to_string())
                .map_err(|error| tenure::Error::new(ErrorKind::Unexpected, error.to_string())),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome<bool> {
    let words: Vec<_> = env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).cloned();
    let folder = tempfile::tempdir()?;
    let url = value("--url").unwrap_or_else(|| format!("sqlite:{}?ttl=2s", folder.path().join("t.db").display()));
    let coordinator = tenure::connect(&url).await?;
    if let Some(file) = value("--worker") {
        let number = if file == "fenced" { Number::Fenced } else { Number::File(file.into()) };
        return work(&coordinator, number).await.map(|()| true);
    }
    let number = if words.iter().any(|word| word == "--no-fence") {
        Number::File(folder.path().join("number"))
    } else {
        Number::Fenced
    };
    show(&coordinator, &url, number).await
}

/// The worker that is stopped. It tells what it does by lines.
async fn work(coordinator: &Coordinator, number: Number) -> Outcome<()> {
    let guard = coordinator.lock("paused-worker").await?;
    let seen = number.read(&guard).await?;
    println!("token {}, and has read {seen}", guard.token());
    io::stdin().read_line(&mut String::new())?; // here it is stopped
    match number.write(&guard, seen + 1).await {
        Ok(()) => println!("accepted"),
        Err(error) => println!("refused: {}", error.report()),
    }
    Ok(())
}

/// The worker that takes over, and what comes of it. Whether that is what this is to show.
async fn show(coordinator: &Coordinator, url: &str, number: Number) -> Outcome<bool> {
    let mut first = start(url, &number)?;
    let mut says = BufReader::new(first.stdout.take().ok_or("no output")?).lines();
    println!("A holds {}", says.next().ok_or("A has ended")??);
    kill_process(Pid::from_child(&first), Signal::STOP)?;
    println!("A is stopped");
    let guard = tokio::time::timeout(Duration::from_secs(60), coordinator.lock("paused-worker")).await??;
    let seen = number.read(&guard).await?;
    println!("B holds token {}, and has read {seen}", guard.token());
    number.write(&guard, seen + 1).await?;
    println!("B writes {}: accepted", seen + 1);
    number.write(&guard, seen + 2).await?;
    println!("B writes {}: accepted", seen + 2);
    kill_process(Pid::from_child(&first), Signal::CONT)?;
    drop(first.stdin.take());
    let ending = says.next().ok_or("A has ended")??;
    println!("A goes on, and writes {}: {ending}", seen + 1);
    first.wait()?;
    let last = number.read(&guard).await?;
    if last == seen + 2 {
        println!("the number is {last}: nothing is lost");
    } else {
        println!("the number is {last}: what B was told is accepted is lost");
    }
    let is_saved = ending.starts_with("refused") && last == seen + 2;
    let is_lost = ending == "accepted" && last == seen + 1;
    Ok(if matches!(number, Number::Fenced) { is_saved } else { is_lost })
}

fn start(url: &str, number: &Number) -> io::Result<Child> {
    let place = match number {
        Number::Fenced => Path::new("fenced"),
        Number::File(path) => path,
    };
    let mut command = Command::new(env::current_exe()?);
    command.args(["--url", url, "--worker"]).arg(place);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}
