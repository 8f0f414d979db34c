//! Where each target begins: small inputs that are good, so that mutations of them get past the first look.

use serde_json::{Value, json};

use crate::bodies;
use crate::journal::KINDS;
use crate::office::{AUDIENCE, ISSUER, KEY};
use crate::queries;
use crate::support::START;
use crate::venue::Venue;
use rowlock_registry::warm::fuzzing;

pub fn of(target: &str) -> Vec<Vec<u8>> {
    let venue = Venue::new();
    match target {
        "bodies" => bodies_of(&venue),
        "commands" => (0..17u8).map(|verb| [[3, 3, verb], [1, 0, 2], [4, 1, 7]].concat()).collect(),
        "config" => config(),
        "credentials" => credentials(&venue),
        "ids" => ids(&venue),
        "journal" => journal(&venue),
        "kernel" => kernel(),
        "queries" => queries_of(&venue),
        "redis" => redis(&venue),
        "requests" => requests(&venue),
        _ => Vec::new(),
    }
}

fn tagged(tag: usize, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    [&[tag as u8], bytes.as_ref()].concat()
}

fn bodies_of(venue: &Venue) -> Vec<Vec<u8>> {
    let (event, block, floor) = (venue.event, venue.block, venue.floor);
    let seats = json!({"seat_ids": [venue.seat(6).to_string(), venue.seat(7).to_string()]});
    let wish = json!({
        "event_id": event.to_string(), "seat_ids": [venue.seat(6).to_string(), venue.seat(7).to_string()],
        "areas": [{"area_id": floor.to_string(), "quantity": 2}], "cart_token": "red", "source": "scanner",
    });
    let policy = json!({
        "ttl_seconds": 60, "checkout_extension_seconds": 0, "heartbeat_seconds": 30, "max_hold_seconds": 90,
        "seats_per_user": 4, "sales_open_at": "2023-01-31T19:30:00.5+02:00", "sales_close_at": "2031-01-31T19:30:00Z",
    });
    let tiers = json!([{"code": "gold", "price": 9000}, {"code": "silver", "price": 0}]);
    let section = |rows: Value| {
        json!({"sections": [{
            "block": "Circle", "rows": rows, "numbers": {"from": 1, "to": 3}, "tier": "gold",
            "x": -1.5, "y": 2e3, "seat_pitch": 1, "row_pitch": 0.5,
        }]})
    };
    let all: [(&str, Value); 20] = [
        ("hold-seats", wish),
        ("hold-seats", json!({"event_id": event.to_string(), "seat_ids": [venue.seat(0).to_string()]})),
        ("hold-any", json!({"event_id": event.to_string(), "block_id": block.to_string(), "quantity": 3})),
        (
            "bookings",
            json!({"event_id": event.to_string(), "seat_ids": [venue.seat(8).to_string()], "payment_reference": "x 1"}),
        ),
        ("confirm", json!({"payment_reference": "invoice 17"})),
        ("confirm", json!({})),
        ("checkout", json!({})),
        ("heartbeat", json!({})),
        ("cancel", json!({})),
        ("orgs", json!({"name": "Opera"})),
        ("keys", json!({"name": "till", "scopes": ["read", "hold"]})),
        ("events", json!({"name": "Tosca", "currency": "EUR", "tiers": tiers, "policy": policy})),
        ("blocks", json!({"name": "Circle"})),
        ("seats", section(json!(["A", "B"]))),
        ("seats", section(json!({"from": "Y", "to": "AB"}))),
        ("seats", section(json!({"from": 9, "to": 11}))),
        ("seats/block", seats.clone()),
        ("unblock", seats),
        ("areas", json!({"name": "Lawn", "tier": "silver", "capacity": 10})),
        ("reconcile", json!({})),
    ];
    let routes = bodies::routes(venue);
    let place = |end: &str| routes.iter().position(|route| route.ends_with(end)).expect("a route");
    all.iter().map(|(route, body)| tagged(place(route), body.to_string())).collect()
}

fn config() -> Vec<Vec<u8>> {
    let file = "[server]\nlisten = \"0.0.0.0:80\"\nlog_level = \"info,rowlock_api=debug\"\n[store]\ntruth = \
                \"postgres://a@b/c\"\n[redis]\nurls = [\"redis://r:6379\"]\n";
    let secret = "[auth]\njwt_secret = \"s3cr3t\"\n";
    let environment = "\n---\nROWLOCK__HTTP__BODY_BYTES=4096\nROWLOCK__HTTP__TRUSTED_PROXIES=10.0.0.0/8,::1";
    [file.into(), secret.into(), environment.into(), format!("{file}{environment}"), "a = 1".into()]
        .map(String::into_bytes)
        .to_vec()
}

fn credentials(venue: &Venue) -> Vec<Vec<u8>> {
    let now = START.millis() / 1000;
    let claims = json!({
        "sub": "ann", "org": venue.org.to_string(), "scope": "openid read hold", "iss": ISSUER, "aud": AUDIENCE,
        "exp": now + 600, "nbf": now - 1, "iat": now,
    });
    let mut listed = claims.clone();
    listed["aud"] = json!([AUDIENCE, "other"]);
    let head = r#"{"alg":"HS256","typ":"JWT"}"#;
    vec![
        tagged(0, format!("Bearer {KEY}")),
        tagged(0, "Basic dXNlcjpwYXNz"),
        tagged(1, KEY),
        tagged(2, format!("{head}\n{claims}")),
        tagged(2, format!("{}\n{claims}", r#"{"alg":"none","kid":"1"}"#)),
        tagged(3, claims.to_string()),
        tagged(3, listed.to_string()),
    ]
}

fn ids(venue: &Venue) -> Vec<Vec<u8>> {
    let packed = [&venue.event.as_bytes()[..], &9u32.to_le_bytes(), venue.event.as_bytes()].concat();
    vec![
        venue.event.to_string().into_bytes(),
        venue.hold.to_string().to_uppercase().into_bytes(),
        venue.seat(11).to_string().into_bytes(),
        "Zoë 🎭".into(),
        packed,
    ]
}

fn journal(venue: &Venue) -> Vec<Vec<u8>> {
    let line = |fact: &rowlock_core::Fact| {
        let kind = KINDS.iter().position(|kind| *kind == fact.kind()).expect("a known kind");
        tagged(kind, serde_json::to_string(fact).expect("a fact can be written"))
    };
    venue.world.journal.iter().map(line).collect()
}

fn kernel() -> Vec<Vec<u8>> {
    // Hold, start checkout, confirm, cancel; hold, wait, hold by another; block and unblock.
    let hold = [0, 0, 0, 0, 0, 2, 1, 2, 1, 0, 3, 0];
    let sell = [0, 3, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0];
    let wait = [3, 0, 2, 0, 0, 1, 1, 1, 1, 0, 0];
    let block = [0, 9, 1, 0, 2, 5, 6, 0, 9, 0, 0, 1, 5];
    vec![
        [&[0u8][..], &hold, &sell].concat(),
        [&[1u8][..], &hold, &wait, &block].concat(),
        [&[0u8][..], &hold, &wait, &hold, &[0, 5, 0, 0, 1, 2], &[0, 10, 0]].concat(),
    ]
}

fn queries_of(venue: &Venue) -> Vec<Vec<u8>> {
    let routes = queries::routes(venue);
    let place = |end: &str| routes.iter().position(|(_, path)| path.ends_with(end)).expect("a route");
    vec![
        tagged(place("/seats"), "form=compact"),
        tagged(place("/seats"), format!("form=full&block_id={}", venue.block)),
        tagged(place("/events"), format!("limit=10&after={}", venue.event)),
        tagged(place("/journal"), "limit=1000&after=7"),
        tagged(place("/holds"), format!("after={}", venue.hold)),
        tagged(5, format!("seat_id={}&seat_id={}", venue.seat(0), venue.seat(1))),
        tagged(place("/readyz"), "verbose"),
        tagged(place("/checkout"), "a=%C3%A9"),
    ]
}

fn redis(venue: &Venue) -> Vec<Vec<u8>> {
    let snapshot = venue.snapshot();
    let state = fuzzing::state(&snapshot);
    let held = &state.held[0];
    let claim = json!({"hold": held.hold.to_string(), "user": "ann", "expires_at": 5, "sequence": 9});
    let pending = json!({"token": held.hold.to_string(), "user": "ann", "cart": "red", "pending": true});
    let member = fuzzing::member_text(venue.event, held);
    let score = held.until.millis().to_le_bytes();
    let facts = venue.world.journal.iter().rev().take(3).zip(8u64..);
    let facts: Vec<Value> = facts.map(|(fact, sequence)| json!([sequence, fact.kind(), fact])).collect();
    let announced = json!({
        "node": uuid::Uuid::from_u128(1).to_string(), "org": venue.org.to_string(),
        "event": venue.event.to_string(), "sequence": 10, "facts": facts,
    });
    let bits = |words: &[u64]| words[0].to_le_bytes().map(u8::reverse_bits)[..2].to_vec();
    let counters =
        format!("available=9\nheld=1\nsold=1\nblocked=1\narea:{0}:held=2\narea:{0}:sold=1\n", venue.floor);
    let (free, sold) = (tagged(2, bits(&state.free)), tagged(2, bits(&state.sold)));
    let copy =
        [&b"7\n\x06"[..], counters.as_bytes(), &free, &sold, &[1], &score, member.as_bytes(), b"\n"].concat();
    let layout = [&[128, 128, 128][..], &fuzzing::layout_bytes(&snapshot)].concat();
    vec![
        tagged(0, claim.to_string()),
        tagged(0, pending.to_string()),
        tagged(1, [&(held.until.millis() as f64).to_le_bytes()[..], member.as_bytes()].concat()),
        tagged(2, announced.to_string()),
        tagged(3, copy),
        tagged(4, layout),
    ]
}

fn requests(venue: &Venue) -> Vec<Vec<u8>> {
    let (event, hold, booking) = (venue.event, venue.hold, venue.booking);
    let post =
        "Content-Type: application/json; charset=utf-8\nIdempotency-Key: \"a\\\"b\"\nRowlock-User: ann\n\n";
    [
        format!("GET /api/events/{event}/seats?form=status\nIf-None-Match: W/\"7-status\", *\n"),
        format!(
            "GET /api/events/{event}/seats\nAccept-Encoding: gzip;q=0.5, *;q=0\nIf-None-Match: \"7-full\"\n"
        ),
        format!("GET /api/events/{event}/occupancy\nX-Forwarded-For: 1.2.3.4, 10.0.0.7\nX-Request-Id: abc\n"),
        format!("POST /api/bookings/hold-seats\n{post}{{\"event_id\":\"{event}\",\"seat_ids\":[]}}"),
        format!("POST /api/bookings/hold/{hold}/heartbeat\n{post}{{}}"),
        format!("DELETE /api/bookings/hold/{hold}?seat_id={}\nRowlock-User: ann\n", venue.seat(0)),
        format!("GET /api/bookings/{booking}\nRowlock-User: bob\n"),
        format!("GET /api/bookings/hold/{}\n", venue.released),
        "GET /docs/errors/seats_taken\nAccept: text/html\n".into(),
        "OPTIONS *\n".into(),
        "GET /api/admin/users/a%2Fb/holds?limit=3\n".into(),
        "GET /openapi.json\n".into(),
        "DELETE /api/admin/keys/00000000-0000-0000-0000-000000000007\n".into(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
