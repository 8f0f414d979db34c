//! The full form: an object a seat, for small events, single blocks and people with curl.

use std::sync::Arc;

use bytes::Bytes;
use rowlock_core::event::Event;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{BlockId, SeatId};
use rowlock_registry::LiveEvent;
use rowlock_registry::hot::Layout;
use serde::Serialize;
use serde::ser::SerializeSeq;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Drawn, drawing, gzip};
use crate::error::Problem;
use crate::events::{BlockView, TierView, tier_code};
use crate::wire::{SeatStatusWord, Text, Timestamp};

/// Maps with fewer seats than this are written where they are asked for; larger ones on a thread of their own.
const SMALL: usize = 500;

#[derive(Serialize, ToSchema)]
#[schema(as = Seat)]
pub struct SeatView<'a> {
    seat_id: Uuid,
    /// Row and number.
    label: String,
    block_id: Uuid,
    row: &'a str,
    number: u32,
    /// The code of its price tier.
    tier: &'a str,
    /// Minor units of the event's currency.
    price: i64,
    /// Position on the map.
    x: f32,
    y: f32,
    #[schema(inline)]
    status: SeatStatusWord,
    /// When the hold on it ends, unless it is extended or confirmed. Only when one seat is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub held_until: Option<Timestamp>,
}

impl<'a> SeatView<'a> {
    pub fn new(event: &'a Event, layout: &'a Layout, ordinal: u32, status: SeatStatus) -> Self {
        let (row, number, tier) = (layout.row(ordinal), layout.number(ordinal), layout.tier(ordinal));
        Self {
            seat_id: SeatId::of(event.id, ordinal).uuid(),
            label: rowlock_core::seat::label(row, number),
            block_id: layout.block(ordinal).id.uuid(),
            row,
            number,
            tier: tier_code(event, tier),
            price: event.price(tier),
            x: layout.x_of[ordinal as usize],
            y: layout.y_of[ordinal as usize],
            status: Text(status),
            held_until: None,
        }
    }
}

/// The map in one of its forms.
#[derive(ToSchema)]
#[schema(as = SeatMap)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "it only describes; nobody ever makes one")]
pub enum SeatMap<'a> {
    Full(FullMap<'a>),
    Compact(CompactMap<'a>),
    Status(StatusMap<'a>),
}

#[derive(ToSchema)]
#[allow(dead_code)]
pub struct FullMap<'a> {
    event_id: Uuid,
    /// The journal sequence that the statuses are of.
    sequence: u64,
    #[schema(min_length = 3, max_length = 3)]
    currency: &'a str,
    seats: Vec<SeatView<'a>>,
}

#[derive(ToSchema)]
#[allow(dead_code)]
pub struct CompactMap<'a> {
    event_id: Uuid,
    sequence: u64,
    #[schema(min_length = 3, max_length = 3)]
    currency: &'a str,
    /// A seat's id is this and its ordinal as eight hex digits.
    #[schema(min_length = 28, max_length = 28)]
    seat_id_prefix: &'a str,
    blocks: Vec<BlockView<'a>>,
    rows: Vec<&'a str>,
    tiers: Vec<TierView<'a>>,
    columns: MapColumns,
    /// One letter a seat by ordinal.
    #[schema(pattern = "^[ahsb]*$")]
    status: &'a str,
}

/// By seat ordinal.
#[derive(ToSchema)]
#[allow(dead_code)]
pub struct MapColumns {
    /// Index into blocks.
    block: Vec<u16>,
    /// Index into rows.
    row: Vec<u32>,
    number: Vec<u32>,
    /// Index into tiers.
    #[schema(value_type = Vec<u32>)]
    tier: Vec<u8>,
    x: Vec<f32>,
    y: Vec<f32>,
}

#[derive(ToSchema)]
#[allow(dead_code)]
pub struct StatusMap<'a> {
    event_id: Uuid,
    sequence: u64,
    /// One letter a seat by ordinal.
    #[schema(pattern = "^[ahsb]*$")]
    status: &'a str,
}

#[derive(Serialize)]
struct Map<'a> {
    event_id: Uuid,
    sequence: u64,
    currency: &'a str,
    seats: Seats<'a>,
}

struct Seats<'a> {
    snapshot: &'a Snapshot,
}

/// What is needed of an event, so that it is not locked while the map is written.
struct Snapshot {
    event: Arc<Event>,
    layout: Arc<Layout>,
    sequence: u64,
    statuses: Vec<SeatStatus>,
    block: Option<BlockId>,
}

impl Serialize for Seats<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Snapshot { event, layout, statuses, block, .. } = self.snapshot;
        let mut list = serializer.serialize_seq(None)?;
        for (ordinal, status) in (0..).zip(statuses) {
            if block.is_none_or(|block| layout.block(ordinal).id == block) {
                list.serialize_element(&SeatView::new(event, layout, ordinal, *status))?;
            }
        }
        list.end()
    }
}

impl Snapshot {
    fn write(&self, zipped: bool) -> Vec<Bytes> {
        let map = Map {
            event_id: self.event.id.uuid(),
            sequence: self.sequence,
            currency: self.event.currency.as_str(),
            seats: Seats { snapshot: self },
        };
        let mut text = serde_json::to_vec(&map).expect("a map is JSON");
        if zipped {
            return gzip::whole(&text);
        }
        text.shrink_to_fit();
        vec![text.into()]
    }
}

pub async fn draw(live: Arc<LiveEvent>, block: Option<BlockId>, zipped: bool) -> Result<Drawn, Problem> {
    if live.read().statuses().len() >= SMALL {
        drawing::check_free()?;
    }
    let snapshot = {
        let hot = live.read();
        Snapshot {
            event: Arc::clone(hot.event()),
            layout: Arc::clone(hot.layout()),
            sequence: hot.sequence(),
            statuses: hot.statuses().to_vec(),
            block,
        }
    };
    let sequence = snapshot.sequence;
    // Small ones take no more than their connections do.
    if snapshot.statuses.len() < SMALL {
        return Ok((sequence, snapshot.write(zipped)));
    }
    let org = live.org();
    Ok((sequence, drawing::under_way(org, drawing::draw(move || snapshot.write(zipped)).await?)?))
}
