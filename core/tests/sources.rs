//! Which of several sources counts, and what is refused.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Backend, Clock, Config, Driver, Drivers, Error, ErrorKind, MemoryDriver, Profiles, Result, Setting, Sources,
    Strength, async_trait,
};

/// A backend with a setting of its own.
#[derive(Debug)]
struct Oracle;

#[async_trait]
impl Driver for Oracle {
    fn scheme(&self) -> &'static str {
        "oracle"
    }
    fn example(&self) -> &'static str {
        "oracle://delphi"
    }
    fn options(&self) -> &'static [&'static str] {
        &["tripod"]
    }
    async fn connect(&self, _: &Config, _: &Clock) -> Result<Arc<dyn Backend>> {
        Err(Error::new(ErrorKind::Unavailable, "it is silent"))
    }
}

fn drivers() -> Drivers {
    Drivers::new().with(MemoryDriver).with(Oracle)
}

const FILE: &str = r#"
    backend = "memory"
    hosts = ["shop"]
    namespace = "live"
    ttl = "20s"
    require = "process"
    token_base = 7

    [profile.test]
    namespace = "test"

    [profile.delphi]
    url = "oracle://delphi?tripod=gold"
"#;

struct Case {
    profile: Option<&'static str>,
    variables: &'static [(&'static str, &'static str)],
    flags: &'static [(&'static str, &'static str)],
}

const NOTHING: Case = Case { profile: None, variables: &[], flags: &[] };

impl Case {
    fn sources(&self, file: &str) -> Sources {
        let profiles: Profiles = toml::from_str(file).expect("good TOML");
        let flags = self.flags.iter().map(|(key, text)| Setting::new(format!("--{key}"), *key, *text));
        let sources = Sources::new(&drivers()).variables(self.variables.iter().copied()).flags(flags);
        let sources = if file.is_empty() { sources } else { sources.profiles("tenure.toml", profiles) };
        self.profile.map_or(sources.clone(), |name| sources.profile("--profile", name))
    }

    fn refused(&self, file: &str) -> String {
        let error = self.sources(file).find().expect_err("it cannot work");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        error.to_string()
    }
}

#[test]
fn stronger_sources_win_key_by_key() {
    for (case, url) in [
        (NOTHING, "memory://shop/live?ttl=20s&require=process&token_base=7"),
        (Case { profile: Some("test"), ..NOTHING }, "memory://shop/test?ttl=20s&require=process&token_base=7"),
        (
            Case { profile: Some("test"), variables: &[("TENURE_TTL", "9s"), ("TENURE_TOKEN_BASE", "8")], ..NOTHING },
            "memory://shop/test?ttl=9s&require=process&token_base=8",
        ),
        (
            Case { variables: &[("TENURE_TTL", "9s")], flags: &[("ttl", "3s"), ("namespace", "flag")], ..NOTHING },
            "memory://shop/flag?ttl=3s&require=process&token_base=7",
        ),
        (
            Case { variables: &[("TENURE_PROFILE", "test"), ("TENURE_TTL", "")], ..NOTHING },
            "memory://shop/test?ttl=20s&require=process&token_base=7",
        ),
    ] {
        let found = case.sources(FILE).find().unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(found, url.parse().expect(url));
    }
}

/// Or a password would be sent to another server, and a token base used for another namespace.
#[test]
fn a_source_that_names_the_backend_says_the_whole_place() {
    let file = format!("{FILE}\n[profile.secret]\nuser = \"me\"\npassword = \"hunter2\"\nca = \"x.pem\"\n");
    for case in [
        Case { profile: Some("delphi"), ..NOTHING },
        Case {
            variables: &[("TENURE_PROFILE", "secret")],
            flags: &[("url", "oracle://delphi?tripod=gold")],
            ..NOTHING
        },
        Case { variables: &[("TENURE_URL", "oracle://delphi"), ("TENURE_TRIPOD", "gold")], ..NOTHING },
    ] {
        let found = case.sources(&file).find().expect("good");
        assert_eq!((found.backend.as_str(), &found.hosts[..]), ("oracle", &["delphi".to_owned()][..]));
        assert_eq!((found.namespace.as_str(), found.token_base), ("", 0));
        assert_eq!((found.user, found.password, found.ca), (None, None, None));
        assert_eq!((found.ttl, found.require), (Duration::from_secs(20), Some(Strength::Process)));
        assert_eq!(found.options["tripod"], "gold");
    }
}

#[test]
fn of_two_passwords_the_stronger_source_has_the_one() {
    let file = "backend = 'memory'\nuser = 'me'\npassword = 'hunter2'";
    let case = Case { variables: &[("TENURE_PASSWORD_FILE", "/run/secret")], ..NOTHING };
    let found = case.sources(file).find().expect("good");
    assert_eq!((found.user.as_deref(), found.password), (Some("me"), None));
    assert_eq!(found.password_file, Some("/run/secret".into()));
}

#[test]
fn what_cannot_work_is_said_with_its_place() {
    const URL: (&str, &str) = ("TENURE_URL", "memory://env");
    for (file, case, says) in [
        (
            FILE,
            Case { profile: Some("prod"), ..NOTHING },
            "tenure.toml: there is no profile 'prod': write one of delphi, test",
        ),
        ("backend = 'memory'", Case { profile: Some("x"), ..NOTHING }, "there are none, write a table [profile.x]"),
        ("", Case { profile: Some("x"), ..NOTHING }, "--profile: "),
        (FILE, Case { variables: &[("TENURE_TTL", "soon")], ..NOTHING }, "TENURE_TTL: ttl = 'soon' is no duration"),
        ("url = 'memory://x?ttl=soon'", NOTHING, "tenure.toml, url: ttl = 'soon' is no duration"),
        (FILE, Case { flags: &[("require", "iron")], ..NOTHING }, "--require: require = 'iron'"),
        (FILE, Case { variables: &[("TENURE_TLL", "5s")], ..NOTHING }, "no setting TENURE_TLL: write TENURE_TTL"),
        (FILE, Case { variables: &[("TENURE_TRIPODS", "2")], ..NOTHING }, "write TENURE_TRIPOD"),
        (
            "",
            Case { variables: &[("TENURE_URL", "memory://x?ttl=5s"), ("TENURE_TTL", "5s")], ..NOTHING },
            "TENURE_TTL: 'ttl' is written in TENURE_URL as well",
        ),
        ("", NOTHING, "there is no 'backend': write"),
        ("ttl = '5s'", NOTHING, "there is no 'backend': write"),
        (
            "",
            Case { variables: &[("TENURE_HOSTS", "h")], ..NOTHING },
            "TENURE_HOSTS: there is no 'backend' beside 'hosts'",
        ),
        // To follow either would lock where somebody does not expect it.
        (
            FILE,
            Case { profile: Some("test"), variables: &[URL], ..NOTHING },
            "--profile: TENURE_URL says where as well",
        ),
        (
            FILE,
            Case { variables: &[("TENURE_PROFILE", "test"), URL], ..NOTHING },
            "TENURE_PROFILE: TENURE_URL says where",
        ),
        (FILE, Case { variables: &[("TENURE_CONFIG", "x"), URL], ..NOTHING }, "TENURE_CONFIG: TENURE_URL says where"),
        (
            FILE,
            Case { profile: Some("test"), flags: &[("url", "memory://x")], ..NOTHING },
            "--profile: --url says where",
        ),
    ] {
        let said = case.refused(file);
        assert!(said.contains(says), "{said}\n{says}");
    }
}

#[test]
fn the_fallback_is_for_those_who_say_nothing_of_a_place() {
    let found = |variables: &'static [(&str, &str)]| {
        Case { variables, ..NOTHING }.sources("").fallback("memory://fallback?ttl=2s").find()
    };
    assert_eq!(found(&[]).expect("good").hosts, ["fallback"]);
    let slow = found(&[("TENURE_TTL", "30s")]).expect("good");
    assert_eq!((slow.hosts, slow.ttl), (vec!["fallback".to_owned()], Duration::from_secs(30)));
    let error = found(&[("TENURE_NAMESPACE", "billing")]).expect_err("somebody forgot the URL");
    assert!(error.to_string().contains("TENURE_NAMESPACE: there is no 'backend' beside 'namespace'"), "{error}");
}

#[tokio::test]
async fn a_setting_that_the_backend_does_not_have_is_said_with_its_place() {
    for (variable, key) in [("TENURE_CA", "ca"), ("TENURE_TRIPOD", "tripod")] {
        let variables = [("TENURE_URL", "memory://x"), (variable, "x")];
        let config = Sources::new(&drivers()).variables(variables).find().expect("as such");
        let error = drivers().connect(&config).await.expect_err("memory has none");
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("{variable}: memory has no setting '{key}'")), "{error}");
    }
}

#[test]
fn json_says_the_same_as_toml() {
    let json = r#"{ "backend": "memory", "hosts": ["shop"], "profile": { "test": { "namespace": "test", "token_base": 3 } } }"#;
    let profiles: Profiles = serde_json::from_str(json).expect("good JSON");
    let found =
        Sources::new(&drivers()).profiles("x.json", profiles).profile("--profile", "test").find().expect("good");
    assert_eq!((found.hosts, found.namespace.as_str(), found.token_base), (vec!["shop".to_owned()], "test", 3));
    for (twice, name) in [
        (r#"{ "ttl": "5s", "ttl": "6s" }"#, "ttl"),
        (r#"{ "profile": { "test": { "ttl": "5s", "ttl": "6s" } } }"#, "ttl"),
        (r#"{ "profile": { "test": {}, "test": { "ttl": "6s" } } }"#, "test"),
    ] {
        let error = serde_json::from_str::<Profiles>(twice).expect_err("which one counts?").to_string();
        assert!(error.contains(&format!("'{name}' is written twice: leave one out")), "{error}");
    }
}

#[test]
fn no_source_shows_a_password() {
    let case = Case { variables: &[("TENURE_PASSWORD", "hunter2"), ("TENURE_URL", "memory://u@h")], ..NOTHING };
    let sources =
        case.sources("backend = 'memory'\npassword = 'hunter2'").flags([Setting::new("x", "password", "hunter2")]);
    assert!(!format!("{sources:?}").contains("hunter2"), "{sources:?}");
    assert!(!format!("{:?}", sources.find().expect("good")).contains("hunter2"));
}
