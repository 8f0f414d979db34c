//! Rows of the journal: facts as text, and what they do to an event in memory.

use rowlock_core::{Fact, Stream};
use rowlock_registry::HotEvent;
use rowlock_truth::read::fact;

use crate::venue::Venue;

pub const KINDS: [&str; 16] = [
    "ORG-CREATED",
    "API-KEY-CREATED",
    "API-KEY-REVOKED",
    "EVENT-CREATED",
    "BLOCK-CREATED",
    "SEATS-CREATED",
    "AREA-CREATED",
    "SEAT-BLOCKED",
    "SEAT-UNBLOCKED",
    "SEAT-HOLD-CREATED",
    "SEAT-HOLD-EXTENDED",
    "SEAT-HOLD-CONFIRMED",
    "SEAT-HOLD-CANCELLED",
    "SEAT-HOLD-EXPIRED",
    "BOOKING-CONFIRMED",
    "BOOKING-CANCELLED",
];

thread_local! {
    static EVENT: HotEvent = HotEvent::new(Venue::new().snapshot());
}

/// Lines, each a kind and data: the facts of one stream, one after another.
pub fn run(data: &[u8]) {
    let mut hot = EVENT.with(HotEvent::clone);
    for line in data.split(|byte| *byte == b'\n') {
        let Some((kind, text)) = line.split_first() else { continue };
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let Ok(text) = std::str::from_utf8(text) else { continue };
        let Some(read) = fact(kind, text) else { continue };
        same_when_written(kind, &read);
        apply(&mut hot, &read);
    }
}

pub fn same_when_written(kind: &str, read: &Fact) {
    assert_eq!(read.kind(), kind);
    let written = serde_json::to_string(read).expect("a fact can be written");
    assert_eq!(fact(kind, &written).as_ref(), Some(read), "{written}");
}

/// Takes a fact into an event. Whatever it says, the event stays one that can be: nobody panics, and all counts agree.
pub fn apply(hot: &mut HotEvent, read: &Fact) {
    let of_the_event = read.stream() == Stream::Event(hot.event().id);
    let before = hot.clone();
    if hot.apply(hot.sequence() + 1, read) {
        assert!(of_the_event, "a fact of another stream was taken: {read:?}");
    } else {
        assert_eq!(before.sequence(), hot.sequence(), "what does not fit changes nothing");
        assert_eq!(before.counts(), hot.counts());
    }
    sound(hot);
}

/// What is true of every event in memory, and what whoever draws it relies on.
pub fn sound(hot: &HotEvent) {
    let seats = hot.seat_count();
    assert_eq!(hot.counts().total(), seats);
    let free: u32 = hot.availability().iter().map(|word| word.count_ones()).sum();
    assert_eq!(free, hot.counts().available);
    let by_block: u32 = hot.block_counts().map(|(_, counts)| counts.total()).sum();
    assert_eq!(by_block, seats);
    for area in hot.areas() {
        assert!(u64::from(area.held) + u64::from(area.sold) <= u64::from(area.capacity), "{area:?}");
        hot.event().price(area.tier);
    }
    for ordinal in 0..seats {
        hot.event().price(hot.layout().tier(ordinal));
        hot.layout().label(ordinal);
        let (x, y) = (hot.layout().x_of[ordinal as usize], hot.layout().y_of[ordinal as usize]);
        assert!(x.is_finite() && y.is_finite(), "seat {ordinal} is nowhere");
        hot.block_id(ordinal);
    }
}
