//! What can be asked.

use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{
    BookingId, Command, EventId, Fact, HoldId, KeyId, OrgId, Outcome, Refusal, Request, Stream,
};
use uuid::Uuid;

use super::Backend;
use super::replica::Replica;
use super::stage::{
    Setup, Stage, booking_of, commit_one, create_org, hold_of, name, new_event, request, section, user,
};

pub async fn snapshot_equals_replayed_facts<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let mut replica = Replica(stage.truth.event(stage.event).await.expect("a read").expect("the event"));
    let made = stage.one(stage.hold("ann", &[0, 1, 2])).await.expect("a hold");
    let ann = hold_of(&made);
    let mut facts = made.facts;
    let first = vec![
        stage.checkout("ann", ann.id),
        stage.release("ann", ann.id, &[1]),
        stage.request(Command::Hold(stage.places("bob", &[5, 6], &[(stage.areas[0], 3)]))),
        stage.hold("ann", &[3]),
        stage.hold("cid", &[5]),
        stage.request(Command::BlockSeats { event: stage.event, seats: stage.seats(&[8, 9]) }),
        stage.request(Command::CreateSeats {
            event: stage.event,
            sections: vec![section("balcony", 0..2, 5)],
        }),
    ];
    facts.extend(facts_of(&stage, first).await);
    let bob = stage.truth.holds_of_user(stage.org, user("bob"), None, 1).await.expect("a read")[0].id;
    let area =
        Command::CreateArea { event: stage.event, name: name("foyer"), tier: name("floor"), capacity: 9 };
    let second = vec![
        stage.confirm("bob", bob),
        stage.request(area),
        stage.request(Command::UnblockSeats { event: stage.event, seats: stage.seats(&[9]) }),
        stage.hold("dan", &[41, 42]),
        stage.heartbeat("ann", ann.id),
    ];
    let results = stage.truth.commit(second).await;
    let booking = booking_of(results[0].as_ref().expect("a booking")).id;
    facts.extend(results.into_iter().flatten().flat_map(|one| one.facts));
    let release = stage.release("ann", ann.id, &[]);
    facts.extend(facts_of(&stage, vec![stage.cancel(booking), release, stage.hold("eve", &[5])]).await);

    // Whoever reads the journal learns the same facts as whoever made them.
    let rows = stage.truth.journal(Stream::Event(stage.event), facts[0].0 - 1, 1_000).await.expect("a read");
    let read: Vec<(u64, Fact)> =
        rows.iter().map(|row| (row.sequence, row.fact().expect("a fact that is understood"))).collect();
    assert_eq!(read, facts);
    for (sequence, fact) in &facts {
        replica.apply(*sequence, fact);
    }
    let snapshot = stage.truth.event(stage.event).await.expect("a read").expect("the event");
    assert_eq!(snapshot.sequence, replica.0.sequence);
    assert_eq!(format!("{snapshot:?}"), format!("{:?}", replica.0));
    stage.assert_clean().await;
}

async fn facts_of(stage: &Stage, batch: Vec<Request>) -> Vec<(u64, Fact)> {
    stage.truth.commit(batch).await.into_iter().flatten().flat_map(|committed| committed.facts).collect()
}

pub async fn holds_of_a_user_come_in_pages<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let stage = Stage::new(truth.clone(), Setup::default()).await;
    let theirs = Stage::new(truth.clone(), Setup::default()).await;
    let mut made = Vec::new();
    for i in 0..5 {
        made.push(stage.held(stage.hold_in_cart("ann", &format!("cart {i}"), &[i])).await);
    }
    stage.held(stage.hold("bob", &[9])).await;
    theirs.held(theirs.hold("ann", &[0])).await;
    stage.held(stage.release("ann", made[4].id, &[])).await;
    made.truncate(4);
    made.sort_unstable_by_key(|hold| hold.id);

    let mut seen = Vec::new();
    loop {
        let after = seen.last().map(|hold: &rowlock_core::hold::Hold| hold.id);
        let page = truth.holds_of_user(stage.org, user("ann"), after, 3).await.expect("a read");
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, made, "active ones of this org and user alone");
}

pub async fn journal_comes_in_pages<B: Backend>(backend: &B) {
    let stage = Stage::new(backend.open().await, Setup::default()).await;
    let ann = stage.one(stage.hold("ann", &[0])).await.expect("a hold");
    stage.booked(stage.confirm("ann", hold_of(&ann).id)).await;
    let stream = Stream::Event(stage.event);
    let all = stage.truth.journal(stream, 0, 1_000).await.expect("a read");
    let kinds: Vec<&str> = all.iter().map(|row| row.kind.as_str()).collect();
    let expected = [
        "EVENT-CREATED",
        "BLOCK-CREATED",
        "BLOCK-CREATED",
        "SEATS-CREATED",
        "AREA-CREATED",
        "SEAT-HOLD-CREATED",
        "SEAT-HOLD-CONFIRMED",
        "BOOKING-CONFIRMED",
    ];
    assert_eq!(kinds, expected);
    let (_, fact) = &ann.facts[0];
    let row = &all[5];
    assert_eq!(row.data, serde_json::to_string(fact).expect("JSON"));
    assert_eq!((row.actor.as_str(), row.at), ("system", hold_of(&ann).created_at));
    assert!(row.request_id.starts_with("request-"));

    let mut paged = Vec::new();
    while let page = stage.truth.journal(stream, paged.len() as u64, 3).await.expect("a read")
        && !page.is_empty()
    {
        paged.extend(page);
    }
    assert_eq!(format!("{paged:?}"), format!("{all:?}"));
    let org = stage.truth.journal(Stream::Org(stage.org), 0, 10).await.expect("a read");
    assert_eq!(org.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>(), ["ORG-CREATED"]);
    assert!(stage.truth.journal(stream, u64::MAX, 10).await.expect("a read").is_empty());
}

pub async fn events_come_in_pages<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let (org, other) = (create_org(&*truth, "One").await, create_org(&*truth, "Other").await);
    let mut made = Vec::new();
    for rows in 0..4 {
        let setup = Setup { rows, areas: vec![5; rows], ..Setup::default() };
        made.push((Stage::in_org(truth.clone(), org, setup).await.event, rows as u32 * 10, rows as u32));
    }
    Stage::in_org(truth.clone(), other, Setup::default()).await;
    made.sort_unstable();
    let mut seen: Vec<(EventId, u32, u32)> = Vec::new();
    while let page = truth.events(org, seen.last().map(|seen| seen.0), 3).await.expect("a read").events
        && !page.is_empty()
    {
        seen.extend(page.iter().map(|summary| (summary.event.id, summary.seat_count, summary.area_count)));
    }
    assert_eq!(seen, made);
}

pub async fn orgs_come_in_pages<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let mut made = Vec::new();
    for i in 0..5 {
        made.push(create_org(&*truth, &format!("Org {i}")).await);
    }
    made.sort_unstable();
    let mut seen: Vec<OrgId> = Vec::new();
    while let page = truth.orgs(seen.last().copied(), 2).await.expect("a read")
        && !page.is_empty()
    {
        seen.extend(page.iter().map(|org| org.id));
    }
    assert_eq!(seen, made);
    let org = truth.org(made[0]).await.expect("a read").expect("the org");
    assert!(org.name.as_str().starts_with("Org "));
}

pub async fn api_keys_are_read_back<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let (org, other) = (create_org(&*truth, "One").await, create_org(&*truth, "Other").await);
    let scopes: Scopes = [Scope::Read, Scope::ActAs].into_iter().collect();
    let create = Command::CreateApiKey { name: name("backend"), scopes, secret_hash: [7; 32] };
    let made = commit_one(&*truth, request(org, create)).await.expect("a key");
    let Outcome::ApiKey(key) = made.outcome else { panic!("not a key") };
    let stored = truth.api_key(key.id).await.expect("a read").expect("the key");
    assert_eq!((stored.scopes, stored.secret_hash, stored.revoked_at), (scopes, [7; 32], None));
    assert_eq!(truth.api_keys(org, None, 10).await.expect("a read"), [stored]);
    assert!(truth.api_keys(org, Some(key.id), 10).await.expect("a read").is_empty());
    assert!(truth.api_keys(other, None, 10).await.expect("a read").is_empty());
    let facts = truth.journal(Stream::Org(org), 0, 10).await.expect("a read");
    assert!(facts.iter().all(|row| !row.data.contains("secret")), "no secret in the journal");

    let revoke = |org| request(org, Command::RevokeApiKey { key: key.id });
    let refusal = super::stage::refusal_of(commit_one(&*truth, revoke(other)).await);
    assert_eq!(refusal, Refusal::UnknownKey { key: key.id });
    commit_one(&*truth, revoke(org)).await.expect("revoked");
    let revoked_at = truth.api_key(key.id).await.expect("a read").expect("the key").revoked_at;
    assert!(revoked_at.is_some());
    let again = commit_one(&*truth, revoke(org)).await.expect("revoked already");
    assert!(again.facts.is_empty());
    assert_eq!(truth.api_key(key.id).await.expect("a read").expect("the key").revoked_at, revoked_at);
    super::stage::assert_clean(&*truth).await;
}

pub async fn what_does_not_exist_is_none<B: Backend>(backend: &B) {
    let truth = backend.open().await;
    let nobody = Uuid::from_u128(7);
    assert!(truth.org(OrgId::from_uuid(nobody)).await.expect("a read").is_none());
    assert!(truth.api_key(KeyId::from_uuid(nobody)).await.expect("a read").is_none());
    assert!(truth.event(EventId::from_uuid(nobody)).await.expect("a read").is_none());
    assert!(truth.hold(HoldId::from_uuid(nobody)).await.expect("a read").is_none());
    assert!(truth.booking(BookingId::from_uuid(nobody)).await.expect("a read").is_none());
    let stream = Stream::Event(EventId::from_uuid(nobody));
    assert!(truth.journal(stream, 0, 10).await.expect("a read").is_empty());
    let unknown = OrgId::from_uuid(nobody);
    let refusal =
        super::stage::refusal_of(commit_one(&*truth, new_event(unknown, "x", Default::default())).await);
    assert_eq!(refusal, Refusal::UnknownOrg { org: unknown });
    truth.ping().await.expect("it answers");
    super::stage::assert_clean(&*truth).await;
}
