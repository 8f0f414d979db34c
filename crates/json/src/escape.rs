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

/// Looks at many bytes at a time, at some of them perhaps twice.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    if let Some(last) = text.last_chunk() {
        let (chunks, _) = text.as_chunks();
        return chunks.iter().fold(odd_bytes(last), |odd, chunk| odd | odd_bytes(chunk)) == 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return odd_bits(u64::from_le_bytes(*first)) | odd_bits(u64::from_le_bytes(*last)) == 0;
    }
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            odd_bits(u64::from(first) << 32 | u64::from(last)) == 0
        }
        _ => !text.iter().any(|byte| is_odd(*byte)),
    }
}

/// How many bytes there are before the first that is odd.
#[inline]
pub fn plain_length(text: &[u8]) -> usize {
    let (chunks, rest) = text.as_chunks();
    for (i, chunk) in chunks.iter().enumerate() {
        let odd = odd_bytes(chunk);
        if odd != 0 {
            return i * 16 + odd.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest.iter().position(|byte| is_odd(*byte)).unwrap_or(rest.len());
    chunks.len() * 16 + plain
}

/// The bytes that are odd as 255, the others as 0. Written so that the compiler does all sixteen at once.
#[inline]
fn odd_bytes(chunk: &[u8; 16]) -> u128 {
    u128::from_le_bytes(chunk.map(|byte| if is_odd(byte) { u8::MAX } else { 0 }))
}

/// The highest bit of at least one byte is set when something in them is odd, and none when nothing is.
#[inline]
fn odd_bits(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // A byte less than another has its highest bit set when that is taken from it. It may borrow from the next byte, which does not
    // matter: then there is something odd already. Bytes that had that bit before are not ASCII and not odd.
    let less_than = |word: u64, than: u8| word.wrapping_sub(EACH * than as u64) & !word;
    let (quote, backslash) = (word ^ (EACH * b'"' as u64), word ^ (EACH * b'\\' as u64));
    (less_than(word, b' ') | less_than(quote, 1) | less_than(backslash, 1)) & (EACH << 7)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_odd_is_found_wherever_it_is() {
        for length in 0..=40 {
            assert!(is_plain(&vec![b'a'; length]));
            assert!(is_plain(&vec![0xe9; length]), "what is not ASCII needs no escape");
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'~'; length];
                    text[at] = byte;
                    assert_eq!(is_plain(&text), !is_odd(byte), "{byte} at {at} of {length}");
                    let plain = if is_odd(byte) { at } else { length };
                    assert_eq!(plain_length(&text), plain, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
