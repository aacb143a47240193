//! A service behind a fence. `cargo run -p tenure-fence --example http_fence --features http`, and then
//!
//! ```sh
//! curl -i -X PUT -H 'Fencing-Token: 8' -d two localhost:8080/total    # 200
//! curl -i -X PUT -H 'Fencing-Token: 7' -d one localhost:8080/total    # 412, Fencing-Token: 8
//! curl -i localhost:8080/total                                        # 200, two
//! ```
//!
//! The marks are in `marks.db`, and outlive a restart. With the command line of Tenure:
//! `tenure lock total -- sh -c 'curl --fail -X PUT -H "Fencing-Token: $TENURE_TOKEN" -d three localhost:8080/total'`

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Router, extract::State, routing::get};
use tenure_fence::http::{FenceLayer, SqliteMarks};

type Total = Arc<Mutex<String>>;

async fn read(State(total): State<Total>) -> String {
    total.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn write(State(total): State<Total>, body: String) {
    *total.lock().unwrap_or_else(PoisonError::into_inner) = body;
}

fn app(marks: SqliteMarks) -> Router {
    let routes = Router::new().route("/total", get(read).put(write)).with_state(Total::default());
    routes.layer(FenceLayer::new(marks))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app(SqliteMarks::open("marks.db")?)).await?;
    Ok(())
}

#[tokio::test]
async fn the_example_does_what_it_says() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/total", listener.local_addr()?);
    let app = app(SqliteMarks::open(folder.path().join("marks.db"))?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    let _ = rustls::crypto::ring::default_provider().install_default(); // the client is built with TLS, and does without
    let client = reqwest::Client::new();
    let put =
        |token: &'static str, body: &'static str| client.put(&url).header("Fencing-Token", token).body(body).send();
    assert_eq!(put("8", "two").await?.status(), 200);
    let refused = put("7", "one").await?;
    assert_eq!((refused.status().as_u16(), &refused.headers()["Fencing-Token"]), (412, &"8".parse()?));
    assert_eq!(client.get(&url).send().await?.text().await?, "two");
    Ok(())
}
