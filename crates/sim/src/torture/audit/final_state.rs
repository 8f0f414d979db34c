//! How things stand when all is quiet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::Value;

use super::{Check, Violation};
use crate::torture::answer::{Answer, BookingSaid};
use crate::torture::history::{Effect, History, What};
use crate::torture::house::{House, MAX_HOLD_SECONDS};
use crate::torture::journal::Replay;
use crate::torture::{Failed, Limits};

/// Requests under way at a time.
const AT_ONCE: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often the reaper looks for what it missed, and some time for it.
const SWEEP: Duration = Duration::from_secs(35);

/// Waits until every node is ready, nothing is held and the tiers agree. What does not come to pass is a violation.
pub async fn settle(house: &House, limits: Limits, found: &mut Vec<Violation>) {
    let held = Duration::from_secs(MAX_HOLD_SECONDS.into()) + SWEEP + limits.grace;
    for node in 0..house.nodes.len() {
        let ready = |status, _: &Value| status == 200;
        if let Err(said) = until(house, node, "/readyz", limits.recovery, ready).await {
            let what = format!("node {node} never became ready again: {said}");
            found.push(Violation::new(Check::Time, what));
        }
    }
    let began = Instant::now();
    for node in 0..house.nodes.len() {
        let path = format!("/api/events/{}/occupancy", house.event);
        let free = |status, body: &Value| status == 200 && body["held"] == 0;
        let left = held.saturating_sub(began.elapsed());
        if let Err(said) = until(house, node, &path, left, free).await {
            let what = format!("on node {node} something is still held after {held:?}: {said}");
            found.push(Violation::new(Check::Holds, what));
        }
    }
    for node in 0..house.nodes.len() {
        let path = format!("/api/admin/events/{}/registry", house.event);
        let agree = |status, body: &Value| status == 200 && body["agree"] == true;
        if let Err(said) = until(house, node, &path, limits.recovery, agree).await {
            let what = format!("the tiers of node {node} do not agree: {said}");
            found.push(Violation::new(Check::Tiers, what));
        }
    }
}

/// Asks until it is so. `Err`: the last answer.
async fn until(
    house: &House,
    node: usize,
    path: &str,
    within: Duration,
    is_so: impl Fn(u16, &Value) -> bool,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let said = match house.admin.get(node, path).await {
            Ok((status, body)) if is_so(status, &body) => return Ok(()),
            Ok((status, body)) => format!("{status} {body}"),
            Err(error) => error.to_string(),
        };
        if began.elapsed() >= within {
            return Err(said);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Every node shows the end of the journal.
pub async fn maps(house: &House, replay: &Replay, found: &mut Vec<Violation>) -> Result<(), Failed> {
    let should = replay.maps.get(&replay.last).cloned().unwrap_or_default();
    for node in 0..house.nodes.len() {
        let path = format!("/api/events/{}/seats?form=status", house.event);
        let (status, body) = house.admin.get(node, &path).await?;
        let shown = (status, body["sequence"].as_u64(), body["status"].as_str());
        if shown != (200, Some(replay.last), Some(&should)) {
            let what = format!("node {node} shows {shown:?} instead of {should} at {}", replay.last);
            found.push(Violation::new(Check::Tiers, what));
        }
        let path = format!("/api/events/{}/occupancy", house.event);
        let (_, body) = house.admin.get(node, &path).await?;
        let places = &body["areas"][0]["places"];
        let counted = (places["held"].as_i64(), places["sold"].as_i64());
        if counted != (Some(replay.area_held), Some(replay.area_sold)) {
            let (held, sold) = (replay.area_held, replay.area_sold);
            let what = format!("node {node} counts {counted:?} in the area instead of {held}, {sold}");
            found.push(Violation::new(Check::Tiers, what));
        }
    }
    Ok(())
}

/// What clients know of the cancelling of a booking.
#[derive(Clone, Copy, PartialEq)]
enum Cancelled {
    Yes,
    Perhaps,
}

/// Every acknowledged booking is there, as it was acknowledged; a cancelled one is cancelled; no seat is sold twice.
pub async fn bookings(house: &House, history: &History, found: &mut Vec<Violation>) -> Result<usize, Failed> {
    let mut acknowledged: BTreeMap<String, BookingSaid> = BTreeMap::new();
    let mut cancelled: HashMap<String, Cancelled> = HashMap::new();
    for attempt in &history.attempts {
        match (&history.intents[attempt.intent as usize].what, attempt.effect()) {
            (What::Confirm { .. }, Effect::Done) => {
                if let Some(said) = attempt.answer().and_then(Answer::booking) {
                    acknowledged.insert(said.booking.clone(), said.clone());
                }
            }
            (What::Cancel { booking, .. }, Effect::Done) => {
                cancelled.insert(booking.clone(), Cancelled::Yes);
            }
            (What::Cancel { booking, .. }, Effect::Unknown) => {
                cancelled.entry(booking.clone()).or_insert(Cancelled::Perhaps);
            }
            _ => {}
        }
    }
    let paths = acknowledged.keys().map(|id| (id.clone(), format!("/api/bookings/{id}"))).collect();
    let mut owners: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (id, status, body) in ask_all(house, paths).await? {
        let wrong = |what: String| Violation::new(Check::Bookings, format!("booking {id} {what}"));
        let Answer::Booking(now) = Answer::read(status, &body) else {
            found.push(wrong(format!("is gone: {status} {body}")));
            continue;
        };
        let was = &acknowledged[&id];
        if (&now.seats, &now.tickets, &now.hold) != (&was.seats, &was.tickets, &was.hold) {
            found.push(wrong(format!("is not as it was confirmed: {now:?} instead of {was:?}")));
        }
        match (cancelled.get(&id), now.status.as_str()) {
            (Some(Cancelled::Yes) | Some(Cancelled::Perhaps), "cancelled") => {}
            (None | Some(Cancelled::Perhaps), "confirmed") => {
                for seat in &now.seats {
                    owners.entry(*seat).or_default().push(id.clone());
                }
            }
            (_, status) => found.push(wrong(format!("is {status}"))),
        }
    }
    for (seat, owners) in owners.into_iter().filter(|(_, owners)| owners.len() > 1) {
        let what = format!("seat {seat} is sold {} times: {owners:?}", owners.len());
        found.push(Violation::new(Check::Bookings, what));
    }
    Ok(acknowledged.len())
}

/// Every acknowledged hold is there and has ended.
pub async fn holds(house: &House, history: &History, found: &mut Vec<Violation>) -> Result<usize, Failed> {
    let answers = history.attempts.iter().filter_map(|attempt| attempt.answer());
    let known: BTreeSet<&str> =
        answers.filter_map(|answer| answer.hold()).map(|hold| hold.hold.as_str()).collect();
    let paths = known.iter().map(|id| ((*id).to_owned(), format!("/api/bookings/hold/{id}"))).collect();
    for (id, status, body) in ask_all(house, paths).await? {
        match Answer::read(status, &body) {
            Answer::Hold(hold) if hold.status != "active" => {}
            Answer::Hold(_) => {
                found.push(Violation::new(Check::Holds, format!("hold {id} has not ended: {body}")));
            }
            _ => found.push(Violation::new(Check::Holds, format!("hold {id} is gone: {status} {body}"))),
        }
    }
    Ok(known.len())
}

/// Asks for many things, through all nodes.
async fn ask_all(house: &House, paths: Vec<(String, String)>) -> Result<Vec<(String, u16, Value)>, Failed> {
    let asking = paths.into_iter().enumerate().map(|(i, (id, path))| async move {
        let (status, body) = house.admin.get(i, &path).await?;
        Ok((id, status, body))
    });
    futures::stream::iter(asking).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
}
