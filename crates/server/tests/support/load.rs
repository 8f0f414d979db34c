//! Buyers who keep their own books, so that what a server remembers can be compared with what it said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;

use super::{Client, seat};

/// Buyers at a time. Two and two of them want the same seats.
pub const BUYERS: u32 = 16;
/// Requests at a time when the books are compared.
const AUDITORS: usize = 16;

/// What one buyer knows of one cart.
#[derive(Clone, Debug)]
pub struct Entry {
    user: String,
    seats: Vec<String>,
    /// Acknowledged with this token. `None`: the answer never came.
    hold: Option<String>,
    confirm_sent: bool,
    /// Acknowledged with this id.
    booking: Option<String>,
}

pub struct Load {
    event: String,
    stopping: AtomicBool,
    /// Seats are not used twice, so every answer is either «yours» or «your rival was first».
    next_seat: [AtomicU32; BUYERS as usize / 2],
}

impl Load {
    /// `seats` is how many the event has.
    pub fn new(event: &str, seats: u32) -> Arc<Self> {
        let share = seats / (BUYERS / 2);
        let next_seat = std::array::from_fn(|pair| AtomicU32::new(pair as u32 * share));
        Arc::new(Self { event: event.to_owned(), stopping: AtomicBool::new(false), next_seat })
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Buys until the server is gone or the load is stopped. Returns everybody's books.
    pub async fn run(self: Arc<Self>, client: &Client, round: u32) -> Vec<Entry> {
        let buyers = (0..BUYERS).map(|buyer| {
            let (load, client) = (Arc::clone(&self), client.clone());
            tokio::spawn(async move { load.buy(&client, &format!("{round}-{buyer}"), buyer).await })
        });
        let mut entries = Vec::new();
        for buyer in buyers.collect::<Vec<_>>() {
            entries.extend(buyer.await.unwrap());
        }
        entries
    }

    async fn buy(&self, client: &Client, name: &str, buyer: u32) -> Vec<Entry> {
        let mut books = Vec::new();
        // The first of each pair moves on; the second one runs after it.
        let (next, leads) = (&self.next_seat[buyer as usize / 2], buyer.is_multiple_of(2));
        for cart in 0.. {
            if self.stopping.load(Ordering::Relaxed) {
                break;
            }
            let first =
                if leads { next.fetch_add(2, Ordering::Relaxed) } else { next.load(Ordering::Relaxed) };
            let seats = vec![seat(&self.event, first), seat(&self.event, first + 1)];
            let user = format!("{name}-{cart}");
            let mut entry = Entry { user, seats, hold: None, confirm_sent: false, booking: None };
            match client.hold(&entry.user, &self.event, &entry.seats).await {
                Ok((201, hold)) => entry.hold = Some(text(&hold, "hold_token")),
                Ok((409, _)) => continue,
                // The server is on its way out, and says that nothing happened.
                Ok((503, _)) => break,
                Ok((status, body)) => panic!("a hold was answered with {status}: {body}"),
                Err(_) => {
                    books.push(entry);
                    break;
                }
            }
            let alive = cart % 3 != 0 || self.confirm(client, &mut entry).await;
            books.push(entry);
            if !alive {
                break;
            }
        }
        books
    }

    async fn confirm(&self, client: &Client, entry: &mut Entry) -> bool {
        entry.confirm_sent = true;
        match client.confirm(&entry.user, entry.hold.as_ref().unwrap()).await {
            Ok((201, booking)) => entry.booking = Some(text(&booking, "booking_id")),
            Ok((503, _)) | Err(_) => return false,
            Ok((status, body)) => panic!("a confirmation was answered with {status}: {body}"),
        }
        true
    }

    /// Compares the books with the server. What was acknowledged is there, exactly; what was not is there whole or
    /// not at all.
    pub async fn audit(self: &Arc<Self>, client: &Client, books: &[Entry]) {
        let share = books.len().div_ceil(AUDITORS).max(1);
        let auditors: Vec<_> = books
            .chunks(share)
            .map(|chunk| {
                let (load, client, chunk) = (Arc::clone(self), client.clone(), chunk.to_vec());
                tokio::spawn(async move {
                    for entry in &chunk {
                        load.audit_one(&client, entry).await;
                    }
                })
            })
            .collect();
        for auditor in auditors {
            if let Err(found) = auditor.await {
                std::panic::resume_unwind(found.into_panic());
            }
        }
    }

    async fn audit_one(&self, client: &Client, entry: &Entry) {
        let Some(token) = &entry.hold else { return self.audit_unanswered(client, entry).await };
        let (status, hold) = client.get(&entry.user, &format!("/api/bookings/hold/{token}")).await.unwrap();
        assert_eq!(status, 200, "{entry:?} is lost: {hold}");
        assert_eq!(seats_in(&hold, "seats"), entry.seats, "{entry:?}");
        let expected: &[&str] = match (&entry.booking, entry.confirm_sent) {
            (Some(_), _) => &["converted"],
            (None, true) => &["active", "converted"],
            (None, false) => &["active"],
        };
        assert!(expected.contains(&hold["status"].as_str().unwrap()), "{entry:?}: {hold}");
        if let Some(id) = &entry.booking {
            let (status, booking) = client.get(&entry.user, &format!("/api/bookings/{id}")).await.unwrap();
            assert_eq!(status, 200, "{entry:?} is lost: {booking}");
            assert_eq!(seats_in(&booking, "tickets"), entry.seats, "{entry:?}");
        }
    }

    async fn audit_unanswered(&self, client: &Client, entry: &Entry) {
        let mut found = Vec::new();
        for seat in &entry.seats {
            let path = format!("/api/events/{}/seats/{seat}", self.event);
            let (status, seat) = client.get(&entry.user, &path).await.unwrap();
            assert_eq!(status, 200, "{seat}");
            found.push(seat["status"].clone());
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{entry:?} is half there: {found:?}");
    }
}

pub fn acknowledged(books: &[Entry]) -> (usize, usize) {
    let holds = books.iter().filter(|entry| entry.hold.is_some()).count();
    (holds, books.iter().filter(|entry| entry.booking.is_some()).count())
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

fn seats_in(value: &Value, list: &str) -> Vec<String> {
    let mut seats: Vec<String> =
        value[list].as_array().unwrap_or(&Vec::new()).iter().map(|item| text(item, "seat_id")).collect();
    seats.sort();
    seats
}
