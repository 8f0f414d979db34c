//! From plain JSON to serde's data model.
//!
//! Plain is what nearly every client sends: objects, lists, strings without escapes, and whole numbers. Everything else is
//! [`NotPlain`], also what is wrong: serde_json knows the rest of JSON, and how to say what is wrong with it.

use std::fmt::{self, Display};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::escape;

/// How deep lists and objects may be in one another. What we read is far from that.
const MAX_DEPTH: usize = 64;
/// The digits of a number at most, so that it can't be too large.
const MAX_DIGITS: usize = 18;

/// Not for us, or wrong. It does not say what is wrong: whoever asks serde_json hears it from there.
#[derive(Debug)]
pub struct NotPlain;

impl Display for NotPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not plain JSON")
    }
}

impl std::error::Error for NotPlain {}

impl de::Error for NotPlain {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

/// A text that has been read up to `at`.
pub struct Reader<'de> {
    text: &'de str,
    at: usize,
    /// Lists and objects that were begun and not ended.
    open: usize,
}

impl<'de> Reader<'de> {
    pub fn new(text: &'de str) -> Self {
        Self { text, at: 0, open: 0 }
    }

    /// Nothing but white space may follow.
    pub fn end(mut self) -> Result<(), NotPlain> {
        if self.peek().is_none() { Ok(()) } else { Err(NotPlain) }
    }

    /// The next byte that is not white space. It is not passed.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    #[inline]
    fn take(&mut self, wanted: u8) -> Result<(), NotPlain> {
        if self.peek() != Some(wanted) {
            return Err(NotPlain);
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<&'de str, NotPlain> {
        self.take(b'"')?;
        let rest = &self.text[self.at..];
        let text = &rest[..escape::plain_length(rest.as_bytes())];
        self.at += text.len();
        // Something else that ends it is a backslash, a control character or the end of everything.
        if self.text.as_bytes().get(self.at) != Some(&b'"') {
            return Err(NotPlain);
        }
        self.at += 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<u64, NotPlain> {
        self.peek();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.len() > MAX_DIGITS || digits.len() > 1 && digits.starts_with('0') {
            return Err(NotPlain);
        }
        // A fraction would follow here. Whoever reads on does not know what to do with it.
        self.at += digits.len();
        digits.parse().map_err(|_| NotPlain)
    }

    /// Whether there is another item in a list or an object. Its comma is passed, or the end.
    #[inline]
    fn has_next(&mut self, is_first: &mut bool, end: u8) -> Result<bool, NotPlain> {
        if self.peek() == Some(end) {
            self.at += 1;
            self.open -= 1;
            return Ok(false);
        }
        if std::mem::take(is_first) {
            return Ok(true);
        }
        self.take(b',')?;
        // A comma with nothing behind it is not JSON.
        if self.peek() == Some(end) { Err(NotPlain) } else { Ok(true) }
    }

    /// Reads a list or an object, all of it.
    #[inline]
    fn nested<T>(
        &mut self,
        begin: u8,
        read: impl FnOnce(Items<'_, 'de>) -> Result<T, NotPlain>,
    ) -> Result<T, NotPlain> {
        self.take(begin)?;
        let outside = self.open;
        if outside == MAX_DEPTH {
            return Err(NotPlain);
        }
        self.open += 1;
        let value = read(Items { reader: self, is_first: true })?;
        if self.open == outside { Ok(value) } else { Err(NotPlain) }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = NotPlain;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NotPlain> {
        Err(NotPlain)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_borrowed_str(self.string()?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.deserialize_str(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_u64(self.number()?)
    }

    /// `null` is rare.
    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.nested(b'[', |items| visitor.visit_seq(items))
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.nested(b'{', |items| visitor.visit_map(items))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct
        struct enum ignored_any
    }
}

/// A list or an object that has been begun.
struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = NotPlain;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, NotPlain> {
        match self.reader.has_next(&mut self.is_first, b']')? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Items<'_, 'de> {
    type Error = NotPlain;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NotPlain> {
        match self.reader.has_next(&mut self.is_first, b'}')? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NotPlain> {
        self.reader.take(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}
