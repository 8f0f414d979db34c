//! What stores keep as text: the same words in every store.

use rowlock_core::hold::{HeldArea, HeldSeat, Hold};
use rowlock_core::org::{ApiKey, Scope, Scopes};
use rowlock_core::{AreaId, Fact};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A column that can't be read, and what should be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub &'static str);

type Read<T> = Result<T, Corrupt>;

pub(crate) fn json<T: DeserializeOwned>(text: &str, what: &'static str) -> Read<T> {
    serde_json::from_str(text).map_err(|_| Corrupt(what))
}

pub(crate) fn held_seats(text: &str) -> Read<Vec<HeldSeat>> {
    let pairs: Vec<(u32, i64)> = json(text, "a held seat")?;
    Ok(pairs.into_iter().map(|(ordinal, price)| HeldSeat { ordinal, price }).collect())
}

pub(crate) fn held_areas(text: &str) -> Read<Vec<HeldArea>> {
    if text == "[]" {
        return Ok(Vec::new());
    }
    let lines: Vec<(AreaId, u32, i64)> = json(text, "a held area")?;
    Ok(lines.into_iter().map(|(area, quantity, price)| HeldArea { area, quantity, price }).collect())
}

pub(crate) fn seats_json(hold: &Hold) -> String {
    let pairs: Vec<(u32, i64)> = hold.seats.iter().map(|seat| (seat.ordinal, seat.price)).collect();
    written(&pairs, 2 + pairs.len() * 16)
}

pub(crate) fn areas_json(hold: &Hold) -> String {
    let lines: Vec<(AreaId, u32, i64)> =
        hold.areas.iter().map(|held| (held.area, held.quantity, held.price)).collect();
    written(&lines, 2 + lines.len() * 64)
}

fn written(lines: &impl Serialize, capacity: usize) -> String {
    rowlock_json::to_string(lines, capacity).expect("a list is JSON")
}

/// The words of an API key's scopes, separated by blanks.
pub(crate) fn scopes(text: &str) -> Read<Scopes> {
    let scopes = text.split_ascii_whitespace().map(str::parse::<Scope>).collect::<Result<_, _>>();
    scopes.map_err(|_| Corrupt("a scope"))
}

pub(crate) fn scopes_text(key: &ApiKey) -> String {
    key.scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
}

/// What can't be read when the kind is known. Another one is of a newer version.
pub(crate) const FACT: &str = "a fact";

/// A fact from the kind and the data of its journal row.
pub(crate) fn fact(kind: &str, data: &str) -> Read<Fact> {
    Ok(match kind {
        "ORG-CREATED" => Fact::OrgCreated(json(data, FACT)?),
        "API-KEY-CREATED" => Fact::ApiKeyCreated(json(data, FACT)?),
        "API-KEY-REVOKED" => Fact::ApiKeyRevoked(json(data, FACT)?),
        "EVENT-CREATED" => Fact::EventCreated(json(data, FACT)?),
        "BLOCK-CREATED" => Fact::BlockCreated(json(data, FACT)?),
        "SEATS-CREATED" => Fact::SeatsCreated(json(data, FACT)?),
        "AREA-CREATED" => Fact::AreaCreated(json(data, FACT)?),
        "SEAT-BLOCKED" => Fact::SeatsBlocked(json(data, FACT)?),
        "SEAT-UNBLOCKED" => Fact::SeatsUnblocked(json(data, FACT)?),
        // A new hold is written whole, more places of one as a part: only what is whole has the field `id`.
        "SEAT-HOLD-CREATED" => match json(data, FACT) {
            Ok(hold) => Fact::HoldCreated(hold),
            Err(_) => Fact::HoldGrew(json(data, FACT)?),
        },
        "SEAT-HOLD-EXTENDED" => Fact::HoldExtended(json(data, FACT)?),
        "SEAT-HOLD-CONFIRMED" => Fact::HoldConfirmed(json(data, FACT)?),
        "SEAT-HOLD-CANCELLED" => Fact::HoldReleased(json(data, FACT)?),
        "SEAT-HOLD-EXPIRED" => Fact::HoldExpired(json(data, FACT)?),
        "BOOKING-CONFIRMED" => Fact::BookingConfirmed(json(data, FACT)?),
        "BOOKING-CANCELLED" => Fact::BookingCancelled(json(data, FACT)?),
        _ => return Err(Corrupt("the kind of a fact")),
    })
}
