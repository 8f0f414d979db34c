//! Requests as bytes. Those that are sent by the ten thousand are built once and patched.

use std::fmt::Write as _;

use rowlock_core::{EventId, SeatId};

const ID: usize = 36;

pub fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub fn get(path: &str, token: &str, headers: &[&str]) -> Vec<u8> {
    let mut text = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n");
    for header in headers {
        let _ = write!(text, "{header}\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

pub fn delete(path: &str, token: &str) -> Vec<u8> {
    format!("DELETE {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// The text of the first field of this name in an answer.
pub fn text_in<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let name = format!("\"{name}\":\"");
    let at = body.windows(name.len()).position(|window| window == name.as_bytes())? + name.len();
    let end = body[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&body[at..at + end]).ok()
}

/// The `hold_token` of an answer.
pub fn token_in(body: &[u8]) -> Option<String> {
    text_in(body, "hold_token").map(str::to_owned)
}

/// Seats in the order in which they are asked for: event after event, or one of each event in turn.
#[derive(Clone, Debug)]
pub struct Seats {
    events: Vec<EventId>,
    each: u32,
    /// How far the next seat is from one.
    stride: u64,
    in_turn: bool,
}

impl Seats {
    pub fn of(events: Vec<EventId>, each: u32, stride: u64) -> Self {
        Self { events, each, stride, in_turn: false }
    }

    pub fn in_turn(events: Vec<EventId>, each: u32) -> Self {
        Self { events, each, stride: 1, in_turn: true }
    }

    pub fn count(&self) -> u64 {
        self.events.len() as u64 * u64::from(self.each)
    }

    pub fn events(&self) -> &[EventId] {
        &self.events
    }

    /// `None` when there are no more.
    pub fn get(&self, number: u64) -> Option<(EventId, u32)> {
        let (events, each) = (self.events.len() as u64, u64::from(self.each));
        if number >= self.count() {
            return None;
        }
        let (event, place) =
            if self.in_turn { (number % events, number / events) } else { (number / each, number % each) };
        Some((self.events[event as usize], (place * self.stride % each) as u32))
    }
}

/// A request to hold one seat. All of its fields have a fixed width, so that the next one is the same bytes with other
/// digits.
#[derive(Clone, Debug)]
pub struct HoldRequest {
    bytes: Vec<u8>,
    event_at: usize,
    seat_at: usize,
    cart_at: usize,
    event: Option<EventId>,
}

impl HoldRequest {
    pub fn new(path: &str, token: &str) -> Self {
        let id = "0".repeat(ID);
        let (event, seat, cart) = (r#"{"event_id":""#, r#"","seat_ids":[""#, r#""],"cart_token":"c"#);
        let body = format!("{event}{id}{seat}{id}{cart}{:016x}\"}}", 0);
        let bytes = post(path, token, &body);
        let event_at = bytes.len() - body.len() + event.len();
        let seat_at = event_at + ID + seat.len();
        let cart_at = seat_at + ID + cart.len();
        Self { bytes, event_at, seat_at, cart_at, event: None }
    }

    pub fn patch(&mut self, event: EventId, ordinal: u32, cart: u64) -> &[u8] {
        if self.event != Some(event) {
            self.event = Some(event);
            let prefix = SeatId::prefix(event);
            self.bytes[self.event_at..self.event_at + ID].copy_from_slice(event.to_string().as_bytes());
            self.bytes[self.seat_at..self.seat_at + prefix.len()].copy_from_slice(prefix.as_bytes());
        }
        hex(&mut self.bytes[self.seat_at + ID - 8..self.seat_at + ID], ordinal.into());
        hex(&mut self.bytes[self.cart_at..self.cart_at + 16], cart);
        &self.bytes
    }
}

fn hex(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn body(bytes: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn a_patched_request_names_the_seat() {
        let (one, other) = (EventId::from_uuid(Uuid::new_v4()), EventId::from_uuid(Uuid::new_v4()));
        let mut request = HoldRequest::new("/x", "secret");
        for (event, ordinal, cart) in [(one, 0, 1), (one, 77_777, 2), (other, 5, u64::MAX)] {
            let body = body(request.patch(event, ordinal, cart));
            assert_eq!(body["event_id"], event.to_string());
            assert_eq!(body["seat_ids"][0], SeatId::of(event, ordinal).to_string());
            assert_eq!(body["cart_token"], format!("c{cart:016x}"));
        }
    }

    #[test]
    fn every_seat_comes_once() {
        let events: Vec<EventId> = (0..3).map(|_| EventId::from_uuid(Uuid::new_v4())).collect();
        for seats in [Seats::of(events.clone(), 10, 7), Seats::in_turn(events, 10)] {
            let all: std::collections::BTreeSet<_> =
                (0..seats.count()).filter_map(|n| seats.get(n)).collect();
            assert_eq!((all.len(), seats.get(30)), (30, None));
        }
    }

    #[test]
    fn texts_are_found_by_their_names() {
        let id = Uuid::new_v4().to_string();
        let body = format!("{{\"hold_token\":\"{id}\",\"x\":1,\"status\":\"\"}}");
        assert_eq!(token_in(body.as_bytes()), Some(id));
        assert_eq!(text_in(body.as_bytes(), "status"), Some(""));
        assert_eq!(text_in(body.as_bytes(), "x"), None, "a number is no text");
        assert_eq!(token_in(b"{\"hold_token\":\"cut off"), None);
    }
}
