//! Telling the warm tier and the other nodes what this one has committed.

use std::collections::BTreeMap;

use rowlock_core::{EventId, Fact, OrgId, Stream};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::reconcile;
use crate::warm::{Applied, Batch, Warm};

/// Batches whose news are gathered into one.
const MAX_GATHERED: usize = 64;
/// Events whose orgs are remembered.
const MAX_ORGS: usize = 65_536;

/// Runs until the engine stops.
pub(crate) async fn announce(engine: Engine, mut batches: mpsc::Receiver<Vec<(u64, Fact)>>) {
    let mut gathered = Vec::new();
    let mut orgs = Orgs::default();
    loop {
        tokio::select! {
            biased;
            taken = batches.recv_many(&mut gathered, MAX_GATHERED) => if taken == 0 { return },
            () = engine.stopping() => return,
        }
        let mut streams: BTreeMap<Stream, Vec<(u64, &Fact)>> = BTreeMap::new();
        for (sequence, fact) in gathered.iter().flatten() {
            streams.entry(fact.stream()).or_default().push((*sequence, fact));
        }
        let told = match engine.warm() {
            Some(warm) => tell_warm(&engine, warm, &mut orgs, &mut streams).await,
            None => false,
        };
        if !told && let Err(error) = engine.truth().tell(streams.keys().copied().collect()).await {
            tracing::debug!(%error, "other nodes could not be told of a commit");
        }
        drop(streams);
        gathered.clear();
    }
}

/// `false`: Redis is away, and the nodes must hear of it in another way.
async fn tell_warm(
    engine: &Engine,
    warm: &Warm,
    orgs: &mut Orgs,
    streams: &mut BTreeMap<Stream, Vec<(u64, &Fact)>>,
) -> bool {
    let mut batches = Vec::with_capacity(streams.len());
    let mut untold = Vec::new();
    for (stream, facts) in streams {
        facts.sort_unstable_by_key(|(sequence, _)| *sequence);
        match orgs.of(engine, *stream, facts).await {
            Some(org) => batches.push(Batch { org, stream: *stream, facts: facts.clone() }),
            None => untold.push(*stream),
        }
    }
    if !untold.is_empty() {
        engine.metrics().announcements_lost.increment(untold.len() as u64);
        let _ = engine.truth().tell(untold).await;
    }
    let of_events = batches.iter().filter_map(|batch| match batch.stream {
        Stream::Event(event) => Some((batch.org, event)),
        Stream::Org(_) => None,
    });
    let Ok(applied) = warm.apply(engine.now(), &batches).await else {
        of_events.for_each(|(org, event)| engine.behind().note_failed(org, event));
        return false;
    };
    for ((org, event), applied) in of_events.zip(applied) {
        match applied {
            Applied::Missing => reconcile::rebuild_soon(engine, org, event),
            // Mostly the fact that is missing is on its way. If not, the next reconciliation finds out.
            Applied::Waiting(_) => engine.behind().note(org, event),
            Applied::Current(_) => {}
        }
    }
    true
}

/// The orgs of events: keys in Redis begin with them, and not every fact says.
#[derive(Default)]
struct Orgs {
    known: FxHashMap<EventId, OrgId>,
}

impl Orgs {
    async fn of(&mut self, engine: &Engine, stream: Stream, facts: &[(u64, &Fact)]) -> Option<OrgId> {
        let event = match stream {
            Stream::Org(org) => return Some(org),
            Stream::Event(event) => event,
        };
        if let Some(org) = self.known.get(&event) {
            return Some(*org);
        }
        let said = facts.iter().find_map(|(_, fact)| match fact {
            Fact::EventCreated(event) => Some(event.org),
            Fact::HoldCreated(hold) => Some(hold.org),
            Fact::BookingConfirmed(booking) | Fact::BookingCancelled(booking) => Some(booking.org),
            _ => None,
        });
        let org = match said {
            Some(org) => org,
            None => engine.truth().shape(event).await.ok()??.org,
        };
        if self.known.len() >= MAX_ORGS {
            self.known.clear();
        }
        self.known.insert(event, org);
        Some(org)
    }
}
