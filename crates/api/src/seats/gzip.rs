//! gzip, put together from parts of which the large one was compressed before.
//!
//! A deflate stream may be cut where it was flushed. So the part of a map that never changes is compressed once, and a
//! request compresses the statuses alone; the checksum of the whole is computed from those of the parts.

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Magic, deflate, no flags, no time, no hints, unknown system.
const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The first part of a gzip file, compressed, ready for more.
#[derive(Clone, Debug)]
pub struct Part {
    bytes: Bytes,
    checksum: crc32fast::Hasher,
}

/// Whether the client takes gzip (RFC 9110, 12.5.3).
pub fn accepted(headers: &HeaderMap) -> bool {
    let given = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut by_star = false;
    for item in given.flat_map(|value| value.split(',')) {
        let mut words = item.split(';').map(str::trim);
        let coding = words.next().unwrap_or("");
        let quality = words.find_map(|word| word.strip_prefix("q=").or(word.strip_prefix("Q=")));
        let wanted = quality.is_none_or(|quality| quality.parse::<f32>().is_ok_and(|quality| quality > 0.0));
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return wanted;
        }
        by_star |= coding == "*" && wanted;
    }
    by_star
}

/// Begins a file. Worth a thorough compression: it is kept.
pub fn begin(text: &[u8]) -> Part {
    let mut bytes = HEADER.to_vec();
    deflate(text, Compression::default(), FlushCompress::Full, &mut bytes);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(text);
    Part { bytes: bytes.into(), checksum }
}

/// Ends a file that was begun.
pub fn finish(part: &Part, part_length: usize, rest: &[u8]) -> Vec<Bytes> {
    let mut bytes = Vec::with_capacity(rest.len() / 8 + 64);
    deflate(rest, Compression::fast(), FlushCompress::Finish, &mut bytes);
    let mut rest_checksum = crc32fast::Hasher::new();
    rest_checksum.update(rest);
    let mut checksum = part.checksum.clone();
    checksum.combine(&rest_checksum);
    bytes.extend_from_slice(&checksum.finalize().to_le_bytes());
    bytes.extend_from_slice(&((part_length + rest.len()) as u32).to_le_bytes());
    vec![part.bytes.clone(), bytes.into()]
}

/// A whole file at once.
pub fn whole(text: &[u8]) -> Vec<Bytes> {
    finish(&begin(&[]), 0, text)
}

fn deflate(text: &[u8], level: Compression, flush: FlushCompress, out: &mut Vec<u8>) {
    let mut deflate = Compress::new(level, false);
    loop {
        out.reserve(8 * 1024);
        let read = deflate.total_in() as usize;
        let status = deflate.compress_vec(&text[read..], out, flush).expect("deflate takes any bytes");
        let all_read = deflate.total_in() as usize == text.len();
        match status {
            Status::StreamEnd => return,
            // A flush is complete when everything was read and there was room to spare.
            _ if flush != FlushCompress::Finish && all_read && out.len() < out.capacity() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unzip(chunks: &[Bytes]) -> Vec<u8> {
        let joined: Vec<u8> = chunks.concat();
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&joined[..]).read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn the_parts_are_one_file() {
        let first: Vec<u8> =
            (0..300_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for length in [0, 1, 100, 65_535, first.len()] {
            let part = begin(&first[..length]);
            for rest in [&b""[..], b"x", &first[..200_000]] {
                let expected = [&first[..length], rest].concat();
                assert_eq!(unzip(&finish(&part, length, rest)), expected);
            }
        }
        assert_eq!(unzip(&whole(b"hello")), b"hello");
    }

    #[test]
    fn gzip_is_used_where_it_is_welcome() {
        let accepts = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, http::HeaderValue::from_static(text));
            accepted(&headers)
        };
        for yes in ["gzip", "br, gzip;q=0.5", "*", "x-gzip", "deflate, *;q=0.1", "GZIP", "gzip; q=1.0"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "br, gzip;q=0.0, *", "*;q=0", "gzip;q=x"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepted(&HeaderMap::new()));
    }
}
