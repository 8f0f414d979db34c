//! How many seats of blocks a batch can want.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_core::command::NewSection;
use rowlock_core::limits::MAX_SEATS_PER_CREATE;
use rowlock_core::slice::Slice;
use rowlock_core::{BlockId, Command, EventId, Request, SeatId};

/// Seats of blocks that the commands of one transaction may ask for together. A batch that asks for more is
/// committed in portions, so that loading stays short and nobody is told «full» because others came before them.
const MAX_CHOSEN: u32 = 5_000;
/// Free seats that are looked at beyond those that can be wanted, to find some that are side by side.
const LOOK_AROUND: u32 = 32;

/// Whether the kernel will refuse new seats for their number alone, so that nothing needs to be read for them: what a small
/// body can name in many rows takes long to look for.
pub(crate) fn creates_too_many(sections: &[NewSection]) -> bool {
    let sum = |sum: u32, new: &NewSection| sum.checked_add(new.section.count()?);
    sections.iter().try_fold(0, sum).is_none_or(|seats| seats > MAX_SEATS_PER_CREATE)
}

/// A block of which a batch takes any seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub event: EventId,
    pub block: BlockId,
    /// Free seats of it to load: with so many, no command of the batch finds too few because of another.
    pub seats: u32,
}

/// The blocks of a batch. Seats that its commands name may be some of those that are loaded as free ones, and be gone
/// when a later command would choose them: they are loaded in addition.
pub(crate) fn blocks<'r>(batch: impl IntoIterator<Item = &'r Request> + Clone) -> Vec<Wanted> {
    let mut wanted: BTreeMap<(EventId, BlockId), u32> = BTreeMap::new();
    for places in batch.clone().into_iter().filter_map(|request| request.command.places()) {
        for (block, quantity) in &places.blocks {
            let seats = wanted.entry((places.event, *block)).or_insert(LOOK_AROUND);
            *seats = seats.saturating_add(*quantity);
        }
    }
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut named: BTreeMap<EventId, u32> = BTreeMap::new();
    for request in batch {
        let (event, seats) = match &request.command {
            Command::Hold(places) | Command::Book { places, .. } => (places.event, places.seats.len()),
            Command::BlockSeats { event, seats } => (*event, seats.len()),
            _ => continue,
        };
        *named.entry(event).or_default() += seats as u32;
    }
    wanted
        .into_iter()
        .map(|((event, block), seats)| {
            let seats = seats.saturating_add(named.get(&event).copied().unwrap_or(0));
            Wanted { event, block, seats }
        })
        .collect()
}

/// The seats of an event whose place in the house must be known: those of the slice, and those that are in the carts of
/// whoever wants some of a block.
pub(crate) fn seats_to_place(slice: &Slice, batch: &[Request], event: EventId) -> BTreeSet<SeatId> {
    let mut seats: BTreeSet<SeatId> =
        slice.seats().map(|(seat, _)| seat).filter(|seat| seat.ordinal_in(event).is_some()).collect();
    let places = batch.iter().filter_map(|request| request.command.places());
    for places in places.filter(|places| places.event == event && !places.blocks.is_empty()) {
        if let Some(hold) = slice.cart(event, &places.user, &places.cart) {
            seats.extend(hold.seat_ids());
        }
    }
    seats
}

/// The batch in portions, each of which can be one transaction. Nearly always there is one.
pub(crate) fn portions(batch: &[Request]) -> impl Iterator<Item = &[Request]> {
    let mut chosen = 0;
    batch.chunk_by(move |before, next| {
        chosen += chosen_by(before);
        let fits = chosen.saturating_add(chosen_by(next)) <= MAX_CHOSEN;
        if !fits {
            chosen = 0;
        }
        fits
    })
}

fn chosen_by(request: &Request) -> u32 {
    let blocks = request.command.places().into_iter().flat_map(|places| &places.blocks);
    blocks.fold(0, |sum: u32, (_, quantity)| sum.saturating_add(*quantity))
}

#[cfg(test)]
mod tests {
    use rowlock_core::command::Places;
    use rowlock_core::hold::Source;
    use rowlock_core::{Actor, CartToken, OrgId, UserId};
    use uuid::Uuid;

    use super::*;

    const EVENT: EventId = EventId::from_uuid(Uuid::from_u128(1));
    const BLOCK: BlockId = BlockId::from_uuid(Uuid::from_u128(2));

    fn hold(seats: u32, any: u32) -> Request {
        let places = Places {
            event: EVENT,
            user: UserId::new("ann").unwrap(),
            cart: CartToken::unnamed(),
            source: Source::Web,
            seats: (0..seats).map(|ordinal| SeatId::of(EVENT, ordinal)).collect(),
            blocks: if any == 0 { vec![] } else { vec![(BLOCK, any)] },
            areas: vec![],
        };
        Request {
            org: OrgId::from_uuid(Uuid::nil()),
            actor: Actor::System,
            request_id: "test".into(),
            idempotency: None,
            command: Command::Hold(places),
        }
    }

    #[test]
    fn enough_for_all_that_choose_and_all_that_name() {
        assert_eq!(blocks(&[hold(3, 0)]), []);
        let batch = [hold(3, 0), hold(0, 2), hold(1, 4)];
        assert_eq!(
            blocks(&batch),
            [Wanted { event: EVENT, block: BLOCK, seats: LOOK_AROUND + 2 + 4 + 3 + 1 }]
        );
    }

    #[test]
    fn a_batch_that_wants_too_much_is_committed_in_portions() {
        let sizes = |batch: &[Request]| portions(batch).map(<[Request]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [] as [usize; 0]);
        assert_eq!(sizes(&[hold(100, 0), hold(0, 500), hold(1, 1)]), [3]);
        assert_eq!(sizes(&vec![hold(0, 500); 25]), [10, 10, 5]);
        assert_eq!(sizes(&vec![hold(0, 499); 25]), [10, 10, 5]);
        assert_eq!(sizes(&vec![hold(1, 0); 512]), [512]);
    }
}
