//! `serve --demo`: an org with three events to try things on, made once and kept.
//!
//! `demo.json` is written last, so as long as it is missing the demo may be half made. Every step therefore looks for
//! what an interrupted start has left, by name, and goes on from there.

mod file;
mod token;
mod venues;

use std::path::Path;

use rowlock_api::credential;
use rowlock_core::org::{Org, Scopes};
use rowlock_core::seat::SeatStatus;
use rowlock_core::{Command, EventId, Name, OrgId, Outcome, Refusal, SeatId};
use rowlock_registry::{Engine, Failure};
use rowlock_truth::read::EventSummary;

pub use self::file::{Demo, DemoArea, DemoEvent, FILE};
use self::venues::Venue;
use crate::fault::Fault;
use crate::org::{create_key, create_org, execute};
use crate::settings::Settings;

const ORG: &str = "Demo";
const KEY: &str = "demo admin";
const PAGE: usize = 100;

pub fn needs_a_secret() -> Fault {
    Fault::new(
        "the demo signs a token, but auth.jwks_file is set and auth.jwt_secret is not: set it, or leave --demo out",
    )
}

/// Makes the demo if the folder has none, or completes it, and brings `demo.json` up to date.
pub async fn ensure(
    engine: &Engine,
    settings: &Settings,
    data: &Path,
    url: &str,
    secret: &[u8],
) -> Result<Demo, Fault> {
    let mut demo = match file::read(data)? {
        Some(demo) if has_key(engine, &demo).await => demo,
        _ => {
            make(engine).await.map_err(|failure| Fault::new(format!("the demo can't be made: {failure}")))?
        }
    };
    demo.url = url.to_owned();
    let signer = token::Signer { auth: &settings.auth, secret, org: demo.org_id };
    if !signer.is_good(&demo.buyer_token, engine.now()) {
        demo.buyer_token = signer.sign(engine.now());
    }
    file::write(data, &demo)?;
    Ok(demo)
}

/// Whether the organization is there and its key in force.
async fn has_key(engine: &Engine, demo: &Demo) -> bool {
    let Some(id) = credential::key_id(&demo.admin_key) else { return false };
    matches!(engine.api_key(id).await, Ok(Some(key)) if key.org == demo.org_id)
}

async fn make(engine: &Engine) -> Result<Demo, Failure> {
    let org = find_or_create_org(engine).await?;
    tracing::info!("making the demo");
    let mut events = Vec::new();
    for venue in venues::all() {
        let id = find_or_create_event(engine, org.id, &venue).await?;
        let live = engine.event(org.id, id).await?;
        let event = live.read();
        let areas = event.areas().iter();
        events.push(DemoEvent {
            id,
            name: venue.name.to_owned(),
            seats: event.seat_count(),
            areas: areas
                .map(|area| DemoArea { id: area.id, name: area.name.to_string(), capacity: area.capacity })
                .collect(),
        });
    }
    let admin_key = replace_key(engine, org.id).await?;
    Ok(Demo { url: String::new(), org_id: org.id, admin_key, buyer_token: String::new(), events })
}

async fn find_or_create_org(engine: &Engine) -> Result<Org, Failure> {
    let mut after = None;
    loop {
        let page = engine.orgs(after, PAGE).await?;
        let Some(last) = page.last().map(|org| org.id) else { break };
        if let Some(org) = page.into_iter().find(|org| org.name.as_str() == ORG) {
            return Ok(org);
        }
        after = Some(last);
    }
    create_org(engine, name(ORG)).await
}

async fn find_or_create_event(engine: &Engine, org: OrgId, venue: &Venue) -> Result<EventId, Failure> {
    let found = find_event(engine, org, venue.name).await?;
    let (id, has_seats) = match found {
        Some(summary) => (summary.event.id, summary.seat_count > 0),
        None => (create_event(engine, org, venue).await?, false),
    };
    // All the seats of a venue are one command, so there are all of them or none.
    if !has_seats && !venue.sections.is_empty() {
        execute(engine, org, Command::CreateSeats { event: id, sections: venue.sections.clone() }).await?;
    }
    for area in &venue.areas {
        let (area_name, tier, capacity) = (name(area.name), name(area.tier), area.capacity);
        let create = Command::CreateArea { event: id, name: area_name, tier, capacity };
        match execute(engine, org, create).await {
            Ok(_) | Err(Failure::Refused(Refusal::NameTaken { .. })) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(id)
}

async fn find_event(engine: &Engine, org: OrgId, wanted: &str) -> Result<Option<EventSummary>, Failure> {
    let mut after = None;
    loop {
        let page = engine.events(org, after, PAGE).await?.events;
        let Some(last) = page.last().map(|summary| summary.event.id) else { return Ok(None) };
        if let Some(summary) = page.into_iter().find(|summary| summary.event.name.as_str() == wanted) {
            return Ok(Some(summary));
        }
        after = Some(last);
    }
}

async fn create_event(engine: &Engine, org: OrgId, venue: &Venue) -> Result<EventId, Failure> {
    let create = Command::CreateEvent {
        name: name(venue.name),
        currency: venues::currency(),
        tiers: venue.tiers.clone(),
        policy: venue.policy.clone(),
    };
    match execute(engine, org, create).await? {
        Outcome::Event(event) => Ok(event.id),
        other => unreachable!("a new event is answered with {other:?}"),
    }
}

/// A key whose secret was lost with an interrupted start can't be used by anybody any more, so it goes.
async fn replace_key(engine: &Engine, org: OrgId) -> Result<String, Failure> {
    let mut after = None;
    loop {
        let page = engine.api_keys(org, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for key in page.iter().filter(|key| key.name.as_str() == KEY && key.revoked_at.is_none()) {
            execute(engine, org, Command::RevokeApiKey { key: key.id }).await?;
        }
    }
    Ok(create_key(engine, org, KEY, Scopes::all()).await?.1)
}

fn name(text: &str) -> Name {
    Name::new(text).expect("the names in the demo are valid")
}

/// What to print: the files, and a line that holds two seats that are free right now.
pub async fn invitation(engine: &Engine, demo: &Demo, url: &str, data: &Path) -> Result<String, Fault> {
    let mut text = format!("demo data in {}\n", data.join(FILE).display());
    for event in &demo.events {
        let what = match event.areas.len() {
            0 => format!("{} seats", event.seats),
            areas => format!("{areas} areas for general admission"),
        };
        text.push_str(&format!("  {}  {} ({what})\n", event.id, event.name));
    }
    let Some(event) = demo.events.iter().find(|event| event.seats > 1) else { return Ok(text) };
    let live =
        engine.event(demo.org_id, event.id).await.map_err(|failure| Fault::new(failure.to_string()))?;
    let Some(first) = free_pair(live.read().statuses()) else { return Ok(text) };
    let seats = [first, first + 1].map(|ordinal| SeatId::of(event.id, ordinal));
    text.push_str("\nHold two seats:\n\n");
    let body = format!(r#"{{"event_id": "{}", "seat_ids": ["{}", "{}"]}}"#, event.id, seats[0], seats[1]);
    for part in [
        format!("curl -i {url}/api/bookings/hold-seats"),
        format!("-H 'Authorization: Bearer {}'", demo.buyer_token),
        "-H 'Content-Type: application/json'".to_owned(),
    ] {
        text.push_str(&part);
        text.push_str(" \\\n  ");
    }
    text.push_str(&format!("-d '{body}'\n"));
    Ok(text)
}

fn free_pair(statuses: &[SeatStatus]) -> Option<u32> {
    let free = [SeatStatus::Available; 2];
    statuses.windows(2).position(|pair| pair == free).map(|ordinal| ordinal as u32)
}
