//! Lists with bounds and objects that are objects.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A list of between `MIN` and `MAX` items. Reading stops at the first one too many.
#[derive(Clone, Debug)]
pub struct List<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader::<T, MIN, MAX>(PhantomData)).map(Self)
    }
}

struct Reader<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Visitor<'de> for Reader<T, MIN, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        // Room for what most requests name, so that it does not grow item by item.
        let mut list = Vec::with_capacity(MAX.min(4));
        while let Some(item) = items.next_element()? {
            if list.len() == MAX {
                return Err(de::Error::custom(format_args!("must have at most {MAX} items")));
            }
            list.push(item);
        }
        if list.len() < MIN {
            return Err(de::Error::custom(format_args!("must have at least {MIN} items")));
        }
        Ok(list)
    }
}

/// Reads a bounded list from a sequence that another visitor was given.
pub fn read_list<'de, T: Deserialize<'de>, A: SeqAccess<'de>, const MIN: usize, const MAX: usize>(
    items: A,
) -> Result<Vec<T>, A::Error> {
    Reader::<T, MIN, MAX>(PhantomData).visit_seq(items)
}

impl<T: PartialSchema, const MIN: usize, const MAX: usize> PartialSchema for List<T, MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let mut array = ArrayBuilder::new().items(T::schema()).max_items(Some(MAX));
        if MIN > 0 {
            array = array.min_items(Some(MIN));
        }
        array.build().into()
    }
}

impl<T: PartialSchema, const MIN: usize, const MAX: usize> ToSchema for List<T, MIN, MAX> {}

/// A JSON object. Without this a list of the fields' values would be taken for one, in the order of our source.
#[derive(Clone, Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Reader(PhantomData))
    }
}

impl<T: PartialSchema> PartialSchema for Object<T> {
    fn schema() -> RefOr<Schema> {
        T::schema()
    }
}

impl<T: PartialSchema> ToSchema for Object<T> {}
