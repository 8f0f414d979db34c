//! What is stored, read from the store and not from the server: that answers from its memory, whether or not it has
//! written anything down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_core::EventId;
use rowlock_core::seat::SeatState;
use rowlock_truth::Truth;
use rowlock_truth::postgres::{PostgresOptions, PostgresTruth};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};

use super::{Field, Occupancy, Peer, Server, Store, now};
use crate::literal;
use crate::servers::{self, Fallible};

/// How long a node may take to hear of what others have sold, and how often it is asked.
const KNOWN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What is counted, and how: by Rowlock's tables and by those of the peers that people build themselves.
type Counts = [(&'static str, &'static str); 2];
const ROWLOCK: Counts = [
    ("holds", "SELECT count(*) FROM holds WHERE status = 0"),
    ("held seats", "SELECT count(*) FROM seats WHERE status = 1"),
];
const LITERAL: Counts = [
    ("holds", "SELECT count(*) FROM seat_holds"),
    ("held seats", "SELECT count(*) FROM seats WHERE status = 'held'"),
];

impl Server<'_> {
    /// What is wrong when so many holds of these events are active by their answers, one seat each: as many must be
    /// stored. Rowlock must show as many, too.
    pub async fn lost(&self, events: &[EventId], answered: u64) -> Fallible<Vec<String>> {
        let stored = self.stored().await?.into_iter().filter(|(_, count)| *count != answered);
        let mut wrong: Vec<String> = stored
            .map(|(what, count)| format!("{answered} holds were answered, and {count} {what} are stored"))
            .collect();
        if self.peer.is_rowlock() {
            let shown = self.shown_as_held(events, answered).await?;
            if shown != answered {
                wrong.push(format!("{answered} holds were answered, and {shown} seats are shown as held"));
            }
        }
        Ok(wrong)
    }

    /// The same, and what `rowlock verify` finds.
    pub async fn audit(&self, events: &[EventId], answered: u64) -> Fallible<Vec<String>> {
        let mut wrong = self.lost(events, answered).await?;
        wrong.extend(self.violations().await?);
        Ok(wrong)
    }

    async fn stored(&self) -> Fallible<Vec<(&'static str, u64)>> {
        if let Some(database) = &self.seen.database {
            let client = servers::connect(database).await?;
            let mut counts = Vec::new();
            for (what, sql) in if self.peer.is_rowlock() { ROWLOCK } else { LITERAL } {
                counts.push((what, servers::count(&client, sql).await?));
            }
            return Ok(counts);
        }
        // In the embedded store a seat's row does not say who holds it.
        let Some(truth) = self.truth().await? else { return Ok(Vec::new()) };
        let holds = truth.active_holds().await?;
        truth.close().await;
        let now = now();
        Ok(vec![("holds", holds.iter().filter(|hold| hold.expires_at > now).count() as u64)])
    }

    /// Until it has heard of all, what other nodes have sold included.
    async fn shown_as_held(&self, events: &[EventId], all: u64) -> Fallible<u64> {
        let last = Instant::now() + KNOWN;
        loop {
            let mut held = 0;
            for event in events {
                held += self.occupancy(*event).await?.held;
            }
            if held >= all || Instant::now() >= last {
                return Ok(held);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What is wrong when the server shows this of an event: the same must be stored.
    pub async fn unlike(&self, event: EventId, shown: &Occupancy) -> Fallible<Option<String>> {
        let stored = self.stored_places(event).await?;
        Ok((stored != *shown).then(|| format!("the server shows {shown:?}, and {stored:?} is stored")))
    }

    async fn stored_places(&self, event: EventId) -> Fallible<Occupancy> {
        let mut places = Occupancy::default();
        let Some(truth) = self.truth().await? else { return Ok(places) };
        let snapshot = truth.event(event).await?;
        truth.close().await;
        let Some(snapshot) = snapshot else { return Ok(places) };
        let now = now();
        for seat in &snapshot.seats {
            places.total += 1;
            match seat.state {
                SeatState::Held { until, .. } if until > now => places.held += 1,
                SeatState::Sold { .. } => places.sold += 1,
                // Nobody blocks any, and a hold that is over leaves its seat free.
                _ => places.available += 1,
            }
        }
        for area in &snapshot.areas {
            places.total += u64::from(area.capacity);
            places.held += u64::from(area.held);
            places.sold += u64::from(area.sold);
            places.available += u64::from(area.available());
        }
        Ok(places)
    }

    /// What `rowlock verify` finds. Nothing for the others, which it does not know.
    pub async fn violations(&self) -> Fallible<Vec<String>> {
        let Some(truth) = self.truth().await? else { return Ok(Vec::new()) };
        let report = truth.verify(Arc::new(|_, _, _| {})).await?;
        truth.close().await;
        Ok(report.violations.iter().map(ToString::to_string).collect())
    }

    /// A second look at what Rowlock has stored, from this process.
    async fn truth(&self) -> Fallible<Option<Box<dyn Truth>>> {
        Ok(match (self.peer.is_rowlock(), &self.seen.database, &self.seen.data) {
            (true, Some(url), _) => Some(Box::new(PostgresTruth::open_existing(options(url)).await?)),
            (true, None, Some(data)) => Some(Box::new(SqliteTruth::open_read_only(data)?)),
            _ => None,
        })
    }
}

impl Field {
    /// A store such as this peer has, in which nobody ever writes.
    pub(super) async fn untouched(&self, peer: Peer) -> Fallible<Store> {
        let store = self.store(peer, "_untouched").await?;
        match (peer, &store.database, &store.data) {
            (Peer::Node, Some(database), _) => {
                PostgresTruth::migrate(&options(database)).await?;
            }
            (_, Some(database), _) => {
                literal::prepare(database, 0, 0).await?;
            }
            (_, None, Some(data)) => SqliteTruth::open(data, SqliteOptions::default())?.close().await,
            (_, None, None) => {}
        }
        Ok(store)
    }
}

fn options(url: &str) -> PostgresOptions {
    PostgresOptions { url: url.to_owned(), ..PostgresOptions::default() }
}
