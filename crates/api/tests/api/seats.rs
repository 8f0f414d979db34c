//! The seat map in its forms.

use std::io::Read;

use serde_json::{Value, json};

use crate::support::{Answer, Event, Server};

async fn map(server: &Server, event: &Event, query: &str) -> Answer {
    server.get(&event.path(&format!("/seats{query}"))).with(&server.buyer("ann")).send().await
}

async fn zipped(server: &Server, event: &Event, query: &str) -> Answer {
    let call = server.get(&event.path(&format!("/seats{query}"))).with(&server.buyer("ann"));
    call.header("accept-encoding", "gzip").send().await
}

fn unzip(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.header("content-encoding"), "gzip");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&answer.bytes[..]).read_to_end(&mut text).unwrap();
    text
}

async fn busy_event(server: &Server) -> Event {
    let event = server.event().await;
    server.book(&event, "ann", &[0]).await;
    server.hold(&event, "bob", &[1, 7]).await;
    let list = json!({"seat_ids": [event.seats[2]]});
    server.post(&event.admin_path("/seats/block"), list).with(&server.admin).send().await.expect(200);
    event
}

#[tokio::test]
async fn the_forms_say_the_same() {
    let server = Server::start().await;
    let event = busy_event(&server).await;
    let full = map(&server, &event, "").await.expect(200);
    let compact = map(&server, &event, "?form=compact").await.expect(200);
    let status = map(&server, &event, "?form=status").await.expect(200);
    assert_eq!((&full["sequence"], &full["currency"]), (&compact["sequence"], &json!("EUR")));
    assert_eq!(compact["status"], "shbaaaahaaaa");
    assert_eq!((&status["status"], &status["sequence"]), (&compact["status"], &compact["sequence"]));
    let seats = full["seats"].as_array().unwrap();
    assert_eq!(seats.len(), 12);
    for (ordinal, seat) in seats.iter().enumerate() {
        let prefix = compact["seat_id_prefix"].as_str().unwrap();
        assert_eq!(seat["seat_id"], format!("{prefix}{ordinal:08x}"));
        let column = |name: &str| &compact["columns"][name][ordinal];
        let index = |name: &str| column(name).as_u64().unwrap() as usize;
        assert_eq!(seat["block_id"], compact["blocks"][index("block")]["block_id"]);
        assert_eq!(seat["row"], compact["rows"][index("row")]);
        assert_eq!(seat["tier"], compact["tiers"][index("tier")]["code"]);
        assert_eq!(seat["price"], compact["tiers"][index("tier")]["price"]);
        assert_eq!((&seat["number"], &seat["x"], &seat["y"]), (column("number"), column("x"), column("y")));
        let letter = seat["status"].as_str().unwrap().chars().next().unwrap();
        assert_eq!(compact["status"].as_str().unwrap().as_bytes()[ordinal] as char, letter);
    }
    assert_eq!(
        (&seats[4]["label"], &seats[4]["x"], &seats[4]["y"]),
        (&json!("B-2"), &json!(12.0), &json!(23.5))
    );
}

#[tokio::test]
async fn a_block_and_a_seat_alone() {
    let server = Server::start().await;
    let event = busy_event(&server).await;
    let full = map(&server, &event, "").await.expect(200);
    let block = full["seats"][6]["block_id"].as_str().unwrap();
    let part = map(&server, &event, &format!("?block_id={block}")).await.expect(200);
    assert_eq!(part["seats"].as_array().unwrap()[..], full["seats"].as_array().unwrap()[6..]);
    let nobodys = "0190a5f0-7c3e-7bbb-8a40-3d5c1f0e9a77";
    let unknown = map(&server, &event, &format!("?block_id={nobodys}")).await;
    assert_eq!(unknown.refused(404, "unknown_block")["conflicts"], json!([{"block_id": nobodys}]));
    for (i, held) in [(0, false), (1, true)] {
        let path = event.path(&format!("/seats/{}", event.seats[i]));
        let mut seat = server.get(&path).with(&server.buyer("ann")).send().await.expect(200);
        assert_eq!(seat.as_object_mut().unwrap().remove("held_until").is_some(), held);
        assert_eq!(seat, full["seats"][i]);
    }
    let path = event.path("/seats/0190a5f0-7c3e-8bbb-8a40-3d5c1f0e9a77");
    server.get(&path).with(&server.buyer("ann")).send().await.refused(404, "unknown_seats");
}

#[tokio::test]
async fn gzip_is_the_same_text() {
    let server = Server::start().await;
    let event = busy_event(&server).await;
    for query in ["", "?form=full", "?form=compact", "?form=status"] {
        let plain = map(&server, &event, query).await;
        let small = zipped(&server, &event, query).await;
        assert_eq!(unzip(&small), plain.bytes, "{query}");
        for answer in [&plain, &small] {
            assert_eq!(answer.header("vary"), "Accept-Encoding");
            assert_eq!(answer.header("cache-control"), "private, no-cache");
            assert_eq!(answer.header("content-length"), answer.bytes.len().to_string());
        }
        assert_ne!(plain.header("etag"), small.header("etag"));
    }
}

#[tokio::test]
async fn the_tag_changes_when_the_map_does() {
    let server = Server::start().await;
    let event = busy_event(&server).await;
    for query in ["", "?form=compact", "?form=status"] {
        let first = map(&server, &event, query).await;
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag} is strong");
        let ask = |given: String| {
            let call = server.get(&event.path(&format!("/seats{query}"))).with(&server.buyer("ann"));
            call.header("if-none-match", &given).send()
        };
        for given in [tag.clone(), "*".into(), format!("\"0\", {tag}"), format!("W/{tag}")] {
            let same = ask(given).await;
            assert_eq!((same.status, same.bytes.len(), same.header("etag")), (304, 0, tag.as_str()));
        }
        assert_eq!(ask("\"0\"".into()).await.status, 200);
        let hold = server.hold(&event, "ann", &[4]).await;
        let changed = ask(tag.clone()).await;
        assert_eq!(changed.status, 200);
        assert_ne!(changed.header("etag"), tag);
        let path = format!("/api/bookings/hold/{}", hold["hold_token"].as_str().unwrap());
        server.delete(&path).with(&server.buyer("ann")).send().await.expect(200);
    }
}

#[tokio::test]
async fn new_seats_join_the_compact_map() {
    let server = Server::start().await;
    let event = server.event().await;
    assert_eq!(map(&server, &event, "?form=compact").await.expect(200)["status"], "a".repeat(12));
    let section = json!({"sections": [{"block": "Box", "rows": ["Z"], "numbers": {"from": 1, "to": 2}, "tier": "gold"}]});
    server.post(&event.admin_path("/seats"), section).with(&server.admin).send().await.expect(201);
    let compact = map(&server, &event, "?form=compact").await.expect(200);
    assert_eq!(compact["status"], "a".repeat(14));
    assert_eq!((&compact["blocks"][2]["name"], &compact["columns"]["block"][13]), (&json!("Box"), &json!(2)));
    let empty = server.empty_event(json!({})).await;
    let path = format!("/api/events/{empty}/seats?form=compact");
    assert_eq!(server.get(&path).with(&server.admin).send().await.expect(200)["status"], "");
}

#[tokio::test]
async fn a_hundred_thousand_seats() {
    let server = Server::start().await;
    let id = server.empty_event(json!({})).await;
    let section = json!({"sections": [{
        "block": "Bowl", "rows": {"from": 1, "to": 500}, "numbers": {"from": 1, "to": 200}, "tier": "gold",
    }]});
    let path = format!("/api/admin/events/{id}/seats");
    let made = server.post(&path, section).with(&server.admin).send().await.expect(201);
    assert_eq!(made["count"], 100_000);
    let event = Event {
        id,
        seats: vec![made["last_seat_id"].as_str().unwrap().to_owned()],
        area: String::new(),
        blocks: vec![],
    };
    server.hold(&event, "ann", &[0]).await;
    // When sales open everybody wants a map that nobody has drawn yet.
    let crowd = futures::future::join_all((0..200).map(|_| zipped(&server, &event, "?form=compact"))).await;
    assert_eq!(crowd.iter().filter(|answer| answer.status != 200).count(), 0);
    let plain = map(&server, &event, "?form=compact").await;
    let compact = plain.expect(200);
    let status = compact["status"].as_str().unwrap();
    assert_eq!((status.len(), &status[99_998..]), (100_000, "ah"));
    assert_eq!(compact["columns"]["row"].as_array().unwrap().len(), 100_000);
    let small = zipped(&server, &event, "?form=compact").await;
    assert_eq!(unzip(&small), plain.bytes);
    let full: Value = serde_json::from_slice(&unzip(&zipped(&server, &event, "").await)).unwrap();
    assert_eq!(full["seats"].as_array().unwrap().len(), 100_000);
    assert_eq!(full["seats"][99_999]["status"], "held");
    // The best of several, because other tests run beside this one.
    let mut best = f64::MAX;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while best >= 0.010 && std::time::Instant::now() < end {
        let began = std::time::Instant::now();
        zipped(&server, &event, "?form=compact").await;
        best = best.min(began.elapsed().as_secs_f64());
    }
    println!("compact map of 100,000 seats: {:.1} ms", best * 1e3);
    assert!(best < 0.010, "{best}");
}
