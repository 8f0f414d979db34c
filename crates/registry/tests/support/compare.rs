//! Whether an event in memory is what is stored. Everything is counted anew from the stored rows.

use rowlock_core::Time;
use rowlock_core::seat::{SeatState, SeatStatus};
use rowlock_registry::{Counts, LiveEvent};
use rowlock_truth::Truth;
use rowlock_truth::conformance::stage::user;
use rowlock_truth::read::EventSnapshot;

pub async fn assert_is_as_stored(live: &LiveEvent, truth: &dyn Truth) {
    let stored = truth.event(live.id()).await.expect("a read").expect("the event is stored");
    let hot = live.read();
    assert_eq!(hot.sequence(), stored.sequence, "sequence");
    let statuses: Vec<SeatStatus> = stored.seats.iter().map(|seat| seat.state.status()).collect();
    assert_eq!(hot.statuses(), statuses, "statuses");
    assert_eq!(hot.seat_count() as usize, stored.seats.len());
    assert_eq!(hot.counts(), count(statuses.iter().copied()), "counts");
    assert_eq!(hot.areas(), stored.areas, "areas");
    assert_eq!(hot.availability(), bitmap(&statuses), "bitmap");
    let blocks: Vec<_> = hot.block_counts().map(|(block, counts)| (block.clone(), counts)).collect();
    assert_eq!(blocks, block_counts(&stored), "blocks");
    assert_owners(&hot, &stored);
    assert_layout(&hot, &stored);
}

fn count(statuses: impl Iterator<Item = SeatStatus>) -> Counts {
    let mut counts = Counts::default();
    for status in statuses {
        match status {
            SeatStatus::Available => counts.available += 1,
            SeatStatus::Held => counts.held += 1,
            SeatStatus::Sold => counts.sold += 1,
            SeatStatus::Blocked => counts.blocked += 1,
        }
    }
    counts
}

fn bitmap(statuses: &[SeatStatus]) -> Vec<u64> {
    let mut words = vec![0_u64; statuses.len().div_ceil(64)];
    for (i, status) in statuses.iter().enumerate() {
        if *status == SeatStatus::Available {
            words[i / 64] |= 1 << (i % 64);
        }
    }
    words
}

fn block_counts(stored: &EventSnapshot) -> Vec<(rowlock_core::event::Block, Counts)> {
    let of = |block| stored.seats.iter().filter(move |seat| seat.place.block == block);
    let counts = |block| count(of(block).map(|seat| seat.state.status()));
    stored.row.blocks.iter().map(|block| (block.clone(), counts(block.id))).collect()
}

/// Who holds a seat and until when shows only in what is refused early.
fn assert_owners(hot: &rowlock_registry::HotEvent, stored: &EventSnapshot) {
    let (stranger, always) = (user("a stranger to all"), Time::from_millis(0));
    for (i, seat) in stored.seats.iter().enumerate() {
        let ordinal = i as u32;
        let view = hot.seat(ordinal);
        match seat.state {
            SeatState::Held { until, .. } => {
                let owner = seat.user.as_ref().expect("a held seat has a user");
                assert_eq!(view.held_until, Some(until), "seat {i}");
                assert!(!hot.surely_taken(ordinal, owner, || always, 0), "seat {i} is its owner's");
                assert!(
                    hot.surely_taken(ordinal, &stranger, || until.plus_millis(-1), 0),
                    "seat {i} is held"
                );
                assert!(!hot.surely_taken(ordinal, &stranger, || until, 0), "seat {i} is held until then");
            }
            _ => assert_eq!(view.held_until, None, "seat {i}"),
        }
    }
}

fn assert_layout(hot: &rowlock_registry::HotEvent, stored: &EventSnapshot) {
    let layout = hot.layout();
    assert_eq!(layout.len(), stored.seats.len());
    for (i, seat) in stored.seats.iter().enumerate() {
        let (ordinal, place) = (i as u32, &seat.place);
        assert_eq!(layout.label(ordinal), place.label());
        assert_eq!((layout.block(ordinal).id, layout.tier(ordinal)), (place.block, place.tier));
        assert_eq!((layout.x_of[i], layout.y_of[i]), (place.x, place.y));
    }
}
