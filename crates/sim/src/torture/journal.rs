//! The journal of the event, read through the API, and played again.

use std::collections::HashMap;

use serde_json::Value;

use super::Failed;
use super::house::{AREA_CAPACITY, Admin};
use super::seat::Time;

const PAGE: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Entry {
    pub sequence: u64,
    pub kind: String,
    pub request_id: String,
    pub data: Value,
}

impl Entry {
    /// The ordinals of the seats that it is about.
    pub fn seats(&self) -> Vec<u32> {
        let list = |name: &str| self.data[name].as_array().into_iter().flatten();
        let held = list("seats").filter_map(|seat| seat["ordinal"].as_u64());
        let sold = list("tickets").filter_map(|ticket| ticket["admits"]["seat"].as_u64());
        held.chain(sold).map(|ordinal| ordinal as u32).collect()
    }

    /// How many places of the area it is about.
    fn places(&self) -> i64 {
        let list = |name: &str| self.data[name].as_array().into_iter().flatten();
        let held: i64 = list("areas").filter_map(|area| area["quantity"].as_i64()).sum();
        held + list("tickets").filter(|ticket| ticket["admits"]["area"].is_string()).count() as i64
    }

    pub fn hold(&self) -> String {
        let hold = match self.kind.as_str() {
            "SEAT-HOLD-CREATED" if self.data["hold"].is_null() => &self.data["id"],
            _ => &self.data["hold"],
        };
        hold.as_str().unwrap_or_default().to_owned()
    }

    pub fn booking(&self) -> String {
        self.data["id"].as_str().unwrap_or_default().to_owned()
    }

    pub fn time(&self, field: &str) -> Time {
        self.data[field].as_i64().unwrap_or(0) * 1_000
    }
}

/// Reads all of it, page by page.
pub async fn fetch(admin: &Admin, event: &str) -> Result<Vec<Entry>, Failed> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry.sequence);
        let path = format!("/api/admin/events/{event}/journal?limit={PAGE}&after={after}");
        let (status, page) = admin.get(entries.len() / PAGE, &path).await?;
        if status != 200 {
            return Err(Failed(format!("the journal can't be read: {status} {page}")));
        }
        let list = page["entries"].as_array().cloned().unwrap_or_default();
        let count = list.len();
        entries.extend(list.into_iter().map(|entry| Entry {
            sequence: entry["sequence"].as_u64().unwrap_or(0),
            kind: entry["type"].as_str().unwrap_or_default().to_owned(),
            request_id: entry["request_id"].as_str().unwrap_or_default().to_owned(),
            data: entry["data"].clone(),
        }));
        if count < PAGE {
            return Ok(entries);
        }
    }
}

/// The journal played from the beginning.
#[derive(Default)]
pub struct Replay {
    /// The map after each sequence, in the letters of the API.
    pub maps: HashMap<u64, String>,
    pub last: u64,
    /// What can't have happened, or not in this order.
    pub wrong: Vec<String>,
    /// The bookings that stand at the end, by seat.
    pub sold_to: HashMap<u32, String>,
    pub area_held: i64,
    pub area_sold: i64,
}

pub fn replay(entries: &[Entry], seats: u32) -> Replay {
    let mut replay = Replay::default();
    let mut letters = vec![b'a'; seats as usize];
    // Who has a seat: the hold, then the booking.
    let mut owners: HashMap<u32, String> = HashMap::new();
    for entry in entries {
        if entry.sequence != replay.last + 1 {
            replay.wrong.push(format!("{} follows {}", entry.sequence, replay.last));
        }
        replay.last = entry.sequence;
        let (hold, seats) = (entry.hold(), entry.seats());
        let (from, to, owner, next) = match entry.kind.as_str() {
            "SEAT-HOLD-CREATED" => (b'a', b'h', None, Some(hold.clone())),
            "SEAT-HOLD-EXTENDED" => (b'h', b'h', Some(hold.clone()), Some(hold.clone())),
            "SEAT-HOLD-CANCELLED" | "SEAT-HOLD-EXPIRED" => (b'h', b'a', Some(hold.clone()), None),
            "BOOKING-CONFIRMED" => (b'h', b's', Some(hold.clone()), Some(entry.booking())),
            "BOOKING-CANCELLED" => (b's', b'a', Some(entry.booking()), None),
            _ => {
                replay.maps.insert(entry.sequence, String::from_utf8_lossy(&letters).into_owned());
                continue;
            }
        };
        for seat in seats {
            let is = letters.get(seat as usize).copied().unwrap_or(b'?');
            if is != from || owners.get(&seat) != owner.as_ref() {
                let has = owners.get(&seat).cloned().unwrap_or_default();
                let (sequence, kind) = (entry.sequence, &entry.kind);
                replay.wrong.push(format!(
                    "{sequence} is a {kind} of {hold} for seat {seat}, which is '{}' and has {has:?}",
                    is as char
                ));
            }
            if let Some(letter) = letters.get_mut(seat as usize) {
                *letter = to;
            }
            match &next {
                Some(next) => owners.insert(seat, next.clone()),
                None => owners.remove(&seat),
            };
        }
        replay.count_areas(entry);
        replay.check_times(entry);
        replay.maps.insert(entry.sequence, String::from_utf8_lossy(&letters).into_owned());
    }
    owners.retain(|seat, _| letters[*seat as usize] == b's');
    replay.sold_to = owners;
    replay
}

impl Replay {
    fn count_areas(&mut self, entry: &Entry) {
        let places = entry.places();
        match entry.kind.as_str() {
            "SEAT-HOLD-CREATED" => self.area_held += places,
            "SEAT-HOLD-CANCELLED" | "SEAT-HOLD-EXPIRED" => self.area_held -= places,
            "BOOKING-CONFIRMED" => {
                (self.area_held, self.area_sold) = (self.area_held - places, self.area_sold + places)
            }
            "BOOKING-CANCELLED" => self.area_sold -= places,
            _ => {}
        }
        if self.area_held < 0
            || self.area_sold < 0
            || self.area_held + self.area_sold > i64::from(AREA_CAPACITY)
        {
            let (held, sold) = (self.area_held, self.area_sold);
            self.wrong.push(format!("after {} the area has {held} held and {sold} sold", entry.sequence));
        }
    }

    /// A hold ends by itself when its time has come, and not before.
    fn check_times(&mut self, entry: &Entry) {
        if entry.kind == "SEAT-HOLD-EXPIRED" && entry.time("at") < entry.time("expires_at") {
            self.wrong.push(format!("{} ended a hold before its time", entry.sequence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(sequence: u64, kind: &str, data: Value) -> Entry {
        Entry { sequence, kind: kind.into(), request_id: String::new(), data }
    }

    fn held(sequence: u64, hold: &str) -> Entry {
        entry(sequence, "SEAT-HOLD-CREATED", json!({"id": hold, "seats": [{"ordinal": 0}]}))
    }

    fn sold(sequence: u64, hold: &str, booking: &str) -> Entry {
        let data = json!({"id": booking, "hold": hold, "tickets": [{"admits": {"seat": 0}}]});
        entry(sequence, "BOOKING-CONFIRMED", data)
    }

    #[test]
    fn a_right_journal_gives_the_map_of_every_moment() {
        let replay = replay(&[held(1, "h"), sold(2, "h", "b")], 2);
        assert_eq!(replay.wrong, Vec::<String>::new());
        assert_eq!((replay.maps[&1].as_str(), replay.maps[&2].as_str()), ("ha", "sa"));
        assert_eq!(replay.sold_to[&0], "b");
    }

    #[test]
    fn what_is_wrong_is_found() {
        assert_eq!(replay(&[held(1, "h"), held(3, "i")], 1).wrong.len(), 2, "a gap, and two owners");
        assert_eq!(replay(&[held(1, "h"), sold(2, "i", "b")], 1).wrong.len(), 1, "another one's hold");
        let part = json!({"hold": "h", "seats": [{"ordinal": 0}], "at": 5, "expires_at": 6});
        let early = entry(2, "SEAT-HOLD-EXPIRED", part);
        assert_eq!(replay(&[held(1, "h"), early], 1).wrong.len(), 1, "too early");
        let crowd = json!({"id": "h", "areas": [{"quantity": AREA_CAPACITY + 1}]});
        assert_eq!(replay(&[entry(1, "SEAT-HOLD-CREATED", crowd)], 1).wrong.len(), 1, "too many");
    }
}
