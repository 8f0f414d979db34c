//! An event between the hot and the warm tier: its layout as bytes, and its state as Redis has it.

use rowlock_core::area::Area;
use rowlock_core::event::{Block, Event};
use rowlock_core::seat::{SeatPlace, SeatState};
use rowlock_core::slice::EventRow;
use rowlock_core::text::Row;
use rowlock_core::{BlockId, TicketId, UserId};
use rowlock_truth::read::{EventShape, EventSnapshot, SeatSnapshot};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::warm::{WarmArea, WarmEvent, WarmHeld};

/// Bytes of one seat in a stored layout.
const SEAT_BYTES: usize = 2 + 4 + 4 + 1 + 4 + 4;
/// The first byte of a stored layout: another form of it has another number, and is not read.
const FORM: u8 = 1;

/// What there is once for all seats.
#[derive(Serialize, Deserialize)]
struct Head {
    event: Event,
    blocks: Vec<Block>,
    areas: Vec<Area>,
    rows: Vec<Row>,
}

/// The part of an event that does not change when seats are sold.
pub(crate) fn layout_bytes(snapshot: &EventSnapshot) -> Vec<u8> {
    let blocks: FxHashMap<BlockId, u16> =
        snapshot.row.blocks.iter().enumerate().map(|(i, block)| (block.id, i as u16)).collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut row_of: FxHashMap<Row, u32> = FxHashMap::default();
    let mut seats = Vec::with_capacity(snapshot.seats.len() * SEAT_BYTES);
    for seat in &snapshot.seats {
        let place = &seat.place;
        let row = *row_of.entry(place.row.clone()).or_insert_with(|| {
            rows.push(place.row.clone());
            rows.len() as u32 - 1
        });
        seats.extend(blocks[&place.block].to_le_bytes());
        seats.extend(row.to_le_bytes());
        seats.extend(place.number.to_le_bytes());
        seats.push(place.tier);
        seats.extend(place.x.to_le_bytes());
        seats.extend(place.y.to_le_bytes());
    }
    let head = Head {
        event: snapshot.row.event.clone(),
        blocks: snapshot.row.blocks.clone(),
        areas: snapshot.areas.clone(),
        rows,
    };
    let head = serde_json::to_vec(&head).expect("a layout can be written as JSON");
    let mut bytes = vec![FORM];
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend(head);
    bytes.extend(seats);
    bytes
}

/// The state of an event as Redis keeps it.
pub(crate) fn warm_event(snapshot: &EventSnapshot) -> WarmEvent {
    let words = snapshot.seats.len().div_ceil(64);
    let (mut free, mut sold) = (vec![0_u64; words], vec![0_u64; words]);
    let mut held = Vec::new();
    for (i, seat) in snapshot.seats.iter().enumerate() {
        let bit = 1 << (i % 64);
        match (seat.state, &seat.user) {
            (SeatState::Available, _) => free[i / 64] |= bit,
            (SeatState::Sold { .. }, _) => sold[i / 64] |= bit,
            (SeatState::Held { hold, until }, Some(user)) => {
                held.push(WarmHeld { ordinal: i as u32, hold, user: user.clone(), until });
            }
            (SeatState::Held { .. } | SeatState::Blocked, _) => {}
        }
    }
    let mut areas: Vec<WarmArea> = snapshot
        .areas
        .iter()
        .map(|area| WarmArea { area: area.id, held: area.held, sold: area.sold })
        .collect();
    areas.sort_unstable_by_key(|area| area.area);
    WarmEvent {
        event: snapshot.row.event.id,
        sequence: snapshot.sequence,
        seats: snapshot.seats.len() as u32,
        free,
        sold,
        held,
        areas,
    }
}

/// The event from what Redis has of it. `None` when its parts do not belong together.
pub(crate) fn from_warm(layout: &[u8], warm: &WarmEvent, shape: EventShape) -> Option<EventSnapshot> {
    let (form, rest) = layout.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (head, seats) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let head: Head = serde_json::from_slice(head).ok().filter(|_| *form == FORM)?;
    let belongs = head.event.id == warm.event
        && head.event.org == shape.org
        && seats.len() == warm.seats as usize * SEAT_BYTES
        && (warm.seats, head.blocks.len(), head.areas.len())
            == (shape.seats, shape.blocks as usize, shape.areas as usize)
        && head.areas.iter().all(|area| usize::from(area.tier) < head.event.tiers.len());
    if !belongs {
        return None;
    }
    let mut held = warm.held.iter().peekable();
    let mut snapshots = Vec::with_capacity(warm.seats as usize);
    for (i, bytes) in seats.chunks_exact(SEAT_BYTES).enumerate() {
        let place = place(bytes, &head)?;
        let is_set = |bits: &[u64]| bits.get(i / 64).is_some_and(|word| word & (1 << (i % 64)) != 0);
        let (state, user): (SeatState, Option<UserId>) = match held.next_if(|held| held.ordinal as usize == i)
        {
            Some(held) => (SeatState::Held { hold: held.hold, until: held.until }, Some(held.user.clone())),
            None if is_set(&warm.free) => (SeatState::Available, None),
            // Nobody who loads an event from here asks for the ticket.
            None if is_set(&warm.sold) => {
                (SeatState::Sold { ticket: TicketId::from_uuid(Uuid::nil()) }, None)
            }
            None => (SeatState::Blocked, None),
        };
        snapshots.push(SeatSnapshot { place, state, user });
    }
    let areas = head
        .areas
        .into_iter()
        .map(|area| {
            let counts = warm.areas.iter().find(|counts| counts.area == area.id)?;
            let taken = u64::from(counts.held) + u64::from(counts.sold);
            let area = Area { held: counts.held, sold: counts.sold, ..area };
            (taken <= u64::from(area.capacity)).then_some(area)
        })
        .collect::<Option<Vec<Area>>>()?;
    let row = EventRow {
        event: head.event,
        seat_count: warm.seats,
        blocks: head.blocks,
        areas: areas.iter().map(|area| (area.id, area.name.clone())).collect(),
    };
    Some(EventSnapshot { row, areas, seats: snapshots, sequence: warm.sequence })
}

fn place(bytes: &[u8], head: &Head) -> Option<SeatPlace> {
    let (block, rest) = bytes.split_first_chunk()?;
    let (row, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (tier, rest) = rest.split_first()?;
    let (x, rest) = rest.split_first_chunk()?;
    let (y, _) = rest.split_first_chunk()?;
    let (x, y) = (f32::from_le_bytes(*x), f32::from_le_bytes(*y));
    // Whoever draws the seat looks its tier up, and has no way to write what is not a number.
    if usize::from(*tier) >= head.event.tiers.len() || !x.is_finite() || !y.is_finite() {
        return None;
    }
    Some(SeatPlace {
        block: head.blocks.get(usize::from(u16::from_le_bytes(*block)))?.id,
        row: head.rows.get(u32::from_le_bytes(*row) as usize)?.clone(),
        number: u32::from_le_bytes(*number),
        tier: *tier,
        x,
        y,
    })
}
