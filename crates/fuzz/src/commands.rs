//! The kernel with commands that no layer above has looked at: any number, any time, any list.

use rowlock_core::event::Tier;
use rowlock_core::org::Scopes;
use rowlock_core::policy::Policy;
use rowlock_core::text::Row;
use rowlock_core::{
    AreaId, BlockId, BookingId, Command, EventId, HoldId, IdempotencyKey, KeyId, Name, OrgId,
    PaymentReference, SeatId, Time, UserId,
};
use uuid::Uuid;

use crate::feed::Feed;
use crate::support::invariants::{self, Endings};
use crate::support::request;
use crate::support::stage::{name, user};
use crate::venue::Venue;

const MOST_COMMANDS: usize = 60;
/// Seats that the event may grow to: checking them all after each step takes its time.
const MOST_SEATS: usize = 2_000;

pub fn run(data: &[u8]) {
    let mut feed = Feed::new(data);
    let mut venue = Venue::new();
    let mut endings = Endings::default();
    for _ in 0..MOST_COMMANDS {
        if feed.is_empty() || venue.world.rows.seats.len() > MOST_SEATS {
            return;
        }
        if feed.once_in(4) {
            // Forwards, and at times very far.
            let millis = if feed.once_in(16) { feed.i64() } else { i64::from(feed.byte()) * 10_000 };
            venue.world.now = venue.world.now.max(venue.world.now.plus_millis(millis));
        }
        send(&mut venue, &mut feed);
        let rows = &venue.world.rows;
        let sound = endings
            .follow(&venue.world.journal)
            .and_then(|()| endings.agree(rows))
            .and_then(|()| invariants::rows(rows));
        sound.expect("sound");
    }
}

fn send(venue: &mut Venue, feed: &mut Feed<'_>) {
    let command = command(venue, feed);
    let shown = format!("{command:?}");
    let org = if feed.once_in(16) { OrgId::from_uuid(Uuid::nil()) } else { venue.org };
    let mut sent = request(org, command);
    if feed.once_in(3) {
        let (key, fingerprint) = (feed.below(4).to_string().into(), [feed.below(2); 16]);
        sent.idempotency = Some(IdempotencyKey { key, fingerprint });
    }
    let before = (venue.world.rows.clone(), venue.world.journal.len());
    let facts = match venue.world.send(sent) {
        Ok(done) => done.facts.len(),
        Err(_) => {
            // A refusal changes nothing.
            assert!(venue.world.rows == before.0, "{shown} was refused and changed something");
            0
        }
    };
    assert_eq!(venue.world.journal.len(), before.1 + facts);
}

fn command(venue: &Venue, feed: &mut Feed<'_>) -> Command {
    let event = event(venue, feed);
    match feed.below(17) {
        0 => Command::CreateOrg { name: a_name(feed) },
        1 => Command::CreateApiKey { name: a_name(feed), scopes: Scopes::all(), secret_hash: [1; 32] },
        2 => {
            let known = venue.world.rows.keys.keys().next().copied();
            Command::RevokeApiKey { key: known.unwrap_or(KeyId::from_uuid(Uuid::nil())) }
        }
        3 => Command::CreateEvent {
            name: a_name(feed),
            currency: "EUR".parse().expect("a currency"),
            tiers: (0..feed.below(40)).map(|_| tier(feed)).collect(),
            policy: policy(feed),
        },
        4 => Command::CreateBlock { event, name: a_name(feed) },
        5 => Command::CreateSeats {
            event,
            sections: (0..feed.below(4)).map(|_| section(venue, feed)).collect(),
        },
        6 => Command::CreateArea { event, name: a_name(feed), tier: a_name(feed), capacity: feed.number() },
        7 => Command::BlockSeats { event, seats: seats(event, feed) },
        8 => Command::UnblockSeats { event, seats: seats(event, feed) },
        9 => Command::StartCheckout { hold: hold(venue, feed), user: a_user(feed) },
        10 => Command::Heartbeat { hold: hold(venue, feed), user: a_user(feed) },
        11 => Command::Release { hold: hold(venue, feed), user: a_user(feed), seats: seats(event, feed) },
        12 => {
            let payment_reference = feed.once_in(2).then(|| PaymentReference::new("p 1").expect("a text"));
            Command::Confirm { hold: hold(venue, feed), user: a_user(feed), payment_reference }
        }
        13 => Command::CancelBooking {
            booking: booking(venue, feed),
            user: feed.once_in(2).then(|| a_user(feed)),
        },
        14 => Command::Expire { hold: hold(venue, feed) },
        15 => Command::Book { places: places(venue, event, feed), payment_reference: None },
        _ => Command::Hold(places(venue, event, feed)),
    }
}

fn event(venue: &Venue, feed: &mut Feed<'_>) -> EventId {
    match feed.below(8) {
        0 => EventId::from_uuid(Uuid::nil()),
        // The last one that was made.
        1 => *venue.world.rows.events.keys().next_back().expect("an event"),
        _ => venue.event,
    }
}

fn a_name(feed: &mut Feed<'_>) -> Name {
    name(["gold", "silver", "Stalls", "Floor", "A", "B", "C", "D"][usize::from(feed.below(8))])
}

fn a_user(feed: &mut Feed<'_>) -> UserId {
    user(["ann", "bob", "carl"][usize::from(feed.below(3))])
}

fn tier(feed: &mut Feed<'_>) -> Tier {
    let price = if feed.once_in(4) { feed.i64() } else { i64::from(feed.number()) };
    Tier { code: name(&feed.byte().to_string()), price }
}

fn policy(feed: &mut Feed<'_>) -> Policy {
    let moment = |feed: &mut Feed<'_>| feed.once_in(4).then(|| Time::from_millis(feed.i64()));
    Policy {
        ttl_seconds: feed.number(),
        checkout_extension_seconds: feed.number(),
        heartbeat_seconds: feed.number(),
        max_hold_seconds: feed.number(),
        seats_per_user: feed.once_in(2).then(|| feed.number()),
        sales_open_at: moment(feed),
        sales_close_at: moment(feed),
    }
}

fn section(venue: &Venue, feed: &mut Feed<'_>) -> rowlock_core::command::NewSection {
    let mut new = venue.section("Z", 3);
    new.block = a_name(feed);
    new.tier = a_name(feed);
    let row = |n: u8| Row::new(&format!("R{n}")).expect("a row");
    new.section.rows = (0..feed.below(4)).map(|_| row(feed.below(6))).collect();
    new.section.first_number = feed.number();
    new.section.last_number = if feed.once_in(4) {
        feed.number()
    } else {
        new.section.first_number.wrapping_add(feed.below(9).into())
    };
    if feed.once_in(4) {
        new.section.x = f32::from_bits(feed.u32());
        new.section.row_pitch = f32::from_bits(feed.u32());
    }
    new
}

fn seats(event: EventId, feed: &mut Feed<'_>) -> Vec<SeatId> {
    let many = if feed.once_in(32) { 130 } else { feed.below(5) };
    (0..many)
        .map(|_| SeatId::of(event, if feed.once_in(16) { feed.u32() } else { feed.below(16).into() }))
        .collect()
}

fn places(venue: &Venue, event: EventId, feed: &mut Feed<'_>) -> rowlock_core::command::Places {
    let (who, which) = (["ann", "bob", "carl"][usize::from(feed.below(3))], ["default", "other"]);
    let mut places = venue.places(who, which[usize::from(feed.below(2))], seats(event, feed));
    places.event = event;
    let nowhere = |n: u8| n == 7;
    for _ in 0..feed.below(3) {
        let block = if nowhere(feed.below(8)) { BlockId::from_uuid(Uuid::nil()) } else { venue.block };
        places.blocks.push((block, feed.number()));
    }
    for _ in 0..feed.below(3) {
        let area = if nowhere(feed.below(8)) { AreaId::from_uuid(Uuid::nil()) } else { venue.floor };
        places.areas.push((area, feed.number()));
    }
    places
}

fn hold(venue: &Venue, feed: &mut Feed<'_>) -> HoldId {
    let known = venue.world.rows.holds.keys().rev().nth(usize::from(feed.below(6)));
    known.copied().unwrap_or(HoldId::from_uuid(Uuid::nil()))
}

fn booking(venue: &Venue, feed: &mut Feed<'_>) -> BookingId {
    let known = venue.world.rows.bookings.keys().rev().nth(usize::from(feed.below(4)));
    known.copied().unwrap_or(BookingId::from_uuid(Uuid::nil()))
}
