//! Telling other nodes that streams have moved, and hearing it from them.

use std::sync::Arc;
use std::time::Duration;

use rowlock_core::{EventId, OrgId, Stream};
use tokio::sync::mpsc;

use super::connect::Target;
use super::session::WRITING;
use crate::Heard;

pub(super) const CHANNEL: &str = "rowlock_journal";
/// Streams in one notification: Postgres takes less than 8000 bytes.
const MAX_STREAMS: usize = 150;
/// Notifications that may wait for whoever listens.
const MAX_WAITING: usize = 1024;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const CONNECT_AGAIN: Duration = Duration::from_millis(500);

/// The texts of the notifications that tell of these streams.
pub(super) fn payloads(streams: &[Stream]) -> Vec<String> {
    let name = |stream: &Stream| match stream {
        Stream::Event(event) => format!("e{event}"),
        Stream::Org(org) => format!("o{org}"),
    };
    streams.chunks(MAX_STREAMS).map(|some| some.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
}

fn streams(payload: &str) -> Vec<Stream> {
    let stream = |word: &str| match word.split_at_checked(1)? {
        ("e", id) => id.parse::<EventId>().ok().map(Stream::Event),
        ("o", id) => id.parse::<OrgId>().ok().map(Stream::Org),
        _ => None,
    };
    payload.split(' ').filter_map(stream).collect()
}

/// Listens until nobody reads any more. A lost connection is made again.
pub(super) fn listen(target: Target) -> mpsc::Receiver<Heard> {
    let (heard, hearing) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        while !heard.is_closed() {
            let tell = heard.clone();
            // A full queue loses nothing that the next look at the streams would not find.
            let connected = target
                .connect_hearing(
                    WRITING,
                    Arc::new(move |said| drop(tell.try_send(Heard::Moved(streams(said.payload()))))),
                )
                .await;
            let listening = match connected {
                Ok((client, timeline)) => {
                    let begun = client.batch_execute(&format!("LISTEN {CHANNEL}")).await;
                    begun.map(|()| (client, timeline)).ok()
                }
                Err(_) => None,
            };
            let Some((client, timeline)) = listening else {
                tokio::time::sleep(CONNECT_AGAIN).await;
                continue;
            };
            let _ = heard.send(Heard::Interrupted).await;
            while !client.is_closed() && !heard.is_closed() && !target.is_replaced(timeline) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    });
    hearing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard() {
        let id = uuid::Uuid::from_u128(7);
        let told = vec![Stream::Event(EventId::from_uuid(id)), Stream::Org(OrgId::from_uuid(id))];
        let payloads = payloads(&told);
        assert_eq!(payloads.len(), 1);
        assert_eq!(streams(&payloads[0]), told);
        assert!(streams("nonsense e ").is_empty());
    }

    #[test]
    fn many_streams_fit_into_notifications() {
        let all = vec![Stream::Event(EventId::from_uuid(uuid::Uuid::max())); 1_000];
        let payloads = payloads(&all);
        assert!(payloads.iter().all(|payload| payload.len() < 8_000));
        assert_eq!(payloads.iter().map(|payload| streams(payload).len()).sum::<usize>(), 1_000);
    }
}
