//! Keeping up with other nodes.
//!
//! Whoever commits tells the others, by a way that may lose things. What is told, a gap in what is known, and a look at
//! the streams now and then all lead to the same: the journal is read from where this node's knowledge ends. So what
//! is known is late at times, and never wrong.

use std::cmp::Ordering;
use std::time::Duration;

use rowlock_core::{EventId, Fact, Stream};
use rowlock_truth::Heard;
use rustc_hash::FxHashMap;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::engine::Engine;
use crate::warm::{Announced, Announcement, Batch};

/// Facts read from the journal at once.
const PAGE: usize = 1_000;
/// A gap mostly closes by itself: the facts of another lane or node are on their way. Among nodes that sell the same event
/// there is nearly always one, so what counts is one that has not moved for this long.
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
    let mut history = engine.truth().history();
    let mut gaps = Gaps::default();
    loop {
        // In order, so that a simulated run can be repeated. The look and the gaps that were waited for come first, and at
        // most every so often: they leave time for the others, and find whatever a flood of news keeps those behind it from.
        // New gaps come last, because the news before them may close them.
        tokio::select! {
            biased;
            () = engine.stopping() => return,
            () = sleep_until(gaps.until), if !gaps.seen.is_empty() => gaps.close(&engine).await,
            _ = look.tick() => {
                look_at_all(&engine).await;
                if engine.truth().history() != history {
                    history = engine.truth().history();
                    // Facts that were lost show as a journal that is too short only until others have taken their place.
                    tracing::warn!("the truth was replaced: what memory and Redis have is compared with it");
                    engine.reconcile_soon();
                }
            }
            Some(told) = heard.recv() => match told {
                Heard::Moved(streams) => moved(&engine, streams).await,
                Heard::Interrupted => look_at_all(&engine).await,
            },
            Some(announcement) = announced.recv() => match announcement {
                Announcement::Committed(committed) => learn(&engine, committed).await,
                Announcement::Interrupted => look_at_all(&engine).await,
            },
            events = engine.hot().gaps(), if gaps.seen.is_empty() => gaps.note(&engine, events),
        }
    }
}

/// Events with facts that can't be taken in, because some before them are missing.
struct Gaps {
    /// With the sequence up to which an event was known.
    seen: Vec<(EventId, u64)>,
    until: Instant,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { seen: Vec::new(), until: Instant::now() }
    }
}

impl Gaps {
    fn note(&mut self, engine: &Engine, events: Vec<EventId>) {
        let known = |event| Some((event, engine.hot().sequence(event)?));
        self.seen = events.into_iter().filter_map(known).collect();
        self.until = Instant::now() + PATIENCE;
    }

    /// Closes those that have stood still. Those that have moved may be others by now.
    async fn close(&mut self, engine: &Engine) {
        let mut moved = Vec::new();
        for (event, before) in std::mem::take(&mut self.seen) {
            if !engine.hot().has_gap(event) {
                continue;
            }
            if engine.hot().sequence(event) == Some(before) {
                catch_up(engine, event).await;
            } else {
                moved.push(event);
            }
        }
        self.note(engine, moved);
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
    // Read before the heads are: what this node learns meanwhile must not look like something that the truth has lost.
    let known: FxHashMap<EventId, u64> =
        events.iter().filter_map(|event| Some((*event, engine.hot().sequence(*event)?))).collect();
    let heads = match engine.truth().heads(events).await {
        Ok(heads) => heads,
        Err(error) => return tracing::debug!(%error, "the streams can't be looked at"),
    };
    let behind =
        |(event, head): &(EventId, u64)| head.saturating_sub(known.get(event).copied().unwrap_or(*head));
    engine.metrics().follow_lag.set(heads.iter().map(behind).max().unwrap_or(0) as f64);
    for (event, head) in heads {
        match known.get(&event).map(|known| known.cmp(&head)) {
            Some(Ordering::Less) => catch_up(engine, event).await,
            Some(Ordering::Greater) => gone_back(engine, event).await,
            Some(Ordering::Equal) | None => {}
        }
    }
}

/// The truth has less than this node has seen: it was replaced by a standby or a backup that missed the end. Then
/// everything that was learned from the lost part is wrong.
async fn gone_back(engine: &Engine, event: EventId) {
    tracing::error!(%event, "the truth has lost facts that it had; memory and Redis forget the event");
    if let (Some(warm), Some(live)) = (engine.warm(), engine.hot().peek(event)) {
        let _ = warm.forget(live.org(), event).await;
    }
    engine.hot().drop_event(event);
}

/// Reads the journal of an event from where this node's knowledge of it ends.
pub(crate) async fn catch_up(engine: &Engine, event: EventId) {
    while let Some(known) = engine.hot().sequence(event) {
        let rows = match engine.truth().journal(Stream::Event(event), known, PAGE).await {
            Ok(rows) => rows,
            Err(error) => return tracing::debug!(%error, %event, "the journal can't be read"),
        };
        engine.metrics().looked_up.increment(rows.len() as u64);
        let mut facts = Vec::with_capacity(rows.len());
        for row in &rows {
            match row.fact() {
                Some(fact) => facts.push((row.sequence, fact)),
                // Written by a newer version: what it did can still be loaded.
                None => {
                    let (kind, sequence) = (&row.kind, row.sequence);
                    tracing::info!(%event, kind, sequence, "a fact that this version does not know: loading the event again");
                    return engine.hot().drop_event(event);
                }
            }
        }
        for (sequence, fact) in &facts {
            engine.learn(event, *sequence, fact);
        }
        pass_on(engine, event, &facts).await;
        if rows.len() < PAGE {
            return;
        }
    }
}

/// Facts that had to be looked up were perhaps never announced, because their node is gone: then Redis misses them too.
async fn pass_on(engine: &Engine, event: EventId, facts: &[(u64, Fact)]) {
    let (Some(warm), Some(live)) = (engine.warm(), engine.hot().peek(event)) else { return };
    if !facts.is_empty() {
        let facts = facts.iter().map(|(sequence, fact)| (*sequence, fact)).collect();
        let batch = Batch { org: live.org(), stream: Stream::Event(event), facts };
        if warm.apply(engine.now(), &[batch]).await.is_err() {
            engine.behind().note_failed(live.org(), event);
        }
    }
}
