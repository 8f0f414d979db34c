use rowlock_core::org::Scope;
use serde_json::json;

use crate::support::{Event, Server, text};

#[tokio::test]
async fn events_are_made_and_listed_by_pages() {
    let server = Server::start().await;
    let event = server.event().await;
    for _ in 0..2 {
        server.empty_event(json!({})).await;
    }
    let first = server.get("/api/admin/events?limit=2").with(&server.admin).send().await;
    let page = first.expect(200);
    assert_eq!(page["events"][0]["event_id"], event.id);
    assert_eq!((&page["events"][0]["seat_count"], &page["events"][0]["area_count"]), (&json!(12), &json!(1)));
    let link = first.header("link").to_owned();
    let next = link.strip_prefix('<').unwrap().split('>').next().unwrap();
    let last = server.get(next).with(&server.admin).send().await;
    assert_eq!((last.expect(200)["events"].as_array().unwrap().len(), last.header("link")), (1, ""));
}

#[tokio::test]
async fn the_generator_makes_blocks_rows_and_numbers() {
    let server = Server::start().await;
    let id = server.empty_event(json!({})).await;
    let admin = |rest: &str| format!("/api/admin/events/{id}{rest}");
    let box_ =
        server.post(&admin("/blocks"), json!({"name": "Box"})).with(&server.admin).send().await.expect(201);
    let again = server.post(&admin("/blocks"), json!({"name": "Box"})).with(&server.admin).send().await;
    assert_eq!(again.refused(409, "name_taken")["conflicts"], json!([{"name": "Box"}]));
    let body = json!({"sections": [
        {"block": "Box", "rows": ["Left", "Right"], "numbers": {"from": 5, "to": 6}, "tier": "gold"},
        {"block": "Hall", "rows": {"from": 10, "to": 11}, "numbers": {"from": 0, "to": 0}, "tier": "silver", "x": -5, "y": 1.5},
    ]});
    let made = server.post(&admin("/seats"), body).with(&server.admin).send().await.expect(201);
    assert_eq!((&made["count"], &made["blocks"][0]["block_id"]), (&json!(6), &box_["block_id"]));
    let path = format!("/api/events/{id}/seats");
    let seats = server.get(&path).with(&server.admin).send().await.expect(200);
    let labels: Vec<_> = seats["seats"].as_array().unwrap().iter().map(|seat| text(&seat["label"])).collect();
    assert_eq!(labels, ["Left-5", "Left-6", "Right-5", "Right-6", "10-0", "11-0"]);
    assert_eq!(
        (&made["first_seat_id"], &made["last_seat_id"]),
        (&seats["seats"][0]["seat_id"], &seats["seats"][5]["seat_id"])
    );
    assert_eq!((&seats["seats"][5]["x"], &seats["seats"][5]["y"]), (&json!(-5.0), &json!(2.5)));
    let area = json!({"name": "Pit", "tier": "gold", "capacity": 5});
    server.post(&admin("/areas"), area.clone()).with(&server.admin).send().await.expect(201);
    server.post(&admin("/areas"), area).with(&server.admin).send().await.refused(409, "name_taken");
}

#[tokio::test]
async fn seats_leave_and_return_to_sale() {
    let server = Server::start().await;
    let event = server.event().await;
    let list = json!({"seat_ids": [event.seats[0], event.seats[1]]});
    let mark =
        |path: &'static str| server.post(&event.admin_path(path), list.clone()).with(&server.admin).send();
    assert_eq!(mark("/seats/block").await.expect(200)["changed"], list["seat_ids"]);
    assert_eq!(mark("/seats/block").await.expect(200)["changed"], json!([]));
    assert_eq!(mark("/seats/unblock").await.expect(200)["changed"], list["seat_ids"]);
    server.hold(&event, "ann", &[1]).await;
    let problem = mark("/seats/block").await.refused(409, "seats_taken");
    assert_eq!(problem["conflicts"], json!([{"seat_id": event.seats[1]}]));
    let unknown = json!({"seat_ids": ["0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77"]});
    let answer = server.post(&event.admin_path("/seats/block"), unknown).with(&server.admin).send().await;
    answer.refused(404, "unknown_seats");
}

#[tokio::test]
async fn an_event_can_be_full() {
    let server = Server::start().await;
    let id = server.empty_event(json!({})).await;
    let path = format!("/api/admin/events/{id}/areas");
    for i in 0..200 {
        let area = json!({"name": format!("Area {i}"), "tier": "gold", "capacity": 1});
        server.post(&path, area).with(&server.admin).send().await.expect(201);
    }
    let area = json!({"name": "one more", "tier": "gold", "capacity": 1});
    server.post(&path, area).with(&server.admin).send().await.refused(422, "event_full");
}

#[tokio::test]
async fn the_journal_is_paged_and_has_no_gaps() {
    let server = Server::start().await;
    let event = server.event().await;
    server.book(&event, "ann", &[0]).await;
    let mut path = event.admin_path("/journal?limit=3");
    let (mut sequences, mut kinds) = (Vec::new(), Vec::new());
    loop {
        let answer = server.get(&path).with(&server.admin).send().await;
        let page = answer.expect(200);
        for entry in page["entries"].as_array().unwrap() {
            sequences.push(entry["sequence"].as_u64().unwrap());
            kinds.push(text(&entry["type"]));
            assert!(entry["data"].is_object() && entry["at"].is_string());
        }
        match answer.header("link").strip_prefix('<') {
            Some(link) => path = link.split('>').next().unwrap().to_owned(),
            None => break,
        }
    }
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert_eq!(kinds[0], "EVENT-CREATED");
    assert_eq!(kinds[kinds.len() - 2..], ["SEAT-HOLD-CONFIRMED", "BOOKING-CONFIRMED"]);
}

/// A booking of a thousand places is a row of a hundred kilobytes. A page of such rows ends early, and the next goes on behind it.
#[tokio::test]
async fn a_page_of_the_journal_does_not_become_too_large() {
    let server = Server::start().await;
    let event = server.event().await;
    let field = json!({"name": "Field", "tier": "silver", "capacity": 100_000});
    let field = server.post(&event.admin_path("/areas"), field).with(&server.admin).send().await.expect(201);
    let seller = server.token(server.org, "ann", &[Scope::Book, Scope::Cancel]);
    for _ in 0..30 {
        let wish = json!({"event_id": event.id, "areas": [{"area_id": field["area_id"], "quantity": 1000}]});
        let booking = server.post("/api/bookings", wish).with(&seller).send().await.expect(201);
        let cancel = format!("/api/bookings/{}/cancel", text(&booking["booking_id"]));
        server.call("POST", &cancel).with(&seller).send().await.expect(200);
    }
    let (mut path, mut sequences, mut pages) = (event.admin_path("/journal?limit=1000"), Vec::new(), 0);
    loop {
        let answer = server.get(&path).with(&server.admin).send().await;
        assert!(answer.bytes.len() < 16 << 20, "{} bytes", answer.bytes.len());
        for entry in answer.expect(200)["entries"].as_array().unwrap() {
            sequences.push(entry["sequence"].as_u64().unwrap());
        }
        pages += 1;
        match answer.header("link").strip_prefix('<') {
            Some(link) => path = link.split('>').next().unwrap().to_owned(),
            None => break,
        }
    }
    assert!(pages > 1, "all of it in one page");
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert!(sequences.len() > 120, "{}", sequences.len());
}

/// docs/journal.md has every type of row, and every field of its data.
#[tokio::test]
async fn the_page_on_the_journal_has_every_field() {
    let page = include_str!("../../../../../docs/journal.md");
    let server = Server::start().await;
    let event = server.event().await;
    let brief = server.event_with(json!({"ttl_seconds": 1})).await;
    server.hold(&brief, "late", &[4]).await;
    let seat = json!({"seat_ids": [event.seats[5]]});
    for verb in ["block", "unblock"] {
        let path = event.admin_path(&format!("/seats/{verb}"));
        server.post(&path, seat.clone()).with(&server.admin).send().await.expect(200);
    }
    let ann = server.buyer("ann");
    let hold = server.hold(&event, "ann", &[0]).await;
    let more = server.post("/api/bookings/hold-seats", event.wish(&[1])).with(&ann).send().await;
    assert_eq!(more.expect(201)["hold_token"], hold["hold_token"]);
    let hold_path = format!("/api/bookings/hold/{}", text(&hold["hold_token"]));
    server.call("POST", &format!("{hold_path}/checkout")).with(&ann).send().await.expect(200);
    server.delete(&format!("{hold_path}?seat_id={}", event.seats[1])).with(&ann).send().await.expect(200);
    let confirm = format!("/api/bookings/{}/confirm", text(&hold["hold_token"]));
    let booking = server.call("POST", &confirm).with(&ann).send().await.expect(201);
    let cancel = format!("/api/bookings/{}/cancel", text(&booking["booking_id"]));
    server.call("POST", &cancel).with(&ann).send().await.expect(200);
    let entries = async |event: &Event| {
        let path = event.admin_path("/journal?limit=1000");
        let journal = server.get(&path).with(&server.admin).send().await.expect(200);
        journal["entries"].as_array().unwrap().clone()
    };
    let mut rows = entries(&brief).await;
    while rows.last().unwrap()["type"] != "SEAT-HOLD-EXPIRED" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        rows = entries(&brief).await;
    }
    rows.extend(entries(&event).await);
    let mut types = std::collections::BTreeSet::new();
    for entry in rows {
        let kind = text(&entry["type"]);
        let (before, section) =
            page.split_once(&format!("### `{kind}`\n")).unwrap_or_else(|| panic!("{kind}"));
        let mut section = section.split("\n### ").next().unwrap().to_owned();
        if section.contains("he same") {
            section += before.rsplit("\n### ").next().unwrap();
        }
        for field in entry["data"].as_object().unwrap().keys() {
            assert!(section.contains(&format!("`{field}`")), "{kind} has {field}");
        }
        types.insert(kind);
    }
    let documented = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    assert_eq!(types, documented.map(str::to_owned).collect(), "all of them have happened here");
}

#[tokio::test]
async fn what_is_wrong_with_a_section_says_which() {
    let server = Server::start().await;
    let event = server.event().await;
    let section = |rows: serde_json::Value, to: u32| json!({"block": "Side", "rows": rows, "numbers": {"from": 5, "to": to}, "tier": "gold"});
    let wrong = [section(json!(["B"]), 1), section(json!(["B", "B"]), 9)];
    for wrong in wrong {
        let body = json!({"sections": [section(json!(["A"]), 9), wrong]});
        let answer = server.post(&event.admin_path("/seats"), body).with(&server.admin).send().await;
        assert_eq!(answer.refused(422, "invalid")["field"], "sections[1]");
    }
}
