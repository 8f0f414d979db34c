//! A whole event in Redis: read for a node that does not know it yet, written when Redis does not have it.

use std::collections::{HashMap, HashSet};
use std::num::ParseIntError;

use redis::{Cmd, FromRedisValue, Value, cmd, pipe};
use rowlock_core::limits::MAX_SEATS_PER_EVENT;
use rowlock_core::{AreaId, EventId, HoldId, OrgId, SeatId, Time, UserId};

use super::scripts::{FINISH, FORGET};
use super::server::Server;
use super::{Unavailable, Warm};
use crate::breaker::Kind;

/// Members of the ordered set that are written with one command.
const CHUNK: usize = 1_000;
/// Holds that are read with one command: a few milliseconds of Redis, far less than a request waits for it.
const LOAD_PART: usize = 4_000;
/// How often a reader begins anew because the event has changed between two parts.
const LOAD_ATTEMPTS: usize = 4;
/// How long what a rebuild has written aside stays when the rebuild does not end, in ms.
const ASIDE_MILLIS: u64 = 60_000;
const COUNTERS: [&str; 4] = ["available", "held", "sold", "blocked"];

/// An event as of one journal sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmEvent {
    pub event: EventId,
    pub sequence: u64,
    pub seats: u32,
    /// One bit a seat by ordinal, in words as the hot tier has them.
    pub free: Vec<u64>,
    pub sold: Vec<u64>,
    /// By ordinal. What is neither free, sold nor here is blocked.
    pub held: Vec<WarmHeld>,
    /// By id.
    pub areas: Vec<WarmArea>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmHeld {
    pub ordinal: u32,
    pub hold: HoldId,
    pub user: UserId,
    pub until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmArea {
    pub area: AreaId,
    pub held: u32,
    pub sold: u32,
}

impl Warm {
    /// The event, or `None` when Redis does not have it, has something that can't be, or is changing it too fast to
    /// be read in parts.
    pub async fn load(&self, org: OrgId, event: EventId) -> Result<Option<WarmEvent>, Unavailable> {
        let base = self.keys().base(org, event);
        let Some(server) = self.most_current(&base).await? else { return Ok(None) };
        for _ in 0..LOAD_ATTEMPTS {
            let Some(mut parts) = self.first_part(server, &base).await? else { return Ok(None) };
            if !self.other_parts(server, &base, &mut parts).await? {
                continue;
            }
            return match parts.read(event) {
                Ok(found) => Ok(Some(found)),
                Err(Wrong { sequence }) => {
                    tracing::warn!(%event, sequence, "what Redis has of an event can't be, and is removed");
                    self.forget_at(org, event, &sequence).await?;
                    Ok(None)
                }
            };
        }
        Ok(None)
    }

    async fn first_part(&self, server: &Server, base: &str) -> Result<Option<Parts>, Unavailable> {
        let mut read = pipe();
        read.atomic();
        read.cmd("HGETALL").arg(format!("{base}occupancy"));
        read.cmd("GET").arg(format!("{base}availability"));
        read.cmd("GET").arg(format!("{base}sold"));
        read.add_command(part(base, 0));
        Ok(Parts::from(server.run_atomic(&read).await?))
    }

    /// The holds behind the first ones. Read in parts, because nobody else is served while Redis lists them. The
    /// projection of one sequence is always the same, so parts of one sequence fit. `false`: they are of several.
    async fn other_parts(&self, server: &Server, base: &str, parts: &mut Parts) -> Result<bool, Unavailable> {
        let mut last = parts.held.len();
        while last == LOAD_PART {
            let mut read = pipe();
            read.atomic();
            read.cmd("HGET").arg(format!("{base}occupancy")).arg("sequence");
            read.add_command(part(base, parts.held.len()));
            let answer = Value::Array(server.run_atomic(&read).await?);
            let read = FromRedisValue::from_redis_value(answer);
            let (sequence, held): (Option<String>, Vec<(String, f64)>) = read.map_err(|_| Unavailable)?;
            if sequence.as_ref() != Some(&parts.sequence) {
                return Ok(false);
            }
            last = held.len();
            parts.held.extend(held);
        }
        Ok(true)
    }

    /// Of several servers, the one whose copy is of the highest sequence.
    async fn most_current(&self, base: &str) -> Result<Option<&Server>, Unavailable> {
        if let [server] = &self.inner.servers[..] {
            return Ok(Some(server));
        }
        let ask = [cmd("HGET").arg(format!("{base}occupancy")).arg("sequence").to_owned()];
        let asked = self.inner.servers.iter().map(|server| server.run(Kind::Bulk, &ask));
        let answers = futures::future::join_all(asked).await;
        if answers.iter().all(Result::is_err) {
            return Err(Unavailable);
        }
        let sequence = |answer: Vec<Value>| <Option<u64>>::from_redis_value_ref(answer.first()?).ok()?;
        let known = answers.into_iter().zip(&self.inner.servers);
        let known = known.filter_map(|(answer, server)| Some((sequence(answer.ok()?)?, server)));
        Ok(known.max_by_key(|(sequence, _)| *sequence).map(|(_, server)| &**server))
    }

    /// Writes the event whole, its claims too, unless Redis has a newer one by now. Claims of holds that have ended
    /// since Redis last heard of the event go away. Facts that were committed meanwhile have waited in Redis and are
    /// taken up at the end. `now` is the truth's.
    pub async fn save(&self, org: OrgId, event: &WarmEvent, now: Time) -> Result<(), Unavailable> {
        let known = self.holds(org, event.event).await?;
        self.restore(org, event.event, event.sequence, now, &event.held).await?;
        let base = self.keys().base(org, event.event);
        let aside = format!("{base}seat_holds:{}", self.chance().uuid());
        for chunk in event.held.chunks(CHUNK) {
            let mut add = cmd("ZADD");
            add.arg(&aside);
            for held in chunk {
                add.arg(held.until.millis()).arg(member(event.event, held));
            }
            let expire = cmd("PEXPIRE").arg(&aside).arg(ASIDE_MILLIS).to_owned();
            self.everywhere(Kind::Bulk, vec![add, expire]).await?;
        }
        let finished = self.everywhere(Kind::Bulk, vec![self.finish(&base, &aside, event)]).await?;
        let replaced = |answer: &Vec<Value>| matches!(answer[..], [Value::Int(1)]);
        let ended = if finished.iter().any(replaced) {
            // What Redis knew was older than this, so what is not in this has ended.
            not_in(known.iter().map(|hold| &hold.held), &event.held)
        } else {
            // Somebody has written a newer one meanwhile. What is not in that has ended, and its claim is here again.
            let newer: Vec<WarmHeld> =
                self.holds(org, event.event).await?.into_iter().map(|hold| hold.held).collect();
            not_in(&event.held, &newer)
        };
        self.remove(org, event.event, &ended).await?;
        self.catch_up(org, event.event).await
    }

    fn finish(&self, base: &str, aside: &str, event: &WarmEvent) -> Cmd {
        let mut call = FINISH.call(2);
        call.arg(base).arg(aside).arg(event.sequence).arg(self.keep_millis());
        call.arg(to_redis(&event.free, event.seats)).arg(to_redis(&event.sold, event.seats));
        let (available, sold, held) = (ones(&event.free), ones(&event.sold), event.held.len() as u32);
        let counts = [available, held, sold, event.seats.saturating_sub(available + held + sold)];
        for (name, count) in COUNTERS.iter().zip(counts) {
            call.arg(name).arg(count);
        }
        for area in &event.areas {
            call.arg(format!("area:{}:held", area.area)).arg(area.held);
            call.arg(format!("area:{}:sold", area.area)).arg(area.sold);
        }
        call
    }

    /// Removes the copy of an event, not its claims.
    pub async fn forget(&self, org: OrgId, event: EventId) -> Result<(), Unavailable> {
        self.forget_at(org, event, "").await
    }

    async fn forget_at(&self, org: OrgId, event: EventId, sequence: &str) -> Result<(), Unavailable> {
        let call = FORGET.call(1).arg(self.keys().base(org, event)).arg(sequence).to_owned();
        self.everywhere(Kind::Bulk, vec![call]).await.map(drop)
    }

    /// Keeps how the event is laid out, in whatever form the caller has it.
    pub async fn save_layout(
        &self,
        org: OrgId,
        event: EventId,
        version: u64,
        bytes: &[u8],
    ) -> Result<(), Unavailable> {
        let key = format!("{}layout", self.keys().base(org, event));
        let stored = [&version.to_be_bytes()[..], bytes].concat();
        let set = cmd("SET").arg(key).arg(stored).arg("PX").arg(self.keep_millis()).to_owned();
        self.everywhere(Kind::Bulk, vec![set]).await.map(drop)
    }

    /// The layout and its version.
    pub async fn load_layout(
        &self,
        org: OrgId,
        event: EventId,
    ) -> Result<Option<(u64, Vec<u8>)>, Unavailable> {
        let get = cmd("GET").arg(format!("{}layout", self.keys().base(org, event))).to_owned();
        let answers = self.everywhere(Kind::Bulk, vec![get]).await?;
        let stored = answers.into_iter().flatten().filter_map(|answer| {
            let stored: Option<Vec<u8>> = FromRedisValue::from_redis_value(answer).ok()?;
            let stored = stored?;
            let (version, bytes) = stored.split_first_chunk::<8>()?;
            Some((u64::from_be_bytes(*version), bytes.to_vec()))
        });
        Ok(stored.max_by_key(|(version, _)| *version))
    }
}

fn not_in<'h>(some: impl IntoIterator<Item = &'h WarmHeld>, others: &[WarmHeld]) -> Vec<WarmHeld> {
    let others: HashSet<_> = others.iter().map(|held| (held.ordinal, held.hold)).collect();
    some.into_iter().filter(|held| !others.contains(&(held.ordinal, held.hold))).cloned().collect()
}

fn part(base: &str, first: usize) -> Cmd {
    let last = first + LOAD_PART - 1;
    cmd("ZRANGE").arg(format!("{base}seat_holds")).arg(first).arg(last).arg("WITHSCORES").to_owned()
}

/// `S:H:U`. A user may have colons in it, so it comes last.
pub(super) fn member(event: EventId, held: &WarmHeld) -> String {
    format!("{}:{}:{}", SeatId::of(event, held.ordinal), held.hold, held.user)
}

pub(super) fn read_member(event: EventId, member: &str, score: f64) -> Option<WarmHeld> {
    let mut parts = member.splitn(3, ':');
    let seat: SeatId = parts.next()?.parse().ok()?;
    let hold: HoldId = parts.next()?.parse().ok()?;
    let user = UserId::new(parts.next()?).ok()?;
    Some(WarmHeld { ordinal: seat.ordinal_in(event)?, hold, user, until: Time::from_millis(score as i64) })
}

/// The answers to the reads of [`Warm::load`].
pub(super) struct Parts {
    pub occupancy: HashMap<String, String>,
    pub free: Vec<u8>,
    pub sold: Vec<u8>,
    pub held: Vec<(String, f64)>,
    pub sequence: String,
}

/// What is stored contradicts itself.
pub(super) struct Wrong {
    sequence: String,
}

impl Parts {
    /// `None`: Redis does not have the event.
    fn from(answer: Vec<Value>) -> Option<Self> {
        type Answer = (HashMap<String, String>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, f64)>);
        let read: Answer = FromRedisValue::from_redis_value(Value::Array(answer)).ok()?;
        let sequence = read.0.get("sequence")?.clone();
        let (free, sold) = (read.1.unwrap_or_default(), read.2.unwrap_or_default());
        Some(Self { occupancy: read.0, free, sold, held: read.3, sequence })
    }

    pub fn read(self, event: EventId) -> Result<WarmEvent, Wrong> {
        self.parse(event).ok_or(Wrong { sequence: self.sequence })
    }

    fn parse(&self, event: EventId) -> Option<WarmEvent> {
        let count = |name: &str| self.occupancy.get(name).map_or(Ok(0), |text| text.parse::<u32>()).ok();
        let [available, held_count, sold_count, blocked] = COUNTERS.map(count);
        let (available, held_count, sold_count) = (available?, held_count?, sold_count?);
        let seats =
            u64::from(available) + u64::from(held_count) + u64::from(sold_count) + u64::from(blocked?);
        let seats = u32::try_from(seats).ok().filter(|seats| *seats <= MAX_SEATS_PER_EVENT)?;
        let (free, sold) = (from_redis(&self.free, seats)?, from_redis(&self.sold, seats)?);
        let held = self.held.iter().map(|(text, score)| read_member(event, text, *score));
        let mut held: Vec<WarmHeld> = held.collect::<Option<_>>()?;
        held.sort_unstable_by_key(|held| held.ordinal);
        let is_set = |bits: &[u64], i: u32| bits[i as usize / 64] >> (i % 64) & 1 == 1;
        let fits = |held: &WarmHeld| {
            held.ordinal < seats && !is_set(&free, held.ordinal) && !is_set(&sold, held.ordinal)
        };
        let right = ones(&free) == available
            && ones(&sold) == sold_count
            && held.len() == held_count as usize
            && held.windows(2).all(|two| two[0].ordinal < two[1].ordinal)
            && held.iter().all(fits)
            && free.iter().zip(&sold).all(|(free, sold)| free & sold == 0);
        let areas = self.areas()?;
        let sequence = self.sequence.parse().ok()?;
        right.then_some(WarmEvent { event, sequence, seats, free, sold, held, areas })
    }

    fn areas(&self) -> Option<Vec<WarmArea>> {
        let mut areas: HashMap<AreaId, (u32, u32)> = HashMap::new();
        for (name, count) in &self.occupancy {
            let Some((area, which)) = name.strip_prefix("area:").and_then(|rest| rest.split_once(':')) else {
                continue;
            };
            let counts = areas.entry(area.parse().ok()?).or_default();
            let count: Result<u32, ParseIntError> = count.parse();
            match which {
                "held" => counts.0 = count.ok()?,
                "sold" => counts.1 = count.ok()?,
                _ => return None,
            }
        }
        let area = |(area, (held, sold))| WarmArea { area, held, sold };
        let mut areas: Vec<WarmArea> = areas.into_iter().map(area).collect();
        areas.sort_unstable_by_key(|area| area.area);
        Some(areas)
    }
}

fn ones(bits: &[u64]) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}

/// Redis counts the bits of a byte from its highest one.
fn to_redis(bits: &[u64], seats: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        bits.iter().flat_map(|word| word.to_le_bytes()).map(|byte| byte.reverse_bits()).collect();
    bytes.resize(seats.div_ceil(8) as usize, 0);
    bytes
}

/// `None` when there are bits of seats that don't exist.
fn from_redis(bytes: &[u8], seats: u32) -> Option<Vec<u64>> {
    let mut words = vec![0u64; seats.div_ceil(64) as usize];
    for (i, byte) in bytes.iter().enumerate() {
        if *byte != 0 {
            *words.get_mut(i / 8)? |= u64::from(byte.reverse_bits()) << (i % 8 * 8);
        }
    }
    let beyond = words.last().copied().unwrap_or(0).checked_shr(seats % 64).unwrap_or(0);
    (seats.is_multiple_of(64) || beyond == 0).then_some(words)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn bitmaps_are_the_same_both_ways() {
        for seats in [0u32, 1, 7, 8, 63, 64, 65, 200] {
            let mut bits = vec![0u64; seats.div_ceil(64) as usize];
            (0..seats).filter(|i| i % 3 == 0).for_each(|i| bits[i as usize / 64] |= 1 << (i % 64));
            let bytes = to_redis(&bits, seats);
            assert_eq!(bytes.len(), seats.div_ceil(8) as usize);
            assert_eq!(from_redis(&bytes, seats), Some(bits));
        }
        assert_eq!(to_redis(&[1], 1), [0b1000_0000]);
        assert_eq!(from_redis(&[0b0000_0001], 7), None, "a bit of a seat that does not exist");
    }

    #[test]
    fn a_user_may_have_colons() {
        let event = EventId::from_uuid(Uuid::from_u128(5));
        let held = WarmHeld {
            ordinal: 3,
            hold: HoldId::from_uuid(Uuid::from_u128(9)),
            user: UserId::new("auth:0:7").unwrap(),
            until: Time::from_millis(1_700_000_000_123),
        };
        let text = member(event, &held);
        assert_eq!(read_member(event, &text, 1_700_000_000_123.0), Some(held));
    }
}
