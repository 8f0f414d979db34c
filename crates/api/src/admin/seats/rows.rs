//! The rows of a section: a list of names, or from one to another in letters or numbers.

use std::fmt;

use rowlock_core::limits::{MAX_ROW_CHARS, MAX_ROWS_PER_SECTION};
use rowlock_core::text::Row;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::limits::MAX_SEAT_NUMBER;
use crate::list::{List, read_list};
use crate::wire::{Text, integer};

/// `["A", "B"]`, `{"from": "A", "to": "T"}` or `{"from": 1, "to": 40}`.
#[derive(Clone, Debug)]
pub struct Rows(pub Vec<Row>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows, or an object with from and to")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Rows, A::Error> {
                let rows = read_list::<Text<Row>, A, 1, MAX_ROWS_PER_SECTION>(items)?;
                Ok(Rows(rows.into_iter().map(|row| row.0).collect()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rows, A::Error> {
                let range = Range::deserialize(MapAccessDeserializer::new(map))?;
                range.rows().map(Rows).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: End,
    to: End,
}

enum End {
    Letters(u32),
    Number(u32),
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = End;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one or two capital letters, or a whole number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<End, E> {
                let rule = || E::custom("must be one or two capital letters, or a whole number");
                letters(text).map(End::Letters).ok_or_else(rule)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<End, E> {
                let read = integer(de::value::U64Deserializer::<E>::new(number), 0, MAX_SEAT_NUMBER)?;
                Ok(End::Number(read as u32))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<End, E> {
                let read = integer(de::value::I64Deserializer::<E>::new(number), 0, MAX_SEAT_NUMBER)?;
                Ok(End::Number(read as u32))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<End, E> {
                let read = integer(de::value::F64Deserializer::<E>::new(number), 0, MAX_SEAT_NUMBER)?;
                Ok(End::Number(read as u32))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Range {
    fn rows(&self) -> Result<Vec<Row>, &'static str> {
        let (from, to, name): (u32, u32, fn(u32) -> String) = match (&self.from, &self.to) {
            (End::Letters(from), End::Letters(to)) => (*from, *to, letters_of),
            (End::Number(from), End::Number(to)) => (*from, *to, |number| number.to_string()),
            _ => return Err("must have from and to both in letters or both in numbers"),
        };
        if from > to || (to - from) as usize >= MAX_ROWS_PER_SECTION {
            return Err("must have between 1 and 1000 rows, from not behind to");
        }
        Ok((from..=to).map(|row| Row::new(&name(row)).expect("a short row")).collect())
    }
}

// The longest row number fits into a row.
const _: () = assert!(MAX_SEAT_NUMBER < 10i64.pow(MAX_ROW_CHARS as u32));

/// A is 1, Z is 26, AA is 27, ZZ is 702: as the columns of a spreadsheet.
fn letters(text: &str) -> Option<u32> {
    let fits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase());
    fits.then(|| text.bytes().fold(0, |number, byte| number * 26 + u32::from(byte - b'A') + 1))
}

fn letters_of(number: u32) -> String {
    let letter = |digit: u32| char::from(b'A' + (digit % 26) as u8);
    match number - 1 {
        single @ 0..26 => letter(single).to_string(),
        double => [letter(double / 26 - 1), letter(double)].into_iter().collect(),
    }
}

impl PartialSchema for Rows {
    fn schema() -> RefOr<Schema> {
        let list = <List<Text<Row>, 1, MAX_ROWS_PER_SECTION>>::schema();
        let mut list = serde_json::to_value(list).expect("a schema is JSON");
        list["uniqueItems"] = json!(true);
        let range = |end: serde_json::Value| {
            json!({
                "type": "object",
                "properties": { "from": end, "to": end },
                "required": ["from", "to"],
                "additionalProperties": false,
            })
        };
        let letters =
            range(json!({ "type": "string", "minLength": 1, "maxLength": 2, "pattern": "^[A-Z]{1,2}$" }));
        let numbers = range(json!({ "type": "integer", "minimum": 0, "maximum": MAX_SEAT_NUMBER }));
        let any = json!({ "oneOf": [list, letters, numbers] });
        serde_json::from_value(any).expect("it is a schema")
    }
}

impl ToSchema for Rows {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<String>, String> {
        let rows: Rows = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(rows.0.iter().map(|row| row.as_str().to_owned()).collect())
    }

    #[test]
    fn lists_letters_and_numbers() {
        assert_eq!(rows(r#"["A","Balcony"]"#).unwrap(), ["A", "Balcony"]);
        assert_eq!(rows(r#"{"from":"Y","to":"AB"}"#).unwrap(), ["Y", "Z", "AA", "AB"]);
        assert_eq!(rows(r#"{"from":9,"to":11}"#).unwrap(), ["9", "10", "11"]);
        assert_eq!(rows(r#"{"from":9.0,"to":1e1}"#).unwrap(), ["9", "10"]);
        assert_eq!(rows(r#"{"from":"A","to":"ZZ"}"#).unwrap().len(), 702);
        assert_eq!(letters("ZZ"), Some(702));
    }

    #[test]
    fn other_things_are_refused() {
        for bad in [
            "[]",
            "{}",
            "1",
            "\"A\"",
            r#"{"from":"A"}"#,
            r#"{"from":"B","to":"A"}"#,
            r#"{"from":"A","to":3}"#,
            r#"{"from":"a","to":"b"}"#,
            r#"{"from":"","to":"B"}"#,
            r#"{"from":"AAA","to":"ZZZ"}"#,
            r#"{"from":-1,"to":3}"#,
            r#"{"from":1,"to":1001}"#,
            r#"{"from":1.5,"to":3}"#,
            "[\"\"]",
            "[1]",
            r#"{"from":1,"to":2,"step":1}"#,
        ] {
            assert!(rows(bad).is_err(), "{bad}");
        }
    }
}
