//! What nodes show, looked at while a run goes on.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::area::Area;
use rowlock_core::seat::SeatState;
use rowlock_core::{SeatId, Stream};
use rowlock_registry::hot::HotEvent;
use tokio::time::{sleep, timeout};

use super::clock::since_start;
use super::store::tables::Tables;
use super::world::{ANSWER_WITHIN, EventInfo, World};

/// E: a seat is shown free at most this long after its hold has ended.
const SHOWN_FREE_WITHIN: i64 = 1_000;

/// E: from the end of the recovery on no node shows a seat as held long after its hold has ended.
pub async fn maps(world: Arc<World>, events: Vec<EventInfo>) {
    loop {
        sleep(Duration::from_millis(250)).await;
        if !world.is_strict() {
            continue;
        }
        let now = world.clock.now();
        for node in 0..world.plan.nodes {
            let Some(engine) = world.engine(node) else { continue };
            for event in &events {
                let Ok(Ok(live)) = timeout(ANSWER_WITHIN, engine.event(event.org, event.id)).await else {
                    world.history.violation('L', format_args!("node {node} can't show event {}", event.id));
                    continue;
                };
                let hot = live.read();
                let late = |ordinal: &u32| {
                    let seat = hot.seat(*ordinal);
                    seat.held_until.is_some_and(|until| until.plus_millis(SHOWN_FREE_WITHIN) < now)
                };
                if let Some(ordinal) = (0..hot.seat_count()).find(late) {
                    let until = hot.seat(ordinal).held_until.map_or(0, since_start);
                    world.history.violation(
                        'E',
                        format_args!(
                            "node {node} still shows seat {ordinal} of {} held until {until} ms",
                            event.id
                        ),
                    );
                    return;
                }
            }
        }
    }
}

/// L: what a node has in memory may be old, but it is the truth of its sequence, faults or not.
pub async fn memory(world: Arc<World>, events: Vec<EventInfo>) {
    loop {
        sleep(Duration::from_millis(50)).await;
        for node in 0..world.plan.nodes {
            let Some(engine) = world.engine(node) else { continue };
            for event in &events {
                let Some(live) = engine.in_memory(event.id) else { continue };
                let wrong = differs(&live.read(), event, &world.store.tables.lock());
                if let Some(what) = wrong {
                    let event = event.id;
                    world.history.violation('L', format_args!("node {node} has {what} of {event} wrong"));
                    return;
                }
            }
        }
    }
}

/// What is wrong in memory. `None` also when it is of another sequence than the rows.
fn differs(hot: &HotEvent, event: &EventInfo, tables: &Tables) -> Option<String> {
    let rows = tables.streams.get(&Stream::Event(event.id))?;
    if rows.last()?.sequence != hot.sequence() {
        return None;
    }
    let is_wrong = |ordinal: &u32| {
        let state = tables.seats.get(&SeatId::of(event.id, *ordinal)).map(|(seat, _)| seat.state);
        let (status, hold) = hot.status_and_hold(*ordinal);
        let until = hot.seat(*ordinal).held_until;
        match state {
            Some(SeatState::Held { hold: holds, until: ends }) => (hold, until) != (holds, Some(ends)),
            Some(state) => state.status() != status,
            None => true,
        }
    };
    if let Some(ordinal) = (0..hot.seat_count()).find(is_wrong) {
        return Some(format!("seat {ordinal}"));
    }
    let is_wrong = |area: &&Area| {
        let stored = tables.areas.get(&area.id).map(|(stored, _)| (stored.held, stored.sold));
        stored != Some((area.held, area.sold))
    };
    hot.areas().iter().find(is_wrong).map(|area| format!("area {}", area.id))
}
