//! Following commits: claims are confirmed or end, and the projection takes the next facts.

use std::fmt::Write;

use redis::{Cmd, FromRedisValue, Value};
use rowlock_core::booking::{Admits, Booking};
use rowlock_core::hold::{HeldArea, HeldSeat};
use rowlock_core::{EventId, Fact, OrgId, SeatId, Stream, Time};
use rustc_hash::FxHashMap;

use super::claim::head;
use super::scripts::APPLY;
use super::{Unavailable, Warm};
use crate::breaker::Kind;

/// Facts that may wait in Redis for the ones before them. More than a rebuild of the largest event lets pass.
pub(super) const MAX_AHEAD: u64 = 16_384;
/// Seats that the facts of one script call may name together, so that no script keeps others waiting for long. Of those facts that
/// waited for another, a call takes up as many again.
const MAX_SEATS_PER_CALL: usize = 256;

/// Committed facts of one stream, in sequence. The facts of a whole commit belong together: they cost one call.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    pub org: OrgId,
    pub stream: Stream,
    pub facts: Vec<(u64, &'a Fact)>,
}

/// How the copy of an event in Redis stands after facts were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is of this sequence.
    Current(u64),
    /// It is of this sequence, and later facts wait for one that has not come.
    Waiting(u64),
    /// Redis does not have the event. Somebody has to [`Warm::save`] it.
    Missing,
}

impl Warm {
    /// Tells Redis, and over it the other nodes, what was committed: all in one go. `now` is the truth's.
    ///
    /// The answer has an entry for each batch of an event, in the order given. With several servers it is that of
    /// the one that is furthest behind of those that answered.
    pub async fn apply(&self, now: Time, batches: &[Batch<'_>]) -> Result<Vec<Applied>, Unavailable> {
        let mut commands = Vec::new();
        let mut last_of_event = Vec::new();
        for batch in batches {
            if let Stream::Event(event) = batch.stream {
                commands.extend(self.apply_commands(batch.org, event, now, &batch.facts));
                last_of_event.push(commands.len() - 1);
            }
        }
        commands.extend(batches.iter().map(|batch| self.announcement(batch)));
        let answers = self.everywhere(Kind::Bulk, commands).await?;
        let worst = |place: &usize| {
            let of_servers = answers.iter().map(|answers| Applied::read(&answers[*place]));
            of_servers.min_by_key(|applied| applied.rank()).unwrap_or(Applied::Missing)
        };
        Ok(last_of_event.iter().map(worst).collect())
    }

    /// Calls of the script for the facts of an event: one, or several for facts about very many seats.
    fn apply_commands(&self, org: OrgId, event: EventId, now: Time, facts: &[(u64, &Fact)]) -> Vec<Cmd> {
        let mut calls = vec![self.apply_call(org, event)];
        let mut seats = 0;
        for (sequence, fact) in facts {
            let step = Step::of(fact);
            if seats > 0 && seats + step.seats.len() > MAX_SEATS_PER_CALL {
                calls.push(self.apply_call(org, event));
                seats = 0;
            }
            seats += step.seats.len().max(1);
            let lives = step.expires_at.map_or(0, |at| at.millis_since(now) as u64 + self.grace_millis());
            let expires_at = step.expires_at.map_or(0, Time::millis);
            let call = calls.last_mut().expect("there is a call");
            call.arg(*sequence).arg(step.kind).arg(&step.hold).arg(step.user).arg(&step.head);
            call.arg(lives).arg(expires_at).arg(hex(&step.seats)).arg(&step.areas);
        }
        calls
    }

    fn apply_call(&self, org: OrgId, event: EventId) -> Cmd {
        let mut call = APPLY.call(1);
        call.arg(self.keys().base(org, event)).arg(SeatId::prefix(event));
        call.arg(MAX_AHEAD).arg(MAX_SEATS_PER_CALL).arg(self.keep_millis());
        call
    }

    /// Takes up what waited while the event was rebuilt.
    pub(super) async fn catch_up(&self, org: OrgId, event: EventId) -> Result<(), Unavailable> {
        let mut before = Vec::new();
        loop {
            let answers = self.everywhere(Kind::Bulk, vec![self.apply_call(org, event)]).await?;
            let now: Vec<Applied> = answers.iter().map(|answers| Applied::read(&answers[0])).collect();
            // Where nothing has moved, a fact is missing that has to come first.
            if now == before || !now.iter().any(|applied| matches!(applied, Applied::Waiting(_))) {
                return Ok(());
            }
            before = now;
        }
    }

    pub(super) fn grace_millis(&self) -> u64 {
        self.inner.options.grace.as_millis() as u64
    }

    pub(super) fn keep_millis(&self) -> u64 {
        self.inner.options.keep.as_millis() as u64
    }
}

impl Applied {
    fn read(answer: &Value) -> Self {
        let read: Result<(i64, u64), _> = FromRedisValue::from_redis_value_ref(answer);
        match read {
            Ok((at, 0)) if at >= 0 => Applied::Current(at as u64),
            Ok((at, _)) if at >= 0 => Applied::Waiting(at as u64),
            _ => Applied::Missing,
        }
    }

    fn rank(self) -> (u8, u64) {
        match self {
            Applied::Missing => (0, 0),
            Applied::Waiting(at) => (1, at),
            Applied::Current(at) => (2, at),
        }
    }
}

/// A fact as the script takes it.
#[derive(Default)]
struct Step<'a> {
    kind: &'static str,
    hold: String,
    user: &'a str,
    /// How the value of a seat's key begins.
    head: String,
    expires_at: Option<Time>,
    seats: Vec<u32>,
    areas: String,
}

impl<'a> Step<'a> {
    fn of(fact: &'a Fact) -> Self {
        match fact {
            Fact::HoldCreated(hold) => Self {
                kind: "take",
                hold: hold.id.to_string(),
                user: hold.user.as_str(),
                head: head(hold.id, &hold.user, Some(&hold.cart), Some(hold.created_at)),
                expires_at: Some(hold.expires_at),
                seats: ordinals(&hold.seats),
                areas: areas(&hold.areas),
            },
            Fact::HoldGrew(part) => Self {
                kind: "more",
                hold: part.hold.to_string(),
                user: part.user.as_str(),
                head: head(part.hold, &part.user, Some(&part.cart), Some(part.at)),
                expires_at: Some(part.expires_at),
                seats: ordinals(&part.seats),
                areas: areas(&part.areas),
            },
            Fact::HoldExtended(moved) => Self {
                kind: "move",
                hold: moved.hold.to_string(),
                user: moved.user.as_str(),
                head: head(moved.hold, &moved.user, None, None),
                expires_at: Some(moved.expires_at),
                seats: ordinals(&moved.seats),
                ..Self::default()
            },
            Fact::HoldReleased(part) | Fact::HoldExpired(part) => Self {
                kind: "free",
                hold: part.hold.to_string(),
                user: part.user.as_str(),
                seats: ordinals(&part.seats),
                areas: areas(&part.areas),
                ..Self::default()
            },
            Fact::BookingConfirmed(booking) => Self::booking("sell", booking),
            Fact::BookingCancelled(booking) => Self::booking("cancel", booking),
            Fact::SeatsBlocked(marked) => Self::marked("block", &marked.seats),
            Fact::SeatsUnblocked(marked) => Self::marked("unblock", &marked.seats),
            Fact::SeatsCreated(added) => {
                Self { kind: "seats", seats: vec![added.first_ordinal, added.count], ..Self::default() }
            }
            Fact::AreaCreated(area) => {
                Self { kind: "area", areas: format!("{}=0", area.id), ..Self::default() }
            }
            // These have a place in the sequence and nothing in the projection.
            Fact::HoldConfirmed(_)
            | Fact::BlockCreated(_)
            | Fact::EventCreated(_)
            | Fact::OrgCreated(_)
            | Fact::ApiKeyCreated(_)
            | Fact::ApiKeyRevoked(_) => Self { kind: "other", ..Self::default() },
        }
    }

    fn booking(kind: &'static str, booking: &'a Booking) -> Self {
        let mut seats = Vec::new();
        let mut places = FxHashMap::default();
        for ticket in &booking.tickets {
            match ticket.admits {
                Admits::Seat(ordinal) => seats.push(ordinal),
                Admits::Area(area) => *places.entry(area).or_insert(0) += 1,
            }
        }
        let areas: Vec<String> = places.iter().map(|(area, places)| format!("{area}={places}")).collect();
        Self {
            kind,
            hold: booking.hold.to_string(),
            user: booking.user.as_str(),
            seats,
            areas: areas.join(","),
            ..Self::default()
        }
    }

    fn marked(kind: &'static str, seats: &[SeatId]) -> Self {
        Self { kind, seats: seats.iter().map(|seat| seat.raw_ordinal()).collect(), ..Self::default() }
    }
}

fn ordinals(seats: &[HeldSeat]) -> Vec<u32> {
    seats.iter().map(|seat| seat.ordinal).collect()
}

fn areas(areas: &[HeldArea]) -> String {
    areas.iter().map(|held| format!("{}={}", held.area, held.quantity)).collect::<Vec<_>>().join(",")
}

/// As ids of seats end: eight digits each.
fn hex(ordinals: &[u32]) -> String {
    let mut text = String::with_capacity(8 * ordinals.len());
    for ordinal in ordinals {
        // Writing to a string can't fail.
        let _ = write!(text, "{ordinal:08x}");
    }
    text
}
