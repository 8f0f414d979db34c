//! The simulated Redis and a real one do the same, command by command and script by script.

use redis::{Cmd, Connection, RedisResult, Script, Value};
use rowlock_dev::redis::Redis;
use rowlock_sim::run::clock::Clock;
use rowlock_sim::run::dice::Dice;
use rowlock_sim::run::redis::SimRedis;

const COMMANDS: usize = 4_000;

const SCRIPTS: [&str; 7] = [
    include_str!("../../../registry/src/warm/scripts/apply.lua"),
    include_str!("../../../registry/src/warm/scripts/claim.lua"),
    include_str!("../../../registry/src/warm/scripts/release.lua"),
    include_str!("../../../registry/src/warm/scripts/heal.lua"),
    include_str!("../../../registry/src/warm/scripts/restore.lua"),
    include_str!("../../../registry/src/warm/scripts/finish.lua"),
    include_str!("../../../registry/src/warm/scripts/forget.lua"),
];

const PREFIX: &str = "01900000-0000-8000-8000-0000";

struct Author {
    dice: Dice,
    sequence: u64,
    facts: u64,
}

type Words = Vec<String>;

impl Author {
    fn words(&self, words: &[&str]) -> Words {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn key(&self, kind: &str) -> String {
        format!("{kind}{}", self.dice.index(3))
    }

    fn number(&self) -> String {
        self.dice.between(0..=40).to_string()
    }

    fn hold(&self) -> String {
        format!("01900000-0000-7000-8000-00000000000{}", self.dice.index(4))
    }

    /// A key of a seat as claims have it.
    fn seat(&self) -> String {
        format!("base:seat:{PREFIX}{:08x}", self.dice.index(6))
    }

    fn value(&self) -> String {
        let (hold, sequence) = (self.hold(), self.number());
        match self.dice.index(3) {
            0 => format!(r#"{{"hold":"{hold}","user":"ann","expires_at":5,"sequence":{sequence}}}"#),
            1 => format!(r#"{{"token":"{hold}","user":"bob","pending":true}}"#),
            _ => "nonsense".into(),
        }
    }

    fn next(&mut self) -> Words {
        let (text, hash, set) = (self.key("text"), self.key("hash"), self.key("set"));
        let (a, b, c) = (self.number(), self.number(), self.number());
        match self.dice.index(34) {
            0 => self.words(&["GET", &text]),
            1 => self.words(&["SET", &text, &a]),
            2 => self.words(&["SET", &text, &a, "PX", "1000000"]),
            3 => self.words(&["MGET", &text, &self.key("text"), &set]),
            4 => self.words(&["DEL", &text, &self.key("hash")]),
            5 => self.words(&["UNLINK", &set]),
            6 => self.words(&["EXISTS", &text, &hash, &set]),
            7 => self.words(&["RENAME", &set, &self.key("set")]),
            8 => self.words(&["PEXPIRE", &hash, "1000000"]),
            9 => self.words(&["PEXPIREAT", &set, "1"]),
            10 => self.words(&["SETBIT", &text, &a, "1"]),
            11 => self.words(&["SETRANGE", &text, &a, "xyz"]),
            12 => self.words(&["BITFIELD", &text, "SET", "u1", &a, "1", "SET", "u1", &b, "0"]),
            13 => self.words(&["HGET", &hash, &a]),
            14 => self.words(&["HSET", &hash, &a, &b, &c, &a]),
            15 => self.words(&["HINCRBY", &hash, &a, "-3"]),
            16 => self.words(&["ZADD", &set, &a, &b, &c, &a]),
            17 => self.words(&["ZREM", &set, &a, &b]),
            18 => self.words(&["ZCARD", &set]),
            19 => self.words(&["ZRANGE", &set, "0", "-1", "WITHSCORES"]),
            20 => self.words(&["ZRANGE", &set, "1", "2"]),
            21 => self.words(&["ZRANGEBYSCORE", &set, &a, &b]),
            22 => self.words(&["ZREMRANGEBYSCORE", &set, "-inf", &a]),
            23 => self.words(&["ZREMRANGEBYRANK", &set, "0", "-3"]),
            24 => self.words(&["HSET", &text, "a", "b"]),
            25 => self.script(
                1,
                &[self.seat(), self.seat()],
                &[r#"{"token":"t","user":"ann""#.into(), "ann".into(), "900000".into()],
            ),
            26 => self.script(2, &[self.seat()], &[format!(r#"{{"hold":"{}""#, self.hold())]),
            27 => self.script(3, &[self.seat(), self.seat()], &[self.value(), self.value()]),
            28 => self.script(4, &[self.seat()], &[a, self.value(), "900000".into()]),
            29 => self.words(&["SET", &self.seat(), &self.value(), "NX", "PX", "900000"]),
            30 if self.dice.permille(200) => self.script(6, &["base:".into()], &[String::new()]),
            31 if self.dice.permille(200) => {
                let counters =
                    ["available", "6", "held", "0", "sold", "0", "blocked", "0"].map(str::to_owned);
                let mut args = vec![self.sequence.to_string(), "900000".into(), "\u{3f}".into(), "\0".into()];
                args.extend(counters);
                self.script(5, &["base:".into(), "aside".into()], &args)
            }
            _ => self.apply(),
        }
    }

    fn script(&self, number: usize, keys: &[String], args: &[String]) -> Words {
        let hash = Script::new(SCRIPTS[number]).get_hash().to_owned();
        let mut words = vec!["EVALSHA".into(), hash, keys.len().to_string()];
        words.extend(keys.iter().cloned().chain(args.iter().cloned()));
        words
    }

    /// One or two facts: the next, one from before, or one that comes too early.
    fn apply(&mut self) -> Words {
        let mut args: Words = [PREFIX, "20", "3", "900000"].map(str::to_owned).to_vec();
        for _ in 0..self.dice.between(1..=2) {
            let sequence = match self.dice.index(5) {
                0 => self.sequence + 2,
                1 => self.sequence.saturating_sub(1).max(1),
                _ => {
                    self.sequence += 1;
                    self.sequence
                }
            };
            let kinds =
                ["take", "more", "move", "free", "sell", "cancel", "block", "unblock", "other", "area"];
            let (kind, hold) = (*self.dice.pick(&kinds), self.hold());
            let head = format!(r#"{{"hold":"{hold}","user":"ann""#);
            let seats = format!("{:08x}{:08x}", self.dice.index(3), 3 + self.dice.index(3));
            // Facts that are alike would differ by their times only, and those differ here and there.
            self.facts += 1;
            let user = format!("ann{}", self.facts);
            let nine = [&sequence.to_string(), kind, &hold, &user, &head, "900000", "7", &seats, "floor=2"];
            args.extend(nine.map(str::to_owned));
        }
        self.script(0, &["base:".into()], &args)
    }
}

fn real(connection: &mut Connection, words: &[String]) -> RedisResult<Value> {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.query(connection)
}

/// What an answer says, without the times that differ and the order that Redis does not promise.
fn shown(words: &[String], answer: &RedisResult<Value>) -> String {
    let text = match answer {
        Ok(Value::Array(items)) if words[0] == "HGETALL" => {
            let mut pairs: Vec<String> =
                items.chunks(2).map(|pair| readable(&pair[0]) + &readable(&pair[1])).collect();
            pairs.sort();
            pairs.join(" ")
        }
        Ok(value) => readable(value),
        Err(error) => format!("error {:?}", error.code()),
    };
    without_times(&text)
}

fn readable(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Array(items) => format!("[{}]", items.iter().map(readable).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// Claims and facts carry the time of the server, in milliseconds: thirteen digits.
fn without_times(text: &str) -> String {
    let mut shown = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        shown.push_str(if digits.len() == 13 { "TIME" } else { &digits });
        digits.clear();
        shown.push(c);
    }
    shown
}

#[test]
fn both_do_the_same() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _inside = runtime.enter();
    let server = Redis::start().expect("a Redis");
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let simulated = SimRedis::new(0, Clock::start());
    let bytes = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
    let mut both = |words: &[String]| {
        let (there, here) = (real(&mut connection, words), simulated.run(&[bytes(words)]).remove(0));
        assert_eq!(shown(words, &here), shown(words, &there), "{words:?}\nhere {here:?}\nthere {there:?}");
    };
    for script in SCRIPTS {
        both(&["SCRIPT".into(), "LOAD".into(), script.into()]);
    }
    let mut author = Author { dice: Dice::new(1), sequence: 0, facts: 0 };
    for _ in 0..COMMANDS {
        both(&author.next());
        let base = |name: &str| format!("base:{name}");
        both(&["HGETALL".into(), base("occupancy")]);
        both(&["ZRANGE".into(), base("seat_holds"), "0".into(), "-1".into(), "WITHSCORES".into()]);
        both(&["ZRANGE".into(), base("ahead"), "0".into(), "-1".into()]);
        both(&["GET".into(), base("availability")]);
        both(&["GET".into(), author.seat()]);
    }
}
