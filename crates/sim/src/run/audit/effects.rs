//! Answers and effects: every yes is kept, every key counts once, nobody meets a stranger's things.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_core::booking::{Admits, Booking, BookingStatus};
use rowlock_core::hold::{Hold, HoldStatus};
use rowlock_core::{Command, SeatId, Time};
use rowlock_truth::read::JournalRow;

use super::books::{Attempt, Books, Said};
use crate::run::history::History;
use crate::run::store::tables::Tables;

/// D: what was acknowledged is there.
pub fn kept(books: &Books, tables: &Tables, history: &History) {
    for attempt in &books.attempts {
        let id = &attempt.request.request_id;
        match &attempt.said {
            Said::Held(outcome) => {
                if let Some(why) = hold_lost(books, tables, attempt, &outcome.hold) {
                    history.violation('D', format_args!("{id}: hold {}: {why}", outcome.hold.id));
                }
            }
            Said::Booked(outcome) => {
                if let Some(why) = booking_lost(books, tables, &outcome.booking) {
                    history.violation('D', format_args!("{id}: booking {}: {why}", outcome.booking.id));
                }
            }
            _ => {}
        }
    }
}

fn hold_lost(books: &Books, tables: &Tables, attempt: &Attempt, said: &Hold) -> Option<String> {
    let Some((row, _)) = tables.holds.get(&said.id) else {
        return Some("it was acknowledged and is not stored".into());
    };
    let same = (row.org, row.event, &row.user, &row.cart, row.created_at)
        == (said.org, said.event, &said.user, &said.cart, said.created_at);
    if !same {
        return Some(format!("it is stored as another one: {row:?}"));
    }
    if said.status != HoldStatus::Active && row.status != said.status {
        return Some(format!("it was said to be {:?} and is {:?}", said.status, row.status));
    }
    let released = books.attempts.iter().any(|other| {
        matches!(&other.request.command, Command::Release { hold, .. } if *hold == said.id)
            && other.may_count()
    });
    if said.status == HoldStatus::Active && !released {
        if matches!(row.status, HoldStatus::Expired | HoldStatus::Cancelled) {
            let ended = row.ended_at.unwrap_or(Time::from_millis(0));
            if row.status == HoldStatus::Cancelled || ended < said.expires_at {
                return Some(format!(
                    "it was to last until {:?} and is {:?} since {ended:?}",
                    said.expires_at, row.status
                ));
            }
        }
        if let Some(seat) = said.seats.iter().find(|seat| !row.has_seat(seat.ordinal)) {
            return Some(format!("it has lost seat {}", seat.ordinal));
        }
        if row.expires_at < said.expires_at {
            return Some(format!(
                "it was to last until {:?}, and lasts until {:?}",
                said.expires_at, row.expires_at
            ));
        }
    }
    let whole = matches!(&attempt.request.command, Command::Release { seats, .. } if seats.is_empty());
    if whole && row.status == HoldStatus::Active {
        return Some("it was released and is active".into());
    }
    None
}

fn booking_lost(books: &Books, tables: &Tables, said: &Booking) -> Option<String> {
    let Some((row, _)) = tables.bookings.get(&said.id) else {
        return Some("it was acknowledged and is not stored".into());
    };
    if row.tickets != said.tickets || row.user != said.user || row.hold != said.hold {
        return Some(format!("it is stored as another one: {row:?}"));
    }
    let cancelled = books.attempts.iter().any(|other| {
        matches!(&other.request.command, Command::CancelBooking { booking, .. } if *booking == said.id)
            && other.may_count()
    });
    match (said.status, row.status) {
        (BookingStatus::Cancelled, BookingStatus::Confirmed) => {
            Some("it was cancelled and is confirmed".into())
        }
        (BookingStatus::Confirmed, BookingStatus::Cancelled) if !cancelled => {
            Some("nobody cancelled it".into())
        }
        (_, BookingStatus::Confirmed) => {
            let owns = |ordinal: u32, ticket| {
                let state = tables.seats.get(&SeatId::of(said.event, ordinal)).map(|(seat, _)| seat.state);
                state == Some(rowlock_core::seat::SeatState::Sold { ticket })
            };
            let lost = said.tickets.iter().find(|ticket| match ticket.admits {
                Admits::Seat(ordinal) => !owns(ordinal, ticket.id),
                Admits::Area(_) => false,
            });
            lost.map(|ticket| format!("somebody else has what ticket {} admits to", ticket.id))
        }
        _ => None,
    }
}

/// X: one effect for each key, one for each request, and none for a refusal.
pub fn once(books: &Books, tables: &Tables, history: &History) {
    let mut rows: BTreeMap<&str, Vec<&JournalRow>> = BTreeMap::new();
    for row in tables.streams.values().flatten() {
        rows.entry(&row.request_id).or_default().push(row);
    }
    let mut keyed: BTreeMap<u64, Vec<&Attempt>> = BTreeMap::new();
    for attempt in &books.attempts {
        let id = &*attempt.request.request_id;
        let effects = rows.get(id).map_or(&[][..], Vec::as_slice);
        let moments: BTreeSet<Time> = effects.iter().map(|row| row.at).collect();
        if moments.len() > 1 {
            history.violation('X', format_args!("{id} had its effect {} times", moments.len()));
        }
        if let (Said::Refused(refusal), Some(row)) = (&attempt.said, effects.first()) {
            history
                .violation('X', format_args!("{id} was refused ({refusal}) and yet there is {}", row.kind));
        }
        let changed = match &attempt.said {
            Said::Held(outcome) => outcome.changed,
            Said::Booked(outcome) => outcome.changed,
            Said::Marked(outcome) => !outcome.seats.is_empty(),
            _ => false,
        };
        if changed && !attempt.replayed && effects.is_empty() {
            history.violation('D', format_args!("{id} was acknowledged and is not in the journal"));
        }
        if attempt.request.idempotency.is_some() {
            keyed.entry(attempt.operation).or_default().push(attempt);
        }
    }
    for (operation, attempts) in keyed {
        let with_effect =
            attempts.iter().filter(|attempt| rows.contains_key(&*attempt.request.request_id)).count();
        if with_effect > 1 {
            history
                .violation('X', format_args!("the key of operation {operation} had {with_effect} effects"));
        }
        let yes: Vec<&&Attempt> = attempts.iter().filter(|attempt| attempt.said.is_yes()).collect();
        if yes.windows(2).any(|two| two[0].said != two[1].said) {
            history.violation('X', format_args!("the key of operation {operation} had different answers"));
        }
        if yes.iter().filter(|attempt| !attempt.replayed).count() > 1 {
            history.violation('X', format_args!("the key of operation {operation} was not recorded"));
        }
    }
}

/// T, and the same between users: nobody gets a yes for what is not theirs.
pub fn strangers(books: &Books, history: &History) {
    for attempt in &books.attempts {
        let id = &attempt.request.request_id;
        let (org, user) = match &attempt.said {
            Said::Held(outcome) => (outcome.hold.org, &outcome.hold.user),
            Said::Booked(outcome) => (outcome.booking.org, &outcome.booking.user),
            _ => continue,
        };
        if org != attempt.request.org {
            history.violation(
                'T',
                format_args!("{id} of org {} got something of org {org}", attempt.request.org),
            );
        }
        let asker = match &attempt.request.command {
            Command::Release { user, .. }
            | Command::Confirm { user, .. }
            | Command::StartCheckout { user, .. }
            | Command::Heartbeat { user, .. }
            | Command::CancelBooking { user: Some(user), .. } => Some(user),
            Command::Hold(places) | Command::Book { places, .. } => Some(&places.user),
            _ => None,
        };
        if asker.is_some_and(|asker| asker != user) {
            history.violation('S', format_args!("{id}: {asker:?} was let at what is {user}'s"));
        }
    }
}
