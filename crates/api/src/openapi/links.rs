//! What one can do with an answer: the ids in it, and the operations that take them. Readers find their way by these
//! links, and so do programs that test whole stories instead of single requests.

use serde_json::{Map, Value, json};

/// An answer with this schema has this in it, which these operations take by this name.
struct Way {
    schema: &'static str,
    pointer: &'static str,
    parameter: &'static str,
    to: &'static [&'static str],
}

const WAYS: [Way; 8] = [
    Way {
        schema: "Hold",
        pointer: "/hold_token",
        parameter: "hold_token",
        to: &["get_hold", "start_checkout", "heartbeat", "release", "confirm"],
    },
    Way { schema: "Hold", pointer: "/event_id", parameter: "event_id", to: &["get_occupancy"] },
    Way {
        schema: "Booking",
        pointer: "/booking_id",
        parameter: "booking_id",
        to: &["get_booking", "cancel"],
    },
    Way { schema: "Booking", pointer: "/hold_token", parameter: "hold_token", to: &["get_hold"] },
    Way {
        schema: "EventCreated",
        pointer: "/event_id",
        parameter: "event_id",
        to: &[
            "get_event",
            "get_seats",
            "get_occupancy",
            "get_journal",
            "get_registry",
            "reconcile",
            "create_block",
            "create_seats",
            "create_area",
        ],
    },
    Way {
        schema: "SeatsCreated",
        pointer: "/event_id",
        parameter: "event_id",
        to: &["get_seats", "get_occupancy"],
    },
    Way { schema: "SeatsChanged", pointer: "/event_id", parameter: "event_id", to: &["get_occupancy"] },
    Way { schema: "ApiKey", pointer: "/key_id", parameter: "key_id", to: &["revoke_key"] },
];

/// Links that need more than one id, or put them into a body: from, to, and the link.
fn others(schema: &str) -> Vec<(&'static str, Value)> {
    const EVENT: &str = "$response.body#/event_id";
    const FIRST: &str = "$response.body#/first_seat_id";
    match schema {
        "SeatsCreated" => vec![
            ("get_seat", json!({ "parameters": { "event_id": EVENT, "seat_id": FIRST } })),
            ("hold_seats", json!({ "requestBody": { "event_id": EVENT, "seat_ids": [FIRST] } })),
            ("book", json!({ "requestBody": { "event_id": EVENT, "seat_ids": [FIRST] } })),
            (
                "hold_any",
                json!({ "requestBody": {
                    "event_id": EVENT, "block_id": "$response.body#/blocks/0/block_id", "quantity": 1,
                } }),
            ),
            (
                "block_seats",
                json!({ "parameters": { "event_id": EVENT }, "requestBody": { "seat_ids": [FIRST] } }),
            ),
        ],
        "SeatsChanged" => vec![(
            "unblock_seats",
            json!({
                "parameters": { "event_id": EVENT },
                "requestBody": { "seat_ids": ["$request.body#/seat_ids/0"] },
            }),
        )],
        _ => Vec::new(),
    }
}

/// Adds to a good answer where it leads.
pub fn add(response: &mut Value) {
    let schema = response["content"]["application/json"]["schema"]["$ref"].as_str();
    let Some(schema) = schema.and_then(|reference| reference.rsplit('/').next()) else { return };
    let mut links = Map::new();
    for way in WAYS.iter().filter(|way| way.schema == schema) {
        let parameters = json!({ way.parameter: format!("$response.body#{}", way.pointer) });
        for to in way.to {
            links.insert((*to).to_owned(), json!({ "operationId": to, "parameters": parameters }));
        }
    }
    for (to, mut link) in others(schema) {
        link["operationId"] = json!(to);
        links.insert(to.to_owned(), link);
    }
    if !links.is_empty() {
        response["links"] = Value::Object(links);
    }
}
