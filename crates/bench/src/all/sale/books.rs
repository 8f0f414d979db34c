//! What the buyers got, by their own account.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::super::field::{Occupancy, Peer};
use super::super::report::{Fairness, Sale, Times};
use super::super::sizes;
use super::Buyer;
use crate::client::{Run, micros};
use crate::stats::{came_first, gini};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    Sold,
    Released,
    Expired,
    /// Its time was over before the buyer had paid.
    TooLate,
}

pub struct Books(Mutex<Entries>);

struct Entries {
    looks: u64,
    conflicts: u64,
    released: u32,
    expired: u32,
    too_late: u32,
    /// Seats by buyer.
    got: Vec<u32>,
    /// Who bought a seat. More than one is what must never be.
    owners: HashMap<u32, Vec<usize>>,
    wasted: f64,
    used: f64,
    sold: Vec<(f64, u32)>,
    hold: Run,
    unexpected: HashMap<String, u32>,
}

impl Books {
    pub fn new(buyers: u32) -> Self {
        Self(Mutex::new(Entries {
            looks: 0,
            conflicts: 0,
            released: 0,
            expired: 0,
            too_late: 0,
            got: vec![0; buyers as usize],
            owners: HashMap::new(),
            wasted: 0.0,
            used: 0.0,
            sold: Vec::new(),
            hold: Run::new(),
            unexpected: HashMap::new(),
        }))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("nobody panics with it")
    }

    fn unexpected(&self, what: String) {
        *self.entries().unexpected.entry(what).or_default() += 1;
    }

    pub fn broken(&self, error: &std::io::Error) {
        self.unexpected(format!("a connection broke: {error}"));
    }

    pub fn expect(&self, status: u16, wanted: u16, what: &str) {
        if status != wanted {
            self.unexpected(format!("{what} answered {status}"));
        }
    }

    pub fn looked(&self, status: u16) {
        self.entries().looks += 1;
        self.expect(status, 200, "the map");
    }

    pub fn held(&self, status: u16, took: Duration) {
        let mut entries = self.entries();
        entries.hold.latency.saturating_record(micros(took));
        match status {
            201 => entries.hold.done += 1,
            409 => entries.conflicts += 1,
            _ => {
                drop(entries);
                self.unexpected(format!("a hold answered {status}"));
            }
        }
    }

    /// A hold has come to its end after so many seconds, at this moment.
    pub fn ended(&self, buyer: usize, how: Ended, seats: &[u32], lasted: f64, at: f64) {
        let mut entries = self.entries();
        let seat_seconds = lasted * seats.len() as f64;
        match how {
            Ended::Sold => {
                entries.used += seat_seconds;
                entries.got[buyer] += seats.len() as u32;
                entries.sold.push((at, seats.len() as u32));
                for seat in seats {
                    entries.owners.entry(*seat).or_default().push(buyer);
                }
            }
            Ended::Released => {
                entries.wasted += seat_seconds;
                entries.released += 1;
            }
            Ended::Expired => {
                entries.wasted += seat_seconds;
                entries.expired += 1;
            }
            Ended::TooLate => {
                entries.wasted += seat_seconds;
                entries.too_late += 1;
            }
        }
    }

    pub fn problems(&self, occupancy: &Occupancy, seats: u32) -> Vec<String> {
        let entries = self.entries();
        let mut problems: Vec<String> =
            entries.unexpected.iter().map(|(what, times)| format!("{what}, {times} times")).collect();
        let twice = entries.owners.values().filter(|owners| owners.len() > 1).count();
        if twice > 0 {
            problems.push(format!("{twice} seats were sold more than once"));
        }
        let sold = entries.owners.len() as u64;
        let Occupancy { available, held, sold: stored, total } = *occupancy;
        if stored != sold || held != 0 || available + stored != total || total != u64::from(seats) {
            problems.push(format!("buyers have {sold} of {seats} seats, and the map says {occupancy:?}"));
        }
        problems
    }

    pub fn report(&self, peer: Peer, size: sizes::Sale, occupancy: Occupancy, buyers: &[Buyer]) -> Sale {
        let entries = self.entries();
        let minutes = |seconds: f64| seconds * size.speed / 60.0;
        let mut sum = 0;
        let mut sold = entries.sold.clone();
        sold.sort_by(|one, other| one.0.total_cmp(&other.0));
        let over_time: Vec<(f64, u32)> = sold
            .into_iter()
            .map(|(at, seats)| {
                sum += seats;
                (at, sum)
            })
            .collect();
        Sale {
            peer,
            buyers: size.buyers,
            seats: size.seats,
            speed: size.speed,
            sold_out_after_seconds: over_time.last().filter(|last| last.1 >= size.seats).map(|last| last.0),
            winners: entries.got.iter().filter(|got| **got > 0).count() as u32,
            sold: sum,
            occupancy,
            looks: entries.looks,
            holds: entries.hold.done,
            conflicts: entries.conflicts,
            released: entries.released,
            left_to_expire: entries.expired,
            too_late: entries.too_late,
            wasted_seat_minutes: minutes(entries.wasted),
            used_seat_minutes: minutes(entries.used),
            fairness: fairness(&entries.got, buyers, size.seats),
            hold: Times::of(&entries.hold),
            sold_over_time: thin(&over_time),
        }
    }
}

/// In the order of arrival: what each got, and what each wanted.
fn fairness(got: &[u32], buyers: &[Buyer], seats: u32) -> Fairness {
    let mut left = seats;
    let queue: Vec<u32> = buyers
        .iter()
        .map(|buyer| {
            let gets = buyer.wants.min(left);
            left -= gets;
            gets
        })
        .collect();
    let won: Vec<bool> = got.iter().map(|got| *got > 0).collect();
    let share = |got: &[u32]| {
        let all: u32 = got.iter().sum();
        f64::from(got[..got.len() / 10].iter().sum::<u32>()) / f64::from(all.max(1))
    };
    Fairness {
        winner_came_first: came_first(&won),
        share_of_first_tenth: share(got),
        share_in_a_queue: share(&queue),
        gini: gini(got.iter().map(|got| f64::from(*got))),
        gini_in_a_queue: gini(queue.iter().map(|got| f64::from(*got))),
    }
}

/// Enough points for a plot.
fn thin(points: &[(f64, u32)]) -> Vec<(f64, u32)> {
    const MOST: usize = 200;
    let step = points.len().div_ceil(MOST).max(1);
    let mut thin: Vec<_> = points.iter().copied().step_by(step).collect();
    if thin.last() != points.last() {
        thin.extend(points.last());
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::super::buyers;
    use super::*;

    fn occupancy(available: u64, held: u64, sold: u64) -> Occupancy {
        Occupancy { available, held, sold, total: available + held + sold }
    }

    #[test]
    fn a_seat_sold_twice_is_found() {
        let books = Books::new(3);
        books.ended(0, Ended::Sold, &[1, 2], 1.0, 1.0);
        assert_eq!(books.problems(&occupancy(8, 0, 2), 10), Vec::<String>::new());
        books.ended(2, Ended::Sold, &[2], 1.0, 2.0);
        assert_eq!(books.problems(&occupancy(8, 0, 2), 10).len(), 1);
    }

    #[test]
    fn books_and_map_must_agree() {
        let books = Books::new(3);
        books.ended(1, Ended::Sold, &[5], 1.0, 1.0);
        books.ended(2, Ended::Released, &[6, 7], 30.0, 1.0);
        for wrong in [occupancy(8, 0, 2), occupancy(8, 1, 1), occupancy(9, 0, 0), occupancy(5, 0, 1)] {
            assert_eq!(books.problems(&wrong, 10).len(), 1, "{wrong:?}");
        }
        books.expect(503, 201, "confirm");
        assert_eq!(books.problems(&occupancy(9, 0, 1), 10), ["confirm answered 503, 1 times"]);
    }

    #[test]
    fn waste_is_in_minutes_of_the_sales_clock() {
        let (books, size) = (Books::new(4), sizes::Sale { buyers: 4, seats: 3, speed: 60.0 });
        books.ended(0, Ended::Expired, &[1, 2], 5.0, 1.0);
        books.ended(0, Ended::Released, &[1], 2.0, 1.0);
        books.ended(1, Ended::Sold, &[0, 1, 2], 1.0, 4.0);
        let sale = books.report(Peer::Embedded, size, occupancy(0, 0, 3), &buyers(4, 60.0));
        assert_eq!((sale.wasted_seat_minutes, sale.used_seat_minutes), (12.0, 3.0));
        assert_eq!((sale.sold_out_after_seconds, sale.winners, sale.sold), (Some(4.0), 1, 3));
    }

    #[test]
    fn a_strict_queue_is_as_fair_as_a_queue() {
        let buyers = buyers(1000, 60.0);
        let mut left = 300;
        let queue: Vec<u32> = buyers
            .iter()
            .map(|buyer| {
                let gets = buyer.wants.min(left);
                left -= gets;
                gets
            })
            .collect();
        let fair = fairness(&queue, &buyers, 300);
        assert_eq!(fair.winner_came_first, Some(1.0));
        assert_eq!((fair.share_of_first_tenth, fair.gini), (fair.share_in_a_queue, fair.gini_in_a_queue));
        let mut turned = queue.clone();
        turned.reverse();
        let unfair = fairness(&turned, &buyers, 300);
        assert_eq!((unfair.winner_came_first, unfair.share_of_first_tenth), (Some(0.0), 0.0));
    }
}
