//! The small types of the JSON: read strictly, described in the OpenAPI from the same constants.

use std::fmt;

use rowlock_core::booking::BookingStatus;
use rowlock_core::hold::{HoldStatus, Source};
use rowlock_core::money::Currency;
use rowlock_core::org::Scope;
use rowlock_core::seat::SeatStatus;
use rowlock_core::text::Row;
use rowlock_core::{
    AreaId, BlockId, BookingId, CartToken, EventId, HoldId, KeyId, Name, OrgId, PaymentReference, SeatId,
    Time, UserId, limits,
};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{Object, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::MAX_SEAT_NUMBER;
use crate::timestamp;

/// What a client writes as a string: a path segment, a query value or a JSON string.
pub trait FromText: Sized {
    /// The name of its schema.
    const NAME: &'static str;
    fn read(text: &str) -> Result<Self, String>;
    fn describe() -> Object;
}

/// A JSON string that is read as a `T`.
#[derive(Clone, Debug)]
pub struct Text<T>(pub T);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);
        impl<T: FromText> Visitor<'_> for Reader<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                T::read(text).map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Reader(std::marker::PhantomData))
    }
}

impl<T: FromText> PartialSchema for Text<T> {
    fn schema() -> RefOr<Schema> {
        T::describe().into()
    }
}

impl<T: FromText> ToSchema for Text<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::NAME.into()
    }
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

macro_rules! ids {
    ($($id:ident)*) => {$(
        impl FromText for $id {
            const NAME: &'static str = "Id";

            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: rowlock_core::ids::InvalidId| error.to_string())
            }

            fn describe() -> Object {
                string().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid))).build()
            }
        }
    )*};
}

ids!(OrgId KeyId EventId BlockId AreaId SeatId HoldId BookingId);

/// A visible character, then anything that is not a control character: what [`begins_visibly`] and the kernel check.
pub const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u0020\u007F-\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF]",
    r"[^\u0000-\u001F\u007F-\u009F\u2028\u2029\uFEFF]*$"
);

fn begins_visibly(text: &str) -> Result<(), String> {
    if text.starts_with(char::is_whitespace) {
        return Err("must not begin with white space".to_owned());
    }
    Ok(())
}

macro_rules! texts {
    ($($text:ident $max:expr;)*) => {$(
        impl FromText for $text {
            const NAME: &'static str = stringify!($text);

            fn read(text: &str) -> Result<Self, String> {
                let read = $text::new(text).map_err(|error| error.to_string())?;
                begins_visibly(text)?;
                Ok(read)
            }

            fn describe() -> Object {
                string().min_length(Some(1)).max_length(Some($max)).pattern(Some(TEXT_PATTERN)).build()
            }
        }
    )*};
}

texts! {
    Name limits::MAX_NAME_CHARS;
    UserId limits::MAX_USER_CHARS;
    CartToken limits::MAX_CART_CHARS;
    PaymentReference limits::MAX_PAYMENT_REFERENCE_CHARS;
    Row limits::MAX_ROW_CHARS;
}

impl FromText for Currency {
    const NAME: &'static str = "Currency";

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: rowlock_core::money::InvalidCurrency| error.to_string())
    }

    fn describe() -> Object {
        string().min_length(Some(3)).max_length(Some(3)).pattern(Some("^[A-Z]{3}$")).build()
    }
}

/// One of a closed list of words.
pub trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn word(self) -> &'static str;
}

macro_rules! words {
    ($($word:ident)*) => {$(
        impl Word for $word {
            const ALL: &'static [Self] = &$word::ALL;

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl FromText for $word {
            const NAME: &'static str = stringify!($word);

            fn read(text: &str) -> Result<Self, String> {
                let found = $word::ALL.into_iter().find(|word| word.as_str() == text);
                found.ok_or_else(|| format!("must be one of {}", words_of::<$word>().join(", ")))
            }

            fn describe() -> Object {
                string().enum_values(Some(words_of::<$word>())).build()
            }
        }
    )*};
}

words!(HoldStatus BookingStatus SeatStatus Source Scope);

pub fn words_of<T: Word>() -> Vec<&'static str> {
    T::ALL.iter().map(|word| word.word()).collect()
}

impl<T: Word> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

pub type IdText<T> = Text<T>;
pub type EventIdText = Text<EventId>;
pub type AreaIdText = Text<AreaId>;
pub type BlockIdText = Text<BlockId>;
pub type NameText = Text<Name>;
pub type CartText = Text<CartToken>;
pub type PaymentText = Text<PaymentReference>;
pub type CurrencyText = Text<Currency>;
pub type SourceWord = Text<Source>;
pub type ScopeWord = Text<Scope>;
pub type HoldStatusWord = Text<HoldStatus>;
pub type BookingStatusWord = Text<BookingStatus>;
pub type SeatStatusWord = Text<SeatStatus>;

/// A moment: RFC 3339 with milliseconds, in UTC when written.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp(pub Time);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(timestamp::write(self.0).as_str())
    }
}

impl FromText for Timestamp {
    const NAME: &'static str = "Timestamp";

    fn read(text: &str) -> Result<Self, String> {
        timestamp::read(text).map(Timestamp).map_err(str::to_owned)
    }

    fn describe() -> Object {
        string().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).build()
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::<Timestamp>::deserialize(deserializer).map(|text| text.0)
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        Self::describe().into()
    }
}

impl ToSchema for Timestamp {
    fn name() -> std::borrow::Cow<'static, str> {
        Self::NAME.into()
    }
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident($int:ty) $min:expr, $max:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(pub $int);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = integer(deserializer, $min as i64, $max as i64)?;
                Ok(Self(value as $int))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let (min, max) = ($min as i64, $max as i64);
                let object = ObjectBuilder::new().schema_type(Type::Integer);
                object
                    .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                    .minimum(Some(min))
                    .maximum(Some(max))
                    .build()
                    .into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

integers! {
    Quantity(u32) 1, limits::MAX_AREA_QUANTITY;
    SeatQuantity(u32) 1, limits::MAX_SEATS_PER_HOLD as u32;
    Capacity(u32) 1, limits::MAX_AREA_CAPACITY;
    /// Minor units of the event's currency: cents for EUR, yen for JPY.
    Price(i64) 0, limits::MAX_PRICE_MINOR;
    Duration(u32) 1, limits::MAX_POLICY_SECONDS;
    Extension(u32) 0, limits::MAX_POLICY_SECONDS;
    SeatsPerUser(u32) 1, limits::MAX_SEATS_PER_USER;
    SeatNumber(u32) 0, MAX_SEAT_NUMBER;
}

/// Reads a whole number in a range. JSON has one kind of number, so 2.0 is one; 2.5 is not.
pub fn integer<'de, D: Deserializer<'de>>(deserializer: D, min: i64, max: i64) -> Result<i64, D::Error> {
    struct Reader(i64, i64);
    impl Reader {
        fn check<E: de::Error>(&self, value: Option<i64>) -> Result<i64, E> {
            let fits = value.filter(|value| (self.0..=self.1).contains(value));
            fits.ok_or_else(|| E::custom(format_args!("must be between {} and {}", self.0, self.1)))
        }
    }
    impl Visitor<'_> for Reader {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number between {} and {}", self.0, self.1)
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
            self.check(Some(value))
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
            self.check(i64::try_from(value).ok())
        }

        fn visit_f64<E: de::Error>(self, value: f64) -> Result<i64, E> {
            // Up to here a float is exactly the number that it shows.
            const EXACT: f64 = (1_u64 << 53) as f64;
            match value.fract() == 0.0 {
                true => self.check((value.abs() <= EXACT).then_some(value as i64)),
                false => Err(E::invalid_type(de::Unexpected::Float(value), &self)),
            }
        }
    }
    deserializer.deserialize_i64(Reader(min, max))
}

/// A position or distance on the map.
#[derive(Clone, Copy, Debug)]
pub struct Coordinate(pub f32);

impl<'de> Deserialize<'de> for Coordinate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if value.is_nan() || value.abs() > f64::from(limits::MAX_COORDINATE) {
            return Err(de::Error::custom("must be between -1000000 and 1000000"));
        }
        Ok(Self(value as f32))
    }
}

impl PartialSchema for Coordinate {
    fn schema() -> RefOr<Schema> {
        let limit = f64::from(limits::MAX_COORDINATE);
        let object = ObjectBuilder::new().schema_type(Type::Number);
        object.minimum(Some(-limit)).maximum(Some(limit)).build().into()
    }
}

impl ToSchema for Coordinate {}

/// An amount of money in minor units of its currency.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Money<'a> {
    #[schema(minimum = 0)]
    pub amount: i64,
    /// ISO 4217.
    #[schema(min_length = 3, max_length = 3, example = "EUR")]
    pub currency: &'a str,
}
