//! One seat and a thousand users; and areas, large and small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rowlock_core::EventId;

use super::Suite;
use super::field::{Peer, Server, Times as HoldTimes};
use super::report::{Area, Crowd, Times};
use crate::client::{self, Answer, HoldRequest, Load, Pace, Requests, Run, drive};
use crate::random::Random;
use crate::servers::Fallible;
use crate::serving::HOLD;
use crate::stats::Spread;

/// Everybody asks once, at the same time.
struct Once {
    request: Vec<u8>,
    asked: bool,
}

impl Requests for Once {
    fn next(&mut self, _: u64) -> Option<&[u8]> {
        (!std::mem::replace(&mut self.asked, true)).then_some(&self.request[..])
    }
}

/// Places of an area, one to four at a time, each time in another cart.
struct Places {
    token: String,
    event: EventId,
    area: String,
    random: Random,
    request: Vec<u8>,
    asked: u64,
    /// Places that were answered with a hold, of all connections.
    answered: Arc<AtomicU64>,
}

impl Requests for Places {
    fn next(&mut self, number: u64) -> Option<&[u8]> {
        self.asked = 1 + self.random.bits() % 4;
        let body = places(self.event, &self.area, self.asked, &format!("c{number}"));
        self.request = client::post(HOLD, &self.token, &body);
        Some(&self.request)
    }

    fn heard(&mut self, answer: &Answer<'_>) {
        if answer.status == 201 {
            self.answered.fetch_add(self.asked, Ordering::Relaxed);
        }
    }
}

fn places(event: EventId, area: &str, quantity: u64, cart: &str) -> String {
    format!(
        r#"{{"event_id":"{event}","areas":[{{"area_id":"{area}","quantity":{quantity}}}],"cart_token":"{cart}"}}"#
    )
}

const PATIENCE: Duration = Duration::from_secs(20);
/// Larger than any closed loop fills.
const LARGE: u32 = 1_000_000;

impl Suite {
    /// A connection for each user, with one request each.
    async fn rush(&self, server: &Server<'_>, request: impl Fn(&str) -> Vec<u8>) -> Fallible<Run> {
        let load = Load { connections: self.sizes.crowd, ..self.load(server, PATIENCE, Pace::Closed) };
        let make = |i| {
            let request = request(&server.token(&format!("user-{i}")));
            Box::new(Once { request, asked: false }) as Box<dyn Requests>
        };
        Ok(drive(&load, make).await?)
    }

    pub async fn one_seat(&mut self) -> Fallible<Vec<Crowd>> {
        let mut crowds = Vec::new();
        let (users, times) = (self.sizes.crowd, self.sizes.crowd_times);
        for peer in self.peers(&[Peer::Embedded, Peer::Node, Peer::Literal, Peer::Locked]) {
            self.progress.step(format!("one seat, {users} users: {}", peer.title()));
            let server = self.field.start(peer).await?;
            let events = server.events(1, times, HoldTimes::default()).await?;
            let (mut winners, mut milliseconds, mut problems) = (Vec::new(), Vec::new(), Vec::new());
            for seat in 0..times {
                // A cart for each seat: whoever wins twice with one cart has one hold of two seats.
                let request =
                    |token: &str| HoldRequest::new(HOLD, token).patch(events[0], seat, seat.into()).to_vec();
                let run = self.rush(&server, request).await?;
                if (run.done, run.refused) != (1, u64::from(users) - 1) {
                    problems.push(format!(
                        "one seat, {}: {} held it, {} were refused, {} wrong answers, {} broken connections",
                        peer.title(),
                        run.done,
                        run.refused,
                        run.wrong,
                        run.broken
                    ));
                }
                winners.push(run.done);
                milliseconds.push(run.elapsed.as_secs_f64() * 1e3);
            }
            let wrong = server.audit(&events, winners.iter().sum()).await?;
            problems.extend(wrong.into_iter().map(|what| format!("one seat, {}: {what}", peer.title())));
            drop(server);
            self.problems.extend(problems);
            let milliseconds = Spread::of(milliseconds).ok_or("nobody came")?;
            crowds.push(Crowd { peer, users, times, winners, milliseconds });
        }
        Ok(crowds)
    }

    pub async fn area(&mut self) -> Fallible<Vec<Area>> {
        let mut areas = Vec::new();
        for peer in self.peers(&[Peer::Embedded, Peer::Node]) {
            self.progress.step(format!("an area: {}", peer.title()));
            let server = self.field.start(peer).await?;
            let events = server.events(2, 0, HoldTimes::default()).await?;
            let (event, other) = (events[0], events[1]);
            let area = server.area(event, "Field", LARGE).await?;
            let answered = Arc::new(AtomicU64::new(0));
            let load = self.load(&server, self.sizes.turn, Pace::Closed);
            let run = drive(&load, |i| {
                Box::new(Places {
                    token: server.token(&format!("buyer-{i}")),
                    event,
                    area: area.clone(),
                    random: Random::new(u64::from(i)),
                    request: Vec::new(),
                    asked: 0,
                    answered: Arc::clone(&answered),
                })
            })
            .await?;
            let capacity = self.sizes.area_places;
            let small = server.area(other, "Pit", capacity).await?;
            let rush =
                self.rush(&server, |token| client::post(HOLD, token, &places(other, &small, 1, "c"))).await?;
            let result = Area {
                peer,
                per_second: run.per_second(),
                times: Times::of(&run),
                places_answered: answered.load(Ordering::Relaxed),
                large: server.occupancy(event).await?,
                users: self.sizes.crowd,
                capacity,
                winners: rush.done,
                small: server.occupancy(other).await?,
            };
            let mut wrong = server.violations().await?;
            wrong.extend(server.unlike(event, &result.large).await?);
            wrong.extend(server.unlike(other, &result.small).await?);
            wrong.extend(problems(&result, &run, &rush));
            drop(server);
            self.problems.extend(wrong.into_iter().map(|what| format!("an area, {}: {what}", peer.title())));
            areas.push(result);
        }
        Ok(areas)
    }
}

fn problems(area: &Area, run: &Run, rush: &Run) -> Vec<String> {
    let mut problems = Vec::new();
    if run.wrong + run.broken + run.refused + rush.wrong + rush.broken > 0 {
        problems.push("wrong answers or broken connections".to_owned());
    }
    if area.large.held != area.places_answered {
        problems.push(format!("{} places were answered, {} are held", area.places_answered, area.large.held));
    }
    let wanted = u64::from(area.capacity.min(area.users));
    if area.winners != wanted || area.small.held != wanted {
        problems.push(format!(
            "{} users for {} places: {} were answered a hold, {} places are held",
            area.users, area.capacity, area.winners, area.small.held
        ));
    }
    problems
}
