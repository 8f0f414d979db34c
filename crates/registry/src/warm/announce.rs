//! Nodes telling each other what was committed. Messages may be lost or come twice: sequences say so, and whoever
//! misses something reads the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use redis::{Cmd, cmd};
use rowlock_core::{Fact, OrgId, Stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::Warm;
use super::apply::Batch;
use super::closings::Closings;
use super::link::Connector;

/// Announcements that wait for the listener. More are dropped, and it is told so.
const QUEUE: usize = 4_096;
/// A message longer than this has no facts in it, only up to where to read the journal.
const MAX_MESSAGE: usize = 256 * 1024;
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq)]
pub enum Announcement {
    /// Another node has committed facts.
    Committed(Announced),
    /// Something may have been missed: the connection was new, or the listener too slow. The journal knows.
    Interrupted,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Announced {
    pub node: Uuid,
    pub org: OrgId,
    pub stream: Stream,
    /// The last sequence that was committed with these.
    pub sequence: u64,
    /// In sequence. Empty when there was too much to say: then the journal has it.
    pub facts: Vec<(u64, Fact)>,
}

#[derive(Serialize, Deserialize)]
struct Message<'a> {
    /// First, so that a node knows its own without reading them.
    node: Uuid,
    org: OrgId,
    /// The event, or nothing for the stream of the org itself.
    event: Option<rowlock_core::EventId>,
    sequence: u64,
    #[serde(borrow)]
    facts: Vec<(u64, Kind<'a>, &'a RawValue)>,
}

#[derive(Serialize, Deserialize)]
struct Kind<'a>(&'a str);

impl Warm {
    pub(super) fn announcement(&self, batch: &Batch<'_>) -> Cmd {
        let data: Vec<_> =
            batch.facts.iter().map(|(_, fact)| serde_json::value::to_raw_value(fact)).collect();
        let facts = batch.facts.iter().zip(&data);
        let facts = facts.filter_map(|((sequence, fact), data)| {
            Some((*sequence, Kind(fact.kind()), &**data.as_ref().ok()?))
        });
        let mut message = Message {
            node: self.inner.node,
            org: batch.org,
            event: match batch.stream {
                Stream::Event(event) => Some(event),
                Stream::Org(_) => None,
            },
            sequence: batch.facts.last().map_or(0, |(sequence, _)| *sequence),
            facts: facts.collect(),
        };
        let mut length = 0;
        message.facts.iter().for_each(|(_, _, data)| length += data.get().len());
        if length > MAX_MESSAGE {
            message.facts.clear();
        }
        let text = serde_json::to_string(&message).expect("a message can be written as JSON");
        cmd("PUBLISH").arg(self.keys().facts()).arg(text).to_owned()
    }

    /// What other nodes commit from now on. Ends when the receiver is dropped. With several servers it comes over
    /// each of them, so several times: as long as one of them is up, it comes.
    pub fn subscribe(&self) -> mpsc::Receiver<Announcement> {
        let (announcements, receiver) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicBool::new(false));
        for server in &self.inner.servers {
            let listener = Listener {
                connector: server.connector().clone(),
                channel: self.keys().facts(),
                node: self.inner.node,
                announcements: announcements.clone(),
                lost: Arc::clone(&lost),
                connect_timeout: self.inner.options.connect_timeout,
            };
            tokio::spawn(listener.run(self.closings()));
        }
        receiver
    }
}

struct Listener {
    connector: Connector,
    channel: String,
    node: Uuid,
    announcements: mpsc::Sender<Announcement>,
    /// Something was dropped because the queue was full, and the listener has not been told yet.
    lost: Arc<AtomicBool>,
    connect_timeout: Duration,
}

impl Listener {
    async fn run(self, mut closings: Closings) {
        let mut retry = FIRST_RETRY;
        loop {
            closings.mark_unchanged();
            // In order, so that a simulated run can be repeated. None of them is ready again and again.
            tokio::select! {
                biased;
                () = self.announcements.closed() => return,
                // After an outage an old connection may be dead without knowing it.
                () = closings.changed() => {}
                heard = self.listen() => if heard { retry = FIRST_RETRY },
            }
            tokio::select! {
                biased;
                () = self.announcements.closed() => return,
                () = sleep(retry) => retry = (retry * 2).min(LAST_RETRY),
            }
        }
    }

    /// Listens until the connection ends. `false` when there was none.
    async fn listen(&self) -> bool {
        let connect = self.connector.subscribe(&self.channel);
        let Ok(Ok(mut messages)) = timeout(self.connect_timeout * 4, connect).await else { return false };
        self.tell(Announcement::Interrupted);
        while let Some(message) = messages.next().await {
            match read(&message, self.node) {
                Some(Some(announced)) => self.tell(Announcement::Committed(announced)),
                Some(None) => {}
                None => {
                    tracing::warn!("an announcement of another node can't be read");
                    self.tell(Announcement::Interrupted);
                }
            }
        }
        true
    }

    /// Never waits: a slow listener must not make Redis keep messages for us.
    fn tell(&self, announcement: Announcement) {
        if self.lost.load(Ordering::Relaxed) && self.announcements.try_send(Announcement::Interrupted).is_ok()
        {
            self.lost.store(false, Ordering::Relaxed);
        }
        if let Err(TrySendError::Full(_)) = self.announcements.try_send(announcement) {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

/// `Some(None)`: our own, which is half of all that a busy node hears or more, so it is not read beyond its head.
pub(super) fn read(payload: &[u8], own: Uuid) -> Option<Option<Announced>> {
    if payload.starts_with(format!("{{\"node\":\"{own}\"").as_bytes()) {
        return Some(None);
    }
    let message: Message<'_> = serde_json::from_slice(payload).ok()?;
    let facts = message.facts.iter();
    let facts =
        facts.map(|(sequence, kind, data)| Some((*sequence, rowlock_truth::read::fact(kind.0, data.get())?)));
    Some(Some(Announced {
        node: message.node,
        org: message.org,
        stream: message.event.map_or(Stream::Org(message.org), Stream::Event),
        sequence: message.sequence,
        facts: facts.collect::<Option<_>>()?,
    }))
}
