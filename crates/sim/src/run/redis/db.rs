//! The data of one simulated Redis, and the commands that Rowlock and its scripts use.

use std::collections::BTreeMap;

use redis::Value;

pub type Bytes = Vec<u8>;

/// Why a command was not carried out, as Redis words it: a code, then a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

pub type Answer = Result<Value, Wrong>;

#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    /// Scores of members.
    Sorted(BTreeMap<Bytes, f64>),
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    kept: Kept,
    /// In ms since the epoch.
    ends_at: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Db {
    entries: BTreeMap<Bytes, Entry>,
    /// In ms since the epoch. Set before every command.
    pub now: i64,
}

fn wrong<T>(text: &str) -> Result<T, Wrong> {
    Err(Wrong(text.to_owned()))
}

fn wrong_type<T>() -> Result<T, Wrong> {
    wrong("WRONGTYPE Operation against a key holding the wrong kind of value")
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("")
}

fn integer(bytes: &[u8]) -> Result<i64, Wrong> {
    text(bytes).parse().or_else(|_| wrong("ERR value is not an integer or out of range"))
}

fn float(bytes: &[u8]) -> Result<f64, Wrong> {
    match text(bytes) {
        "-inf" => Ok(f64::NEG_INFINITY),
        "+inf" | "inf" => Ok(f64::INFINITY),
        other => other.parse().or_else(|_| wrong("ERR value is not a valid float")),
    }
}

fn score_text(score: f64) -> String {
    if score.fract() == 0.0 && score.abs() < 1e17 { format!("{score:.0}") } else { format!("{score}") }
}

impl Db {
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Keys that are there, in order.
    pub fn keys(&mut self) -> Vec<Bytes> {
        let now = self.now;
        self.entries.retain(|_, entry| entry.ends_at.is_none_or(|at| at > now));
        self.entries.keys().cloned().collect()
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        let was_there = self.get(key).is_some();
        self.entries.remove(key);
        was_there
    }

    fn get(&mut self, key: &[u8]) -> Option<&mut Entry> {
        if self.entries.get(key)?.ends_at.is_some_and(|at| at <= self.now) {
            self.entries.remove(key);
            return None;
        }
        self.entries.get_mut(key)
    }

    fn text_of(&mut self, key: &[u8]) -> Result<Option<&mut Bytes>, Wrong> {
        match self.get(key).map(|entry| &mut entry.kept) {
            None => Ok(None),
            Some(Kept::Text(text)) => Ok(Some(text)),
            Some(_) => wrong_type(),
        }
    }

    fn text_mut(&mut self, key: &[u8]) -> Result<&mut Bytes, Wrong> {
        match &mut self.made(key, || Kept::Text(Vec::new())).kept {
            Kept::Text(text) => Ok(text),
            _ => wrong_type(),
        }
    }

    fn made(&mut self, key: &[u8], new: impl FnOnce() -> Kept) -> &mut Entry {
        if self.get(key).is_none() {
            self.entries.insert(key.to_vec(), Entry { kept: new(), ends_at: None });
        }
        self.entries.get_mut(key).expect("it was just made")
    }

    fn hash_of(&mut self, key: &[u8]) -> Result<Option<&mut BTreeMap<Bytes, Bytes>>, Wrong> {
        match self.get(key).map(|entry| &mut entry.kept) {
            None => Ok(None),
            Some(Kept::Hash(hash)) => Ok(Some(hash)),
            Some(_) => wrong_type(),
        }
    }

    fn hash_mut(&mut self, key: &[u8]) -> Result<&mut BTreeMap<Bytes, Bytes>, Wrong> {
        match &mut self.made(key, || Kept::Hash(BTreeMap::new())).kept {
            Kept::Hash(hash) => Ok(hash),
            _ => wrong_type(),
        }
    }

    fn sorted_of(&mut self, key: &[u8]) -> Result<Option<&mut BTreeMap<Bytes, f64>>, Wrong> {
        match self.get(key).map(|entry| &mut entry.kept) {
            None => Ok(None),
            Some(Kept::Sorted(set)) => Ok(Some(set)),
            Some(_) => wrong_type(),
        }
    }

    fn sorted_mut(&mut self, key: &[u8]) -> Result<&mut BTreeMap<Bytes, f64>, Wrong> {
        match &mut self.made(key, || Kept::Sorted(BTreeMap::new())).kept {
            Kept::Sorted(set) => Ok(set),
            _ => wrong_type(),
        }
    }

    /// Members by score, and those of one score by name.
    fn ranked(&mut self, key: &[u8]) -> Result<Vec<(Bytes, f64)>, Wrong> {
        let Some(set) = self.sorted_of(key)? else { return Ok(Vec::new()) };
        let mut members: Vec<(Bytes, f64)> = set.iter().map(|(name, score)| (name.clone(), *score)).collect();
        members.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        Ok(members)
    }

    fn drop_members(&mut self, key: &[u8], gone: &[Bytes]) -> Result<i64, Wrong> {
        let Some(set) = self.sorted_of(key)? else { return Ok(0) };
        let count = gone.iter().filter(|name| set.remove(*name).is_some()).count();
        if set.is_empty() {
            self.entries.remove(key);
        }
        Ok(count as i64)
    }

    fn end_at(&mut self, key: &[u8], at: i64) -> Answer {
        let now = self.now;
        let Some(entry) = self.get(key) else { return Ok(Value::Int(0)) };
        entry.ends_at = Some(at);
        if at <= now {
            self.entries.remove(key);
        }
        Ok(Value::Int(1))
    }

    /// Carries out one command that is about data.
    pub fn run(&mut self, command: &[Bytes]) -> Answer {
        let [name, rest @ ..] = command else { return wrong("ERR no command") };
        let name = text(name).to_ascii_uppercase();
        let arity = || wrong(&format!("ERR wrong number of arguments for '{}' command", name.to_lowercase()));
        match (name.as_str(), rest) {
            ("PING", _) => Ok(Value::SimpleString("PONG".into())),
            ("TIME", _) => {
                let (seconds, micros) = (self.now / 1000, self.now % 1000 * 1000);
                let parts = [seconds.to_string(), micros.to_string()];
                Ok(Value::Array(parts.iter().map(|part| bulk(part.as_bytes())).collect()))
            }
            ("GET", [key]) => Ok(self.text_of(key)?.map_or(Value::Nil, |text| bulk(text))),
            ("MGET", keys) if !keys.is_empty() => {
                let one = |key: &Bytes| match self.text_of(key) {
                    Ok(Some(text)) => bulk(text),
                    _ => Value::Nil,
                };
                Ok(Value::Array(keys.iter().map(one).collect()))
            }
            ("SET", [key, value, options @ ..]) => self.set(key, value, options),
            ("DEL" | "UNLINK", keys) if !keys.is_empty() => {
                Ok(Value::Int(keys.iter().filter(|key| self.remove(key)).count() as i64))
            }
            ("EXISTS", keys) if !keys.is_empty() => {
                Ok(Value::Int(keys.iter().filter(|key| self.get(key).is_some()).count() as i64))
            }
            ("RENAME", [from, to]) => {
                if self.get(from).is_none() {
                    return wrong("ERR no such key");
                }
                let entry = self.entries.remove(from).expect("it is there");
                self.entries.insert(to.clone(), entry);
                Ok(Value::Okay)
            }
            ("PEXPIRE", [key, millis]) => {
                let at = self.now + integer(millis)?;
                self.end_at(key, at)
            }
            ("PEXPIREAT", [key, at]) => self.end_at(key, integer(at)?),
            ("PTTL", [key]) => {
                let now = self.now;
                Ok(Value::Int(match self.get(key) {
                    None => -2,
                    Some(entry) => entry.ends_at.map_or(-1, |at| at - now),
                }))
            }
            ("SETBIT", [key, place, bit]) => {
                let (place, bit) = (integer(place)? as usize, integer(bit)?);
                Ok(Value::Int(set_bit(self.text_mut(key)?, place, bit)))
            }
            ("SETRANGE", [key, first, value]) => {
                let first = integer(first)? as usize;
                if value.is_empty() {
                    return Ok(Value::Int(self.text_of(key)?.map_or(0, |text| text.len()) as i64));
                }
                let text = self.text_mut(key)?;
                if text.len() < first + value.len() {
                    text.resize(first + value.len(), 0);
                }
                text[first..first + value.len()].copy_from_slice(value);
                Ok(Value::Int(text.len() as i64))
            }
            ("BITFIELD", [key, steps @ ..]) => self.bit_field(key, steps),
            ("HGET", [key, field]) => {
                Ok(self.hash_of(key)?.and_then(|hash| hash.get(field)).map_or(Value::Nil, |text| bulk(text)))
            }
            ("HGETALL", [key]) => {
                let pairs = self.hash_of(key)?.into_iter().flat_map(|hash| hash.iter());
                Ok(Value::Array(pairs.flat_map(|(name, value)| [bulk(name), bulk(value)]).collect()))
            }
            ("HSET", [key, pairs @ ..]) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
                let hash = self.hash_mut(key)?;
                let add = |pair: &&[Bytes]| hash.insert(pair[0].clone(), pair[1].clone()).is_none();
                Ok(Value::Int(pairs.chunks(2).filter(add).count() as i64))
            }
            ("HINCRBY", [key, field, by]) => {
                let by = integer(by)?;
                let hash = self.hash_mut(key)?;
                let before = hash.get(field).map_or(Ok(0), |value| integer(value));
                let sum = before.or_else(|_| wrong("ERR hash value is not an integer"))? + by;
                hash.insert(field.clone(), sum.to_string().into_bytes());
                Ok(Value::Int(sum))
            }
            ("ZADD", [key, pairs @ ..]) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
                let scores = pairs.chunks(2).map(|pair| float(&pair[0])).collect::<Result<Vec<f64>, _>>()?;
                let set = self.sorted_mut(key)?;
                let names = pairs.chunks(2).map(|pair| pair[1].clone());
                Ok(Value::Int(
                    names.zip(scores).filter(|(n, s)| set.insert(n.clone(), *s).is_none()).count() as i64
                ))
            }
            ("ZREM", [key, names @ ..]) if !names.is_empty() => {
                Ok(Value::Int(self.drop_members(key, names)?))
            }
            ("ZCARD", [key]) => Ok(Value::Int(self.sorted_of(key)?.map_or(0, |set| set.len()) as i64)),
            ("ZRANGE", [key, first, last, scores @ ..]) => {
                let members = self.ranked(key)?;
                let chosen = ranks(members.len(), integer(first)?, integer(last)?);
                let with_scores =
                    scores.first().is_some_and(|word| text(word).eq_ignore_ascii_case("WITHSCORES"));
                let shown = members[chosen].iter().flat_map(|(name, score)| {
                    let score = with_scores.then(|| bulk(score_text(*score).as_bytes()));
                    std::iter::once(bulk(name)).chain(score)
                });
                Ok(Value::Array(shown.collect()))
            }
            ("ZRANGEBYSCORE", [key, least, most]) => {
                let (least, most) = (float(least)?, float(most)?);
                let members = self.ranked(key)?;
                let within = members.iter().filter(|(_, score)| *score >= least && *score <= most);
                Ok(Value::Array(within.map(|(name, _)| bulk(name)).collect()))
            }
            ("ZREMRANGEBYSCORE", [key, least, most]) => {
                let (least, most) = (float(least)?, float(most)?);
                let members = self.ranked(key)?.into_iter();
                let gone =
                    members.filter(|(_, score)| *score >= least && *score <= most).map(|(name, _)| name);
                let gone: Vec<Bytes> = gone.collect();
                Ok(Value::Int(self.drop_members(key, &gone)?))
            }
            ("ZREMRANGEBYRANK", [key, first, last]) => {
                let members = self.ranked(key)?;
                let chosen = ranks(members.len(), integer(first)?, integer(last)?);
                let gone: Vec<Bytes> = members[chosen].iter().map(|(name, _)| name.clone()).collect();
                Ok(Value::Int(self.drop_members(key, &gone)?))
            }
            (
                "GET" | "MGET" | "SET" | "DEL" | "UNLINK" | "EXISTS" | "RENAME" | "PEXPIRE" | "PEXPIREAT"
                | "PTTL" | "SETBIT" | "SETRANGE" | "BITFIELD" | "HGET" | "HGETALL" | "HSET" | "HINCRBY"
                | "ZADD" | "ZREM" | "ZCARD" | "ZRANGE" | "ZRANGEBYSCORE" | "ZREMRANGEBYSCORE"
                | "ZREMRANGEBYRANK",
                _,
            ) => arity(),
            (other, _) => panic!("the simulated Redis does not have {other}: teach it"),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[Bytes]) -> Answer {
        let word = |option: &Bytes| text(option).to_ascii_uppercase();
        let (only_if_missing, options) = match options {
            [first, rest @ ..] if word(first) == "NX" => (true, rest),
            _ => (false, options),
        };
        let ends_at = match options {
            [] => None,
            [option, millis] if word(option) == "PX" => Some(self.now + integer(millis)?),
            [option, at] if word(option) == "PXAT" => Some(integer(at)?),
            _ => return wrong("ERR syntax error"),
        };
        if matches!(options, [_, millis] if integer(millis)? <= 0) {
            return wrong("ERR invalid expire time in 'set' command");
        }
        if only_if_missing && self.get(key).is_some() {
            return Ok(Value::Nil);
        }
        if ends_at.is_some_and(|at| at <= self.now) {
            self.entries.remove(key);
            return Ok(Value::Okay);
        }
        self.entries.insert(key.to_vec(), Entry { kept: Kept::Text(value.to_vec()), ends_at });
        Ok(Value::Okay)
    }

    fn bit_field(&mut self, key: &[u8], steps: &[Bytes]) -> Answer {
        let mut before = Vec::new();
        for step in steps.chunks(4) {
            let [verb, kind, place, bit] = step else { return wrong("ERR syntax error") };
            assert!(text(verb) == "SET" && text(kind) == "u1", "the simulated Redis sets single bits only");
            let (place, bit) = (integer(place)? as usize, integer(bit)?);
            before.push(Value::Int(set_bit(self.text_mut(key)?, place, bit)));
        }
        Ok(Value::Array(before))
    }
}

/// Bits count from the highest of the first byte. Returns what was there.
fn set_bit(text: &mut Bytes, place: usize, bit: i64) -> i64 {
    if text.len() <= place / 8 {
        text.resize(place / 8 + 1, 0);
    }
    let mask = 0x80 >> (place % 8);
    let byte = &mut text[place / 8];
    let before = i64::from(*byte & mask != 0);
    if bit == 1 {
        *byte |= mask
    } else {
        *byte &= !mask
    }
    before
}

/// Ranks from one to the other, both included; those below zero count from the end.
fn ranks(length: usize, first: i64, last: i64) -> std::ops::Range<usize> {
    let length = length as i64;
    let place = |rank: i64| if rank < 0 { rank + length } else { rank };
    let (first, last) = (place(first).max(0), place(last).min(length - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}
