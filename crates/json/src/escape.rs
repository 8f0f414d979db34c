//! Strings and what must be escaped in them.

use std::fmt;

/// Appends `text` in quotes.
#[inline]
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    append(text, out);
    out.push('"');
}

#[inline]
pub fn append(text: &str, out: &mut String) {
    if is_plain(text.as_bytes()) {
        out.push_str(text);
    } else {
        append_escaped(text, out);
    }
}

const fn is_odd(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Looks at all bytes without stopping early: so the compiler can look at many at a time.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    !text.iter().fold(false, |odd, byte| odd | is_odd(*byte))
}

#[cold]
fn append_escaped(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_odd) {
        out.push_str(&rest[..at]);
        let odd = rest.as_bytes()[at];
        match odd {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => {
                const HEX: [char; 16] =
                    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
                out.push_str("\\u00");
                out.extend([HEX[usize::from(odd >> 4)], HEX[usize::from(odd & 0xf)]]);
            }
        }
        // What is odd is ASCII, so the next character begins behind it.
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Takes what is formatted, piece by piece.
pub struct Escaping<'a>(pub &'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        append(piece, self.0);
        Ok(())
    }
}
