//! Inputs made of other inputs. Not as clever as libFuzzer, which sees what the code does with them, but it runs anywhere.

use rand::Rng;
use rand::rngs::StdRng;

const LONGEST: usize = 4096;
/// Words that readers of text stumble over.
const WORDS: [&[u8]; 24] = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"4294967296",
    b"9223372036854775808",
    b"0.5",
    b"\"\"",
    b"{}",
    b"[]",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xf0\x9f\x8e\xad",
    b"%00",
    b"&",
    b"=",
    b"\n",
    b"\0",
    b"..",
    b"'",
    b"\"",
    b",",
];

/// A new input from one or two of the others.
pub fn mutate(inputs: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = pick(inputs, random).to_vec();
    for _ in 0..random.random_range(1..=6) {
        change(&mut bytes, inputs, random);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn pick<'a>(inputs: &'a [Vec<u8>], random: &mut StdRng) -> &'a [u8] {
    match inputs.len() {
        0 => &[],
        count => &inputs[random.random_range(0..count)],
    }
}

fn change(bytes: &mut Vec<u8>, inputs: &[Vec<u8>], random: &mut StdRng) {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(1..=16)).min(bytes.len());
    match random.random_range(0..9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = random.random(),
        2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(if random.random() { 1 } else { 255 }),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.insert(at, random.random()),
        5 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        6 => {
            let word = WORDS[random.random_range(0..WORDS.len())];
            bytes.splice(at..end, word.iter().copied());
        }
        7 => {
            let other = pick(inputs, random);
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => bytes.truncate(at),
    }
}
