//! Leaders and candidates, as lines of text or JSON.

use std::{fmt::Write, io};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer, ser::SerializeMap};
use tenure::{Leader, Success, TermNote, TermRecord};

/// What is shown of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) value: Vec<u8>,
    pub(crate) token: u64,
    pub(crate) id: String,
}

impl From<Leader> for Shown {
    fn from(leader: Leader) -> Self {
        Self { token: leader.token.get(), id: leader.id.to_string(), value: leader.value }
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        match std::str::from_utf8(&self.value) {
            Ok(text) => map.serialize_entry("value", text)?,
            Err(_) => map.serialize_entry("value_base64", &BASE64_STANDARD.encode(&self.value))?,
        }
        map.serialize_entry("token", &self.token)?;
        map.serialize_entry("id", &self.id)?;
        map.end()
    }
}

/// Who leads: `TOKEN VALUE`, or `-`; or as JSON.
pub(crate) fn leader(leader: Option<&Shown>, json: bool) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        leader: Option<&'a Shown>,
    }
    match leader {
        _ if json => json_line(&Line { leader }),
        Some(Shown { value, token, .. }) => format!("{token} {}\n", escaped(value)),
        None => "-\n".to_owned(),
    }
}

/// One of those who stand in line: `TOKEN ID VALUE`; or as JSON.
pub(crate) fn candidate(candidate: &Shown, json: bool) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        candidate: &'a Shown,
    }
    if json {
        return json_line(&Line { candidate });
    }
    let Shown { value, token, id } = candidate;
    format!("{token} {} {}\n", escaped(id.as_bytes()), escaped(value))
}

/// A success that is remembered: `TOKEN TIME HOST PROGRAM`, or `-`; or as JSON.
pub(crate) fn success(success: Option<&Success>, json: bool) -> String {
    #[derive(Serialize)]
    struct Done<'a> {
        token: u64,
        at: &'a str,
        by: &'a tenure::Holder,
    }
    #[derive(Serialize)]
    struct Line<'a> {
        success: Option<Done<'a>>,
    }
    if json {
        let success = success.map(|Success { token, at, by, .. }| Done { token: token.get(), at, by });
        return json_line(&Line { success });
    }
    let Some(Success { token, at, by, .. }) = success else { return "-\n".to_owned() };
    let [at, host, program] = [at, &by.host, &by.program].map(|text| escaped(text.as_bytes()));
    format!("{token} {at} {host} {program}\n")
}

/// A term of a history: `TOKEN BEGAN ENDED WHY VALUE`, divided by tabs; or as JSON.
pub(crate) fn term(term: &TermRecord, json: bool) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        term: &'a TermRecord,
    }
    if json {
        return json_line(&Line { term });
    }
    let (ended, why) = match &term.end {
        None => ("-", "-".to_owned()),
        Some(TermNote::Noted { why, at }) => (at.as_str(), why.clone()),
        Some(TermNote::Unseen { before }) => ("?", format!("unseen, before {before}")),
        Some(_) => ("?", "-".to_owned()),
    };
    let [began, ended, why, value] = [&*term.began, ended, &why, &term.value].map(|text| escaped(text.as_bytes()));
    format!("{}\t{began}\t{ended}\t{why}\t{value}\n", term.token)
}

fn json_line(line: &impl Serialize) -> String {
    String::from_utf8(crate::protocol::line(line)).unwrap_or_default()
}

/// On one line, whatever it holds, and so that no two values look the same.
pub(crate) fn escaped(value: &[u8]) -> String {
    let mut text = String::new();
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\'' => text.push(character),
                other => text.extend(other.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Writes to stdout, in a thread of its own: a reader that is slow holds up nobody else here.
///
/// # Errors
/// `BrokenPipe` if nobody reads any more.
pub(crate) async fn print(line: String) -> io::Result<()> {
    use io::Write;
    let printing = tokio::task::spawn_blocking(move || {
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.flush()
    });
    printing.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &[u8]) -> Shown {
        Shown { value: value.to_owned(), token: 7, id: "x".to_owned() }
    }

    #[test]
    fn a_line_each_whatever_the_value() {
        for (value, line) in [
            (&b"10.0.0.7:9000"[..], "7 10.0.0.7:9000\n"),
            (b"", "7 \n"),
            (b"a\nb\r\x1b[31m", "7 a\\nb\\r\\u{1b}[31m\n"),
            (b"a\\nb", "7 a\\\\nb\n"),
            (b"\xff\"{'k'}", "7 \\xff\"{'k'}\n"),
            ("j\u{fc}rgen \u{202e}x\u{2028}".as_bytes(), "7 j\u{fc}rgen \\u{202e}x\\u{2028}\n"),
        ] {
            assert_eq!(leader(Some(&shown(value)), false), line);
        }
        assert_eq!(leader(None, false), "-\n");
        assert_eq!(candidate(&shown(b"v"), false), "7 x v\n");
    }

    #[test]
    fn json_keeps_every_byte() {
        assert_eq!(leader(None, true), "{\"leader\":null}\n");
        let text = r#"{"leader":{"value":"a\nb","token":7,"id":"x"}}"#;
        assert_eq!(leader(Some(&shown(b"a\nb")), true).trim(), text);
        let binary = r#"{"leader":{"value_base64":"/wA=","token":7,"id":"x"}}"#;
        assert_eq!(leader(Some(&shown(b"\xff\0")), true).trim(), binary);
        assert_eq!(candidate(&shown(b"v"), true).trim(), r#"{"candidate":{"value":"v","token":7,"id":"x"}}"#);
    }
}
