//! From serde's data model to text.

use std::fmt::{Display, Write as _};

use serde::Serialize;
use serde::ser::{self, Error as _, Serializer};
use serde_json::Error;

use crate::escape::{self, Escaping};

/// Appends one value.
pub struct Writer<'a>(pub &'a mut String);

/// A list or an object that has been begun. `end` is what it ends with, behind the braces of the variant it is in.
pub struct Open<'a> {
    out: &'a mut String,
    is_empty: bool,
    end: &'static str,
}

impl<'a> Writer<'a> {
    fn number(self, number: impl itoa::Integer) -> Result<(), Error> {
        self.0.push_str(itoa::Buffer::new().format(number));
        Ok(())
    }

    /// What we write rarely, in the words of serde_json.
    fn rare(self, value: &impl Serialize) -> Result<(), Error> {
        self.0.push_str(&serde_json::to_string(value)?);
        Ok(())
    }

    #[inline]
    fn open(self, begin: &str, end: &'static str) -> Result<Open<'a>, Error> {
        self.0.push_str(begin);
        Ok(Open { out: self.0, is_empty: true, end })
    }

    fn open_variant(self, variant: &'static str, begin: &str, end: &'static str) -> Result<Open<'a>, Error> {
        self.0.push('{');
        escape::quote(variant, self.0);
        self.0.push(':');
        self.open(begin, end)
    }
}

impl Open<'_> {
    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        value.serialize(Writer(self.out))
    }

    /// A field of a struct. Its name is an identifier or a word of ours: nothing in it is escaped. Inlined, so that the compiler
    /// knows how long the name is.
    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        debug_assert!(!name.contains(['"', '\\']) && !name.contains(char::is_control), "{name}");
        self.out.push_str(if self.is_empty { "\"" } else { ",\"" });
        self.is_empty = false;
        self.out.push_str(name);
        self.out.push_str("\":");
        value.serialize(Writer(self.out))
    }

    #[inline]
    fn close(self) -> Result<(), Error> {
        self.out.push_str(self.end);
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident $number:ty;)*) => {$(
        fn $method(self, value: $number) -> Result<(), Error> {
            self.number(value)
        }
    )*};
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    numbers! {
        serialize_i8 i8;
        serialize_i16 i16;
        serialize_i32 i32;
        serialize_i64 i64;
        serialize_u8 u8;
        serialize_u16 u16;
        serialize_u32 u32;
        serialize_u64 u64;
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.rare(&value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.rare(&value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        escape::quote(value, self.0);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.0.push_str("null");
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut object = self.open("{", "}")?;
        object.field(variant, value)?;
        object.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Error> {
        self.open("[", "]")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Error> {
        self.open_variant(variant, "[", "]}")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'a>, Error> {
        self.open("{", "}")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'a>, Error> {
        self.open("{", "}")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>, Error> {
        self.open_variant(variant, "{", "}}")
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push('"');
        write!(Escaping(self.0), "{value}").map_err(Error::custom)?;
        self.0.push('"');
        Ok(())
    }
}

macro_rules! lists {
    ($($kind:ident $element:ident;)*) => {$(
        impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = Error;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

lists! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! structs {
    ($($kind:ident)*) => {$(
        impl ser::$kind for Open<'_> {
            type Ok = ();
            type Error = Error;

            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

structs!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let begin = self.out.len();
        self.item(key)?;
        let key = begin + usize::from(self.out[begin..].starts_with(','));
        match self.out.as_bytes()[key] {
            b'"' => {}
            b'-' | b'0'..=b'9' | b't' | b'f' => {
                self.out.insert(key, '"');
                self.out.push('"');
            }
            _ => return Err(Error::custom("key must be a string")),
        }
        self.out.push(':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Writer(self.out))
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}
