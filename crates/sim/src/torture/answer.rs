//! What an answer says about seats, holds and bookings.

use serde::Serialize;
use serde_json::Value;

use super::seat::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HoldSaid {
    pub hold: String,
    pub status: String,
    pub cart: String,
    pub seats: Vec<u32>,
    pub areas: u32,
    pub created_at: Time,
    pub expires_at: Time,
    pub booking: Option<String>,
    /// Seats that were asked for and are in another hold of the same user.
    pub elsewhere: Vec<(u32, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BookingSaid {
    pub booking: String,
    pub status: String,
    pub hold: String,
    pub seats: Vec<u32>,
    /// The ids of the tickets, sorted.
    pub tickets: Vec<String>,
    pub created_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Hold(HoldSaid),
    Booking(BookingSaid),
    Map { sequence: u64, seats: String },
    Refusal { code: String, conflicts: Vec<u32> },
    Other,
}

impl Answer {
    pub fn read(status: u16, body: &Value) -> Self {
        if status >= 400 {
            let conflicts = seats(&body["conflicts"]);
            return Answer::Refusal { code: text(&body["code"]), conflicts };
        }
        if body["tickets"].is_array() {
            let mut tickets: Vec<String> = items(&body["tickets"]).map(|t| text(&t["ticket_id"])).collect();
            tickets.sort();
            return Answer::Booking(BookingSaid {
                booking: text(&body["booking_id"]),
                status: text(&body["status"]),
                hold: text(&body["hold_token"]),
                seats: seats(&body["tickets"]),
                tickets,
                created_at: moment(&body["created_at"]),
            });
        }
        if body["hold_token"].is_string() {
            let elsewhere =
                items(&body["already_held"]).filter_map(|s| Some((ordinal(s)?, text(&s["hold_token"]))));
            return Answer::Hold(HoldSaid {
                hold: text(&body["hold_token"]),
                status: text(&body["status"]),
                cart: text(&body["cart_token"]),
                seats: seats(&body["seats"]),
                areas: items(&body["areas"]).filter_map(|a| a["quantity"].as_u64()).sum::<u64>() as u32,
                created_at: moment(&body["created_at"]),
                expires_at: moment(&body["expires_at"]),
                booking: body["booking_id"].as_str().map(str::to_owned),
                elsewhere: elsewhere.collect(),
            });
        }
        if let (Some(sequence), Some(seats)) = (body["sequence"].as_u64(), body["status"].as_str()) {
            return Answer::Map { sequence, seats: seats.to_owned() };
        }
        Answer::Other
    }

    pub fn hold(&self) -> Option<&HoldSaid> {
        match self {
            Answer::Hold(hold) => Some(hold),
            _ => None,
        }
    }

    pub fn booking(&self) -> Option<&BookingSaid> {
        match self {
            Answer::Booking(booking) => Some(booking),
            _ => None,
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A seat's id ends in its ordinal, in eight hex digits.
fn ordinal(item: &Value) -> Option<u32> {
    let id = item["seat_id"].as_str()?;
    u32::from_str_radix(id.get(28..)?, 16).ok()
}

fn seats(list: &Value) -> Vec<u32> {
    let mut seats: Vec<u32> = items(list).filter_map(ordinal).collect();
    seats.sort_unstable();
    seats
}

/// Microseconds since the Unix epoch.
fn moment(value: &Value) -> Time {
    let read = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    read.map_or(0, |at| at.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_parts_of_a_hold_are_found() {
        let seat = |ordinal: u32| format!("0190a5f0-7c3e-8bbb-8a40-3d5c{ordinal:08x}");
        let body = json!({
            "hold_token": "h", "status": "active", "cart_token": "c", "created_at": "1970-01-01T00:00:01.500Z",
            "expires_at": "1970-01-01T00:00:02.000Z", "seats": [{"seat_id": seat(9)}, {"seat_id": seat(2)}],
            "areas": [{"quantity": 3}], "already_held": [{"seat_id": seat(4), "hold_token": "other"}],
        });
        let answer = Answer::read(201, &body);
        let hold = answer.hold().unwrap();
        assert_eq!((hold.seats.as_slice(), hold.areas), ([2, 9].as_slice(), 3));
        assert_eq!((hold.created_at, hold.expires_at), (1_500_000, 2_000_000));
        assert_eq!(hold.elsewhere, [(4, "other".to_owned())]);
    }

    #[test]
    fn a_refusal_names_its_seats() {
        let body = json!({"code": "seats_taken",
                          "conflicts": [{"seat_id": "0190a5f0-7c3e-8bbb-8a40-3d5c0000000a"}]});
        let expected = Answer::Refusal { code: "seats_taken".into(), conflicts: vec![10] };
        assert_eq!(Answer::read(409, &body), expected);
    }
}
