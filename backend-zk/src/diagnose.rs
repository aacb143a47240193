//! Why a server cannot be used. The client library does not tell; so the server is asked again, by hand.

use std::{io, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tenure_core::ErrorKind;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    config::Tls,
    error::{Blame, Failure},
};

/// Finds out what is the matter with a server that could not be connected to, within a limit.
pub(crate) async fn diagnose(host: &str, tls: Option<&Tls>, limit: Duration) -> Failure {
    let cannot = || Failure::server(format!("cannot reach ZooKeeper at {host}"));
    match timeout(limit / 2, TcpStream::connect(host)).await {
        Err(_) => Failure::silent(host, limit),
        Ok(Err(error)) => cannot().because(error.to_string()),
        Ok(Ok(stream)) => match tls {
            None => plain(host, stream, limit / 2).await,
            Some(tls) => encrypted(host, stream, tls, limit / 2).await,
        },
    }
}

/// Asks by the one command that every server answers unless it is told not to.
async fn plain(host: &str, mut stream: TcpStream, limit: Duration) -> Failure {
    let mut said = Vec::new();
    let exchange = async {
        stream.write_all(b"srvr").await?;
        stream.read_to_end(&mut said).await
    };
    let ended = timeout(limit, exchange).await;
    let text = String::from_utf8_lossy(&said);
    let unavailable = |why: &str| Failure::server(format!("ZooKeeper at {host} {why}"));
    match ended {
        Err(_) => unavailable("breaks off connections without a word: if it uses TLS, write zks:// or ca"),
        _ if text.contains("not currently serving") => unavailable("does not serve: it has no majority"),
        _ if text.contains("Mode: read-only") => unavailable("is read-only, since it has no majority: it is not used"),
        _ if text.contains("Zookeeper version") => unavailable("has broken off the connection"),
        _ if text.contains("not executed because it is not in the whitelist") => {
            unavailable("has broken off the connection")
        }
        Ok(Err(_)) => unavailable("has broken off the connection; if it uses TLS, write zks:// or ca"),
        Ok(_) => unavailable("does not answer as ZooKeeper does: if it uses TLS, write zks:// or ca"),
    }
}

async fn encrypted(host: &str, stream: TcpStream, tls: &Tls, limit: Duration) -> Failure {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']).to_owned();
    let config = match client_config(tls) {
        Ok(config) => config,
        Err(why) => {
            let message = "ca, cert and key cannot be used: write PEM files that belong together";
            return Failure::new(ErrorKind::Config, Blame::Request, message).because(why);
        }
    };
    let shaken = tokio::task::spawn_blocking(move || shake_hands(stream, config, name, limit)).await;
    let text = match shaken {
        Ok(Err(error)) => error.to_string(),
        _ => String::new(),
    };
    trust(&text, host)
}

fn client_config(tls: &Tls) -> Result<ClientConfig, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(tls.ca.as_bytes()) {
        let _ = roots.add(certificate.map_err(|error| text(&error))?);
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let Some((cert, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| text(&error))?;
    builder.with_client_auth_cert(chain.map_err(|error| text(&error))?, key).map_err(|error| text(&error))
}

/// A handshake, and a little beyond it: in TLS 1.3 a server that refuses our certificate says so only afterwards.
fn shake_hands(stream: TcpStream, config: ClientConfig, name: String, limit: Duration) -> io::Result<()> {
    let mut stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    stream.set_read_timeout(Some(limit.min(Duration::from_millis(200))))?;
    match connection.complete_io(&mut stream) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
        answer => answer.map(drop),
    }
}

/// What a handshake says about certificates.
fn trust(text: &str, host: &str) -> Failure {
    let (kind, message) = if let Some((_, complaint)) = text.split_once("invalid peer certificate: ") {
        let message = if complaint.starts_with("Expired") || complaint.contains("certificate expired") {
            format!("the certificate of ZooKeeper at {host} has expired: renew it")
        } else if complaint.starts_with("NotValidForName") || complaint.contains("not valid for name") {
            format!("the certificate of ZooKeeper at {host} is made for other names: write a host that it names")
        } else {
            format!(
                "the certificate of ZooKeeper at {host} is from an authority that is not trusted: write ca = the file of its authority"
            )
        };
        (ErrorKind::Config, message)
    } else if text.contains("InvalidContentType") {
        let message = format!("ZooKeeper at {host} does not speak TLS: write zk:// and leave out ca, cert and key");
        (ErrorKind::Config, message)
    } else if text.contains("fatal alert") {
        let message = format!(
            "ZooKeeper at {host} refuses our certificate: write cert and key of one that it trusts and that has not expired"
        );
        (ErrorKind::Denied, message)
    } else {
        let message = format!(
            "ZooKeeper at {host} broke off the TLS connection: if it does not use TLS, write zk:// and leave out ca, cert and key; \
             if it asks for a certificate, write cert and key of one that it trusts and that has not expired"
        );
        (ErrorKind::Unavailable, message)
    };
    let failure = Failure::new(kind, Blame::Server, message);
    if text.is_empty() { failure } else { failure.because(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_sentences_and_do_not_end_a_session() {
        for (text, kind, says) in [
            ("invalid peer certificate: Expired", ErrorKind::Config, "has expired"),
            ("invalid peer certificate: certificate expired: verification time ..", ErrorKind::Config, "has expired"),
            ("invalid peer certificate: UnknownIssuer", ErrorKind::Config, "write ca"),
            ("invalid peer certificate: certificate not valid for name \"h1\"", ErrorKind::Config, "other names"),
            ("received fatal alert: BadCertificate", ErrorKind::Denied, "refuses our certificate"),
            ("received corrupt message of type InvalidContentType", ErrorKind::Config, "does not speak TLS"),
            ("tls handshake eof", ErrorKind::Unavailable, "write zk://"),
        ] {
            let failure = trust(text, "h1:2181");
            assert_eq!((failure.kind, failure.blame), (kind, Blame::Server), "{text}");
            let error = failure.in_session();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn who_is_not_there_is_told_by_name() {
        let error = diagnose("127.0.0.1:9", None, Duration::from_secs(2)).await.into_error();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(
            error.report().contains("cannot reach ZooKeeper at 127.0.0.1:9: Connection refused"),
            "{}",
            error.report()
        );
    }
}
