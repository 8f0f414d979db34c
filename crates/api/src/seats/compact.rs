//! The compact form: what never changes is drawn once an event, the statuses once a request.

use std::hash::BuildHasher;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rowlock_core::event::Event;
use rowlock_core::seat::SeatStatus;
use rowlock_core::{EventId, SeatId};
use rowlock_registry::LiveEvent;
use rowlock_registry::hot::Layout;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;
use uuid::Uuid;

use super::gzip::{self, Part};
use super::{Drawn, drawing, letter};
use crate::error::Problem;
use crate::events::{BlockView, TierView, tiers};
use crate::limits::MAX_CACHED_MAPS;

/// The static parts of maps by event.
#[derive(Default)]
pub struct MapCache {
    maps: Mutex<FxHashMap<EventId, Arc<StaticPart>>>,
    /// Whoever draws the map of an event has its turn. A few events share one.
    turns: [tokio::sync::Mutex<()>; 16],
}

/// Everything of a compact map but its sequence and statuses, as text and compressed.
struct StaticPart {
    layout_version: u64,
    text: Bytes,
    zipped: Part,
}

#[derive(Serialize)]
struct Head<'a> {
    event_id: Uuid,
    seat_id_prefix: String,
    currency: &'a str,
    blocks: Vec<BlockView<'a>>,
    rows: Vec<&'a str>,
    tiers: Vec<TierView<'a>>,
    columns: Columns<'a>,
}

/// By seat ordinal: indices into blocks, rows and tiers, and what has no list of its own.
#[derive(Serialize)]
struct Columns<'a> {
    block: &'a [u16],
    row: &'a [u32],
    number: &'a [u32],
    tier: &'a [u8],
    x: &'a [f32],
    y: &'a [f32],
}

impl MapCache {
    pub async fn draw(&self, live: &LiveEvent, zipped: bool) -> Result<Drawn, Problem> {
        // The statuses are copied last: many may wait for the static part.
        let (part, now) = loop {
            let (version, event, layout) = {
                let hot = live.read();
                (hot.layout_version(), Arc::clone(hot.event()), Arc::clone(hot.layout()))
            };
            let part = self.part(version, event, layout).await?;
            let now = Statuses::of(&live.read());
            if now.layout_version == version {
                break (part, now);
            }
        };
        let rest = now.text(b",");
        let chunks = if zipped {
            gzip::finish(&part.zipped, part.text.len(), &rest)
        } else {
            vec![part.text.clone(), rest.into()]
        };
        Ok((now.sequence, chunks))
    }

    async fn part(
        &self,
        version: u64,
        event: Arc<Event>,
        layout: Arc<Layout>,
    ) -> Result<Arc<StaticPart>, Problem> {
        let id = event.id;
        let known =
            || self.maps.lock().get(&id).filter(|part| part.layout_version == version).map(Arc::clone);
        if let Some(part) = known() {
            return Ok(part);
        }
        // When sales open everybody wants the same map, and nobody has it yet: one draws it for all.
        let turn = FxBuildHasher.hash_one(id) as usize % self.turns.len();
        let _turn = self.turns[turn].lock().await;
        if let Some(part) = known() {
            return Ok(part);
        }
        let part = Arc::new(drawing::draw(move || StaticPart::draw(version, &event, &layout)).await?);
        let mut maps = self.maps.lock();
        if maps.len() >= MAX_CACHED_MAPS && !maps.contains_key(&id) {
            // Drawing one again is cheap enough that which one leaves does not matter.
            if let Some(other) = maps.keys().next().copied() {
                maps.remove(&other);
            }
        }
        maps.insert(id, Arc::clone(&part));
        Ok(part)
    }
}

impl StaticPart {
    fn draw(layout_version: u64, event: &Event, layout: &Layout) -> Self {
        let blocks = layout.blocks.iter();
        let head = Head {
            event_id: event.id.uuid(),
            seat_id_prefix: SeatId::prefix(event.id),
            currency: event.currency.as_str(),
            blocks: blocks
                .map(|block| BlockView { block_id: block.id.uuid(), name: block.name.as_str() })
                .collect(),
            rows: layout.rows.iter().map(|row| row.as_str()).collect(),
            tiers: tiers(event),
            columns: Columns {
                block: &layout.block_of,
                row: &layout.row_of,
                number: &layout.number_of,
                tier: &layout.tier_of,
                x: &layout.x_of,
                y: &layout.y_of,
            },
        };
        let mut text = serde_json::to_vec(&head).expect("a map is JSON");
        // Left open: the sequence and the statuses follow.
        text.pop();
        let zipped = gzip::begin(&text);
        Self { layout_version, text: text.into(), zipped }
    }
}

/// The form for polling: statuses alone.
pub fn statuses(live: &LiveEvent, zipped: bool) -> Drawn {
    let now = Statuses::of(&live.read());
    let head = format!("{{\"event_id\":\"{}\",", live.id());
    let text = now.text(head.as_bytes());
    let chunks = if zipped { gzip::whole(&text) } else { vec![text.into()] };
    (now.sequence, chunks)
}

/// The part of a map that changes, copied out so that the event is not locked while it is written.
struct Statuses {
    sequence: u64,
    layout_version: u64,
    seats: Vec<SeatStatus>,
}

impl Statuses {
    fn of(hot: &rowlock_registry::HotEvent) -> Self {
        Self {
            sequence: hot.sequence(),
            layout_version: hot.layout_version(),
            seats: hot.statuses().to_vec(),
        }
    }

    fn text(&self, head: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(head.len() + self.seats.len() + 48);
        text.extend_from_slice(head);
        write!(text, "\"sequence\":{},\"status\":\"", self.sequence).expect("memory takes writes");
        text.extend(self.seats.iter().map(|status| letter(*status)));
        text.extend_from_slice(b"\"}");
        text
    }
}
