//! Tables, as TOML, JSON and the like have them.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};

use super::{Config, Setting, layer::Layer, refusal};
use crate::error::Result;

/// The value of a key: texts, and what people write without quotes.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a setting is a text, a number, true or false, or a list of texts")]
pub(super) enum Value {
    Text(String),
    Switch(bool),
    Number(i64),
    Large(u64),
    Fraction(f64),
    List(Vec<String>),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Switch(switch) => switch.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Large(number) => number.to_string(),
            Self::Fraction(number) => number.to_string(),
            Self::List(list) => list.join(","),
        }
    }
}

/// Keys and their values.
pub(super) type Table = Unique<Value>;

/// JSON and others leave it to the reader what a name that stands there twice means: here it is refused.
#[derive(Clone)]
pub(super) struct Unique<V>(pub(super) BTreeMap<String, V>);

impl<V> Default for Unique<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Unique<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<V>, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    if all.contains_key(&name) {
                        return Err(A::Error::custom(refusal(format!("'{name}' is written twice: leave one out"))));
                    }
                    all.insert(name, value);
                }
                Ok(Unique(all))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// What the table at this place says.
pub(super) fn layer(place: &str, Unique(table): &Table) -> Result<Layer> {
    let url = if place.is_empty() { "the url".to_owned() } else { format!("{place}, url") };
    let origin = |key: &str| if key == "url" { url.clone() } else { place.to_owned() };
    Layer::new(table.iter().map(|(key, value)| Setting::new(origin(key), key, value.text())))
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Table::deserialize(deserializer)?;
        let layer = layer("", &table).map_err(D::Error::custom)?;
        if layer.names_place().is_none() {
            let message = "there is no 'backend': write backend = \"sqlite\", or url = \"sqlite:/path\"";
            return Err(D::Error::custom(refusal(message)));
        }
        layer.config().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Config {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn tables_say_the_same_as_urls() {
        let table: Config = toml::from_str(
            "backend = 'etcd'\nhosts = ['h1', 'h2:1']\nnamespace = 'a/b'\nttl = '5s'\ntoken_base = 3\nodd = true",
        )
        .expect("good");
        assert_eq!(table, parsed("etcd://h1,h2:1/a/b?ttl=5s&token_base=3&odd=true"));
        let json: Config = serde_json::from_value(serde_json::json!({
            "backend": "etcd", "hosts": ["h1", "h2:1"], "namespace": "a/b", "ttl": "5s", "token_base": 3, "odd": true,
        }))
        .expect("good");
        assert_eq!(json, table);
        let url: Config = toml::from_str("url = 'etcd://h1/a'\nttl = '5s'").expect("good");
        assert_eq!(url, parsed("etcd://h1/a?ttl=5s"));
        for (bad, says) in [
            ("ttl = '5s'", "no 'backend'"),
            ("url = 'etcd://h?ttl=1s'\nttl = '5s'", "'ttl' is written in the url as well"),
            ("url = 'etcd://h'\nbackend = 'etcd'", "'backend' is written in the url as well"),
            ("backend = 'x'\nttl = { seconds = 5 }", "a setting is a text, a number"),
            ("backend = 'x'\nttl = 5", "no duration"),
            ("backend = 'x'\ntoken_base = -1", "token_base = '-1' is no whole number"),
            ("backend = 'x'\ntoken_base = 1.5", "token_base = '1.5' is no whole number"),
            ("backend = 'x'\nhosts = []", "a host is empty"),
            ("backend = 'x'\nhosts = 'h1,,h2'", "a host is empty"),
        ] {
            let error = toml::from_str::<Config>(bad).expect_err(bad).to_string();
            assert!(error.contains(says), "{error}");
            let same: serde_json::Value = toml::from_str(bad).expect("it is a table");
            let error = serde_json::from_value::<Config>(same).expect_err(bad).to_string();
            assert!(error.contains(says), "{error}");
        }
        // What TOML cannot say.
        for (bad, says) in [
            (r#"{ "backend": "x", "ttl": null }"#, "a setting is a text, a number"),
            (r#"{ "backend": "x", "ttl": "5s", "ttl": "6s" }"#, "'ttl' is written twice"),
            (r#"{ "backend": "x", "token_base": 99999999999999999999 }"#, "no whole number"),
        ] {
            let error = serde_json::from_str::<Config>(bad).expect_err(bad).to_string();
            assert!(error.contains(says), "{error}");
        }
        let largest = format!(r#"{{ "backend": "x", "token_base": {} }}"#, u64::MAX);
        assert_eq!(serde_json::from_str::<Config>(&largest).expect("good").token_base, u64::MAX);
    }
}
