//! Keeping up with other nodes.
//!
//! Whoever commits tells the others, by a way that may lose things. What is told, a gap in what is known, and a look at
//! the streams now and then all lead to the same: the journal is read from where this node's knowledge ends. So what
//! is known is late at times, and never wrong.

use std::time::Duration;

use rowlock_core::{EventId, Stream};
use rowlock_truth::Heard;
use tokio::time::MissedTickBehavior;

use crate::engine::Engine;
use crate::warm::{Announced, Announcement};

/// Facts read from the journal at once.
const PAGE: usize = 1_000;
/// A gap mostly closes by itself: the facts of another lane or node are on their way.
const PATIENCE: Duration = Duration::from_millis(15);

/// Runs until the engine stops. `look_every`: how often the streams are looked at when nobody tells anything.
pub(crate) async fn follow(engine: Engine, look_every: Duration) {
    let mut heard = engine.truth().listen();
    let mut announced = match engine.warm() {
        Some(warm) => warm.subscribe(),
        None => tokio::sync::mpsc::channel(1).1,
    };
    let mut look = tokio::time::interval(look_every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = engine.stopping() => return,
            Some(told) = heard.recv() => match told {
                Heard::Moved(streams) => moved(&engine, streams).await,
                Heard::Interrupted => look_at_all(&engine).await,
            },
            Some(announcement) = announced.recv() => match announcement {
                Announcement::Committed(committed) => learn(&engine, committed).await,
                Announcement::Interrupted => look_at_all(&engine).await,
            },
            events = engine.hot().gaps() => {
                tokio::time::sleep(PATIENCE).await;
                for event in events.into_iter().filter(|event| engine.hot().has_gap(*event)) {
                    catch_up(&engine, event).await;
                }
            }
            _ = look.tick() => look_at_all(&engine).await,
        }
    }
}

/// Takes in what another node has announced. Facts that are missing before these are a gap, which is closed as any.
async fn learn(engine: &Engine, committed: Announced) {
    match committed.stream {
        Stream::Org(org) => engine.forget_keys(org),
        Stream::Event(event) if committed.facts.is_empty() => look_at(engine, vec![event]).await,
        Stream::Event(event) => {
            for (sequence, fact) in &committed.facts {
                engine.learn(event, *sequence, fact);
            }
        }
    }
}

async fn moved(engine: &Engine, streams: Vec<Stream>) {
    let mut events = Vec::new();
    for stream in streams {
        match stream {
            Stream::Event(event) => events.push(event),
            // A key may have been revoked.
            Stream::Org(org) => engine.forget_keys(org),
        }
    }
    look_at(engine, events).await;
}

async fn look_at_all(engine: &Engine) {
    look_at(engine, engine.hot().ids()).await;
}

/// Catches up with those of the events in memory that have moved.
async fn look_at(engine: &Engine, mut events: Vec<EventId>) {
    events.retain(|event| engine.hot().sequence(*event).is_some());
    if events.is_empty() {
        return;
    }
    let heads = match engine.truth().heads(events).await {
        Ok(heads) => heads,
        Err(error) => return tracing::debug!(%error, "the streams can't be looked at"),
    };
    let behind =
        |(event, head): &(EventId, u64)| head.saturating_sub(engine.hot().sequence(*event).unwrap_or(*head));
    engine.metrics().follow_lag.set(heads.iter().map(behind).max().unwrap_or(0) as f64);
    for (event, head) in heads {
        if engine.hot().sequence(event).is_some_and(|known| known < head) {
            catch_up(engine, event).await;
        }
    }
}

/// Reads the journal of an event from where this node's knowledge of it ends.
pub(crate) async fn catch_up(engine: &Engine, event: EventId) {
    while let Some(known) = engine.hot().sequence(event) {
        let rows = match engine.truth().journal(Stream::Event(event), known, PAGE).await {
            Ok(rows) => rows,
            Err(error) => return tracing::debug!(%error, %event, "the journal can't be read"),
        };
        for row in &rows {
            match row.fact() {
                Some(fact) => engine.learn(event, row.sequence, &fact),
                // Written by a newer version: what it did can still be loaded.
                None => return engine.hot().drop_event(event),
            }
        }
        if rows.len() < PAGE {
            return;
        }
    }
}
