//! What is read here serde_json reads too, and as the same.

use proptest::prelude::*;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A struct that is read from an object only, as the API reads them.
#[derive(Debug, PartialEq, Serialize)]
struct Wish {
    event: String,
    seats: Vec<String>,
    areas: Vec<Line>,
    cart: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Line {
    area: String,
    quantity: i64,
}

macro_rules! from_object {
    ($name:ident { $($(#[$with:meta])* $field:ident: $kind:ty,)* }) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Fields {
                    $($(#[$with])* $field: $kind,)*
                }
                struct Reader;
                impl<'de> Visitor<'de> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let Fields { $($field,)* } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                        Ok($name { $($field,)* })
                    }
                }
                deserializer.deserialize_map(Reader)
            }
        }
    };
}

from_object! { Wish {
    event: String,
    #[serde(default)]
    seats: Vec<String>,
    #[serde(default)]
    areas: Vec<Line>,
    cart: Option<String>,
} }
from_object! { Line { area: String, quantity: i64, } }

/// Whether it was read.
fn assert_same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) -> bool {
    let Ok(ours) = rowlock_json::read_plain::<T>(text) else { return false };
    assert_eq!(ours, serde_json::from_str::<T>(text).expect("serde_json reads it too"), "{text}");
    true
}

#[test]
fn what_clients_send_is_read() {
    for text in [
        r#"{"event":"e"}"#,
        r#"{"event":"0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77","seats":["a","b"],"areas":[],"cart":"c1"}"#,
        r#" { "areas" : [ { "area" : "stand" , "quantity" : 12 } ] , "event" : "é" } "#,
        "{\n\t\"event\": \"\",\r\n\t\"seats\": [\n]}",
        r#"{"event":"e","areas":[{"quantity":0,"area":"x"},{"quantity":999999999999999999,"area":"y"}]}"#,
    ] {
        assert!(assert_same::<Wish>(text), "{text}");
    }
}

#[test]
fn what_is_not_plain_is_left_to_others() {
    for text in [
        "",
        " ",
        "{",
        "{}",
        "[]",
        r#"["e"]"#,
        r#"{"event":"e""#,
        r#"{"event":"e"}}"#,
        r#"{"event":"e"} x"#,
        r#"{"event":"e",}"#,
        r#"{,"event":"e"}"#,
        r#"{"event""e"}"#,
        r#"{"event":"e" "cart":"c"}"#,
        r#"{"event":"e","event":"f"}"#,
        r#"{"event":"e","other":1}"#,
        r#"{"event":"e","seats":["a",]}"#,
        r#"{"event":"e","seats":["a" "b"]}"#,
        r#"{"event":"e","seats":["a"}"#,
        r#"{"event":"e","seats":"a"}"#,
        r#"{"event":"e","cart":null}"#,
        r#"{"event":"\u0065"}"#,
        "{\"event\":\"a\nb\"}",
        r#"{"event":"e}"#,
        r#"{"event":1}"#,
        r#"{event:"e"}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":01}]}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":-1}]}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":1.0}]}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":1e2}]}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":}]}"#,
        r#"{"event":"e","areas":[{"area":"x","quantity":1000000000000000000}]}"#,
    ] {
        assert!(!assert_same::<Wish>(text), "{text}");
    }
}

#[test]
fn nothing_is_read_that_is_too_deep() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(transparent)]
    struct Nest(Vec<Nest>);
    let nest = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(assert_same::<Nest>(&nest(64)));
    assert!(!assert_same::<Nest>(&nest(65)));
    assert!(rowlock_json::read_plain::<Nest>(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn who_does_not_read_to_the_end_reads_nothing() {
    #[derive(Debug)]
    struct First;
    impl<'de> Deserialize<'de> for First {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Reader;
            impl<'de> Visitor<'de> for Reader {
                type Value = First;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a list")
                }

                fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<First, A::Error> {
                    items.next_element::<String>()?;
                    Ok(First)
                }
            }
            deserializer.deserialize_seq(Reader)
        }
    }
    assert!(rowlock_json::read_plain::<First>("[]").is_ok());
    assert!(rowlock_json::read_plain::<First>(r#"["a"]"#).is_err());
    assert!(rowlock_json::read_plain::<Vec<First>>(r#"[["a","b"]]"#).is_err());
}

fn wish() -> impl Strategy<Value = Wish> {
    let line = (any::<String>(), any::<i64>()).prop_map(|(area, quantity)| Line { area, quantity });
    let lists = (prop::collection::vec(any::<String>(), 0..4), prop::collection::vec(line, 0..3));
    let wish = (any::<String>(), lists, any::<Option<String>>());
    wish.prop_map(|(event, (seats, areas), cart)| Wish { event, seats, areas, cart })
}

proptest! {
    #[test]
    fn every_wish_is_read_as_it_is_meant(wish in wish()) {
        assert_same::<Wish>(&serde_json::to_string(&wish).unwrap());
        assert_same::<Wish>(&serde_json::to_string_pretty(&wish).unwrap());
    }

    /// Pieces of JSON in any order are nearly JSON at times.
    #[test]
    fn nothing_is_read_that_serde_json_does_not_read(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", " ", "\n", "\\", "\"event\":", "\"e\"", ",\"seats\":[", "\"a\"",
                ",\"areas\":[", "{\"area\":\"x\",\"quantity\":", "1", "0", "-", ".5", "null", "\u{e9}", "\u{7f}", "\t",
            ]),
            0..12,
        ),
        begins in any::<bool>(),
    ) {
        let rest = pieces.concat();
        assert_same::<Wish>(&if begins { format!("{{\"event\":\"e\"{rest}") } else { rest });
    }
}
