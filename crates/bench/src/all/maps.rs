//! A large event: how quickly it is known, what it takes in memory, and its map while it is being sold.

use std::sync::Arc;
use std::time::Instant;

use rowlock_core::EventId;

use super::Suite;
use super::checkout::step;
use super::field::{Peer, Server};
use super::report::{Maps, Step, Times};
use super::throughput::HoldSeats;
use crate::client::{self, Load, Pace, Requests, Run, Seats, drive};
use crate::peer::MEMORY;
use crate::servers::Fallible;

/// The same request again and again.
pub struct Same(pub Vec<u8>);

impl Requests for Same {
    fn next(&mut self, _: u64) -> Option<&[u8]> {
        Some(&self.0)
    }
}

const FORMS: [(&str, &str); 2] = [("compact map", "compact"), ("statuses alone", "status")];
/// Readers of a map wait for one another at most this much.
const READERS: u32 = 8;

impl Suite {
    pub async fn maps(&mut self) -> Fallible<Vec<Maps>> {
        let mut all = Vec::new();
        for peer in self.peers(&[Peer::Embedded, Peer::Node]) {
            self.progress.step(format!("maps during a sale: {}", peer.title()));
            let (maps, wrong) = self.maps_of(peer).await?;
            self.problems.extend(wrong.into_iter().map(|what| format!("maps, {}: {what}", peer.title())));
            all.push(maps);
        }
        Ok(all)
    }

    async fn maps_of(&self, peer: Peer) -> Fallible<(Maps, Vec<String>)> {
        let first = self.field.start(peer).await?;
        let seats = self.sizes.map_seats;
        let events: Vec<EventId> = first.seats(seats).await?.into_iter().map(|(event, _)| event).collect();
        let event = events[0];
        first.kill();
        let server = self.field.again(&first).await?;
        drop(first);
        let asked = Instant::now();
        server.occupancy(event).await?;
        let first_answer_ms = asked.elapsed().as_secs_f64() * 1e3;
        let memory = client::get(&format!("{MEMORY}/{event}"), &server.token("bench"), &[]);
        let (_, bytes) = server.call(&memory).await?;
        let bytes: f64 = String::from_utf8_lossy(&bytes).parse()?;

        for (_, form) in FORMS {
            self.draw(&server, event, form).await?;
        }
        let holds = self.sizes.map_holds_per_second;
        let source = Arc::new(Seats::of(events.clone(), seats, 1));
        let load = self.load(&server, self.sizes.turn, Pace::Open { per_second: holds });
        let selling = drive(&load, |i| HoldSeats::boxed(&server, i, &source, 0, u64::MAX));
        let (sold, compact, status) = tokio::join!(
            selling,
            self.read(&server, event, FORMS[0].1),
            self.read(&server, event, FORMS[1].1)
        );
        let (sold, runs) = (sold?, [compact?, status?]);
        let mut wrong = server.audit(&events, sold.done).await?;
        wrong.extend(unchanging(&sold, &runs));
        for (run, (name, _)) in runs.iter().zip(FORMS) {
            if run.bad() > 0 || run.done == 0 {
                wrong.push(format!("not every {name} was answered"));
            }
        }
        let reads: Vec<Step> = runs.iter().zip(FORMS).map(|(run, (name, _))| step(name, run)).collect();
        let maps = Maps {
            peer,
            seats,
            first_answer_ms,
            bytes_a_seat: bytes / f64::from(seats),
            holds_per_second: sold.per_second(),
            hold: Times::of(&sold),
            reads,
        };
        Ok((maps, wrong))
    }

    /// The static part of a map is drawn once: that is not what every reader waits for.
    async fn draw(&self, server: &Server<'_>, event: EventId, form: &str) -> std::io::Result<Run> {
        let load = Load {
            connections: 1,
            ..self.load(server, self.sizes.turn / 20, Pace::Open { per_second: 10.0 })
        };
        let request = request(server, event, form);
        drive(&load, |_| Box::new(Same(request.clone()))).await
    }

    async fn read(&self, server: &Server<'_>, event: EventId, form: &str) -> std::io::Result<Run> {
        let load = Load {
            connections: READERS,
            ..self.load(server, self.sizes.turn, Pace::Open { per_second: self.sizes.map_reads_per_second })
        };
        let request = request(server, event, form);
        drive(&load, |_| Box::new(Same(request.clone()))).await
    }
}

fn request(server: &Server<'_>, event: EventId, form: &str) -> Vec<u8> {
    let path = format!("/api/events/{event}/seats?form={form}");
    client::get(&path, &server.token("reader"), &["accept-encoding: gzip"])
}

/// A map that does not change is drawn once, and reading it again says nothing about a sale.
fn unchanging(sold: &Run, reads: &[Run]) -> Option<String> {
    let most = reads.iter().map(|run| run.done).max().unwrap_or(0);
    (sold.bad() > 0 || sold.done < most.max(1)).then(|| {
        format!("{} holds while a map was read {most} times, {} bad answers to holds", sold.done, sold.bad())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_nothing_changes_is_not_measured() {
        let run = |done, wrong| Run { done, wrong, ..Run::new() };
        assert_eq!(unchanging(&run(2_000, 0), &[run(100, 0), run(99, 0)]), None);
        for sold in [run(0, 0), run(0, 2_000), run(1_999, 1), run(98, 0)] {
            assert!(unchanging(&sold, &[run(99, 0), run(50, 0)]).is_some(), "{sold:?}");
        }
        assert!(unchanging(&run(0, 0), &[]).is_some());
    }
}
