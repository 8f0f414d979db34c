//! What Redis says. Whoever can write there may write anything, and a failing disk does too.

use rowlock_core::{EventId, Stream};
use rowlock_registry::HotEvent;
use rowlock_registry::warm::fuzzing::{self, Found};
use rowlock_truth::read::EventShape;
use serde::de::IgnoredAny;

use crate::feed::Feed;
use crate::journal;
use crate::venue::Venue;

thread_local! {
    static VENUE: Venue = Venue::new();
}

pub fn run(data: &[u8]) {
    let mut feed = Feed::new(data);
    VENUE.with(|venue| match feed.below(5) {
        0 => claim(feed.rest()),
        1 => member(venue.event, feed.rest()),
        2 => announcement(venue, feed.rest()),
        3 => drop(copy(venue, feed)),
        _ => layout(venue, feed),
    });
}

/// The value of a seat's key. What can't be read has no owner, and what can be is kept byte by byte so that exactly it
/// can be removed.
fn claim(value: &[u8]) {
    let (owner, seen) = fuzzing::claim(value);
    assert_eq!(seen, value);
    // What is in fields that nobody knows is not looked at.
    if serde_json::from_slice::<IgnoredAny>(value).is_err() {
        assert!(owner.hold.is_none() && owner.user.is_none() && !owner.pending, "{owner:?}");
    }
}

/// A member of the ordered set of held seats.
fn member(event: EventId, data: &[u8]) {
    let Some((score, text)) = data.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Some(held) = fuzzing::member(event, text, f64::from_le_bytes(*score)) else { return };
    let written = fuzzing::member_text(event, &held);
    assert_eq!(written, text.to_ascii_lowercase()[..73].to_owned() + &text[73..]);
}

/// A message of another node, taken in as the follower does.
fn announcement(venue: &Venue, payload: &[u8]) {
    let Some(announced) = fuzzing::announcement(payload) else { return };
    let mut hot = HotEvent::new(venue.snapshot());
    for (sequence, fact) in &announced.facts {
        let before = hot.sequence();
        if hot.apply(*sequence, fact) && hot.sequence() != before {
            assert_eq!((fact.stream(), *sequence), (Stream::Event(venue.event), before + 1));
        }
        journal::sound(&hot);
    }
}

/// The copy of an event: counters, two bitmaps and the held seats.
fn copy(venue: &Venue, mut feed: Feed<'_>) -> Option<rowlock_registry::warm::WarmEvent> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Found { sequence: text(feed.until(b'\n')), ..Found::default() };
    for _ in 0..feed.below(16) {
        let (name, count) = (text(feed.until(b'=')), text(feed.until(b'\n')));
        found.counters.push((name, count));
    }
    found.free = feed.bytes(64).to_vec();
    found.sold = feed.bytes(64).to_vec();
    for _ in 0..feed.below(8) {
        let score = feed.i64() as f64;
        found.held.push((text(feed.until(b'\n')), score));
    }
    let read = fuzzing::event(venue.event, found)?;
    let ones = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
    assert!(ones(&read.free) + ones(&read.sold) + read.held.len() as u32 <= read.seats, "{read:?}");
    assert!(read.held.windows(2).all(|two| two[0].ordinal < two[1].ordinal), "{read:?}");
    Some(read)
}

/// The stored layout of an event, with a good copy of its state.
fn layout(venue: &Venue, mut feed: Feed<'_>) {
    let good = venue.snapshot();
    let state = fuzzing::state(&good);
    let size = |n: u8, least: u32| least.saturating_add(u32::from(n)).saturating_sub(128);
    let shape = EventShape {
        org: venue.org,
        seats: size(feed.byte(), state.seats),
        blocks: size(feed.byte(), 1),
        areas: size(feed.byte(), 2),
    };
    let Some(read) = fuzzing::layout(feed.rest(), &state, shape) else { return };
    let again = fuzzing::layout_bytes(&read);
    let shape = EventShape { seats: read.seats.len() as u32, ..shape };
    assert!(
        fuzzing::layout(&again, &state, shape).is_some(),
        "what was read can't be read when written anew"
    );
    journal::sound(&HotEvent::new(read));
}
