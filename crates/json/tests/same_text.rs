//! What is written here is what serde_json writes, byte for byte.

use std::collections::BTreeMap;
use std::fmt;

use proptest::prelude::*;
use serde::Serialize;
use uuid::Uuid;

fn assert_same(value: &(impl Serialize + fmt::Debug)) {
    let ours = rowlock_json::to_string(value, 16).expect("it can be written");
    assert_eq!(ours, serde_json::to_string(value).expect("it can be written"), "{value:?}");
}

#[derive(Clone, Debug, Serialize)]
struct Unit;

#[derive(Clone, Debug, Serialize)]
struct Wrapped(i64);

#[derive(Clone, Debug, Serialize)]
struct Pair(u8, String);

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    One(String),
    Two(i32, bool),
    Named { first_field: u16, second: Option<char> },
}

#[derive(Clone, Debug, Serialize)]
struct Everything {
    text: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe: Option<Box<Everything>>,
    list: Vec<Kind>,
    tuple: (i8, u64, f32),
    float: f64,
    id: Uuid,
    unit: Unit,
    nothing: (),
    wrapped: Wrapped,
    pair: Pair,
    by_text: BTreeMap<String, i16>,
    by_number: BTreeMap<i64, ()>,
    by_bool: BTreeMap<bool, u32>,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Plain),
        any::<String>().prop_map(Kind::One),
        any::<(i32, bool)>().prop_map(|(a, b)| Kind::Two(a, b)),
        any::<(u16, Option<char>)>().prop_map(|(first_field, second)| Kind::Named { first_field, second }),
    ]
}

/// Texts in which much must be escaped, of lengths around those that are looked at in one go.
fn text() -> impl Strategy<Value = String> {
    let odd = prop_oneof![
        Just('"'),
        Just('\\'),
        proptest::char::range('\0', ' '),
        Just('\u{7f}'),
        Just('é'),
        any::<char>()
    ];
    prop_oneof![
        any::<String>(),
        proptest::collection::vec(odd, 0..70).prop_map(String::from_iter),
        "[a-z]{0,70}"
    ]
}

fn everything() -> impl Strategy<Value = Everything> {
    let maps = (
        proptest::collection::btree_map(text(), any::<i16>(), 0..4),
        proptest::collection::btree_map(any::<i64>(), Just(()), 0..4),
        proptest::collection::btree_map(any::<bool>(), any::<u32>(), 0..3),
    );
    let leaf =
        (text(), kind(), proptest::collection::vec(kind(), 0..4), any::<(i8, u64, f32)>(), any::<f64>());
    (leaf, any::<(u128, i64, u8)>(), text(), maps).prop_map(|(leaf, numbers, other, maps)| {
        let (text, kind, list, tuple, float) = leaf;
        let (by_text, by_number, by_bool) = maps;
        let mut everything = Everything {
            text,
            kind,
            maybe: None,
            list,
            tuple,
            float,
            id: Uuid::from_u128(numbers.0),
            unit: Unit,
            nothing: (),
            wrapped: Wrapped(numbers.1),
            pair: Pair(numbers.2, other),
            by_text,
            by_number,
            by_bool,
        };
        if numbers.2 % 2 == 0 {
            everything.maybe = Some(Box::new(everything.clone()));
        }
        everything
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn of_anything(value in everything()) {
        assert_same(&value);
    }

    #[test]
    fn of_texts(value in text()) {
        assert_same(&value);
        assert_same(&format_args!("{value}-{}", value.len()).to_string());
    }
}

/// Written piece by piece, by its formatter.
#[derive(Debug)]
struct Label(&'static str, u32);

impl Serialize for Label {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.0, self.1))
    }
}

#[test]
fn of_what_is_formatted() {
    assert_same(&[Label("A", 1), Label("a \"quoted\"\nrow", 99)]);
}

#[test]
fn of_every_byte_that_is_escaped() {
    for byte in 0..=0x7f_u8 {
        // At the beginning, in the middle and at the end of what is looked at in one go.
        for before in [0, 1, 15, 16, 17, 40] {
            let text = format!("{}{}{}", "x".repeat(before), char::from(byte), "é".repeat(9));
            assert_same(&text);
        }
    }
}

#[test]
fn of_numbers_at_their_ends() {
    assert_same(&(i8::MIN, u8::MAX, i64::MIN, u64::MAX));
    assert_same(&[f64::NAN, f64::INFINITY, -0.0, 1e300, 0.1]);
    assert_same(&[f32::MIN_POSITIVE, 16_777_216.0, 0.1]);
}

#[test]
fn a_map_with_a_key_that_is_no_text_is_refused() {
    let map = BTreeMap::from([(vec![1], 1)]);
    assert!(rowlock_json::to_string(&map, 0).is_err());
    assert!(serde_json::to_string(&map).is_err());
}
