//! What buyers do, from a seed: they want the same few seats, change their minds, come too late, pay, and cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use rand::seq::index;

use super::answer::{BookingSaid, HoldSaid};
use super::client::{Client, Outcome};
use super::history::What;
use super::house::{MAX_HOLD_SECONDS, SEATS};

pub struct Buyer {
    pub client: Client,
    pub stop: Arc<AtomicBool>,
    carts: u32,
    bookings: Vec<BookingSaid>,
}

impl Buyer {
    pub fn new(client: Client, stop: Arc<AtomicBool>) -> Self {
        Self { client, stop, carts: 0, bookings: Vec::new() }
    }

    pub async fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            match self.client.rng.random_range(0..10) {
                0 | 1 => drop(self.client.carry_out(What::Map).await),
                2 => self.look_at_a_booking().await,
                3 if !self.bookings.is_empty() => self.cancel_one().await,
                _ => self.buy().await,
            }
            self.think(20, 150).await;
        }
    }

    async fn think(&mut self, least: u64, most: u64) {
        let time = self.client.rng.random_range(least..most);
        tokio::time::sleep(Duration::from_millis(time)).await;
    }

    /// A cart of its own each time, so that what was given up stays alone.
    async fn buy(&mut self) {
        self.carts += 1;
        let cart = format!("cart-{}", self.carts);
        let what = if self.client.rng.random_bool(0.15) {
            What::HoldAny { cart: cart.clone(), quantity: self.client.rng.random_range(1..=3) }
        } else {
            self.wish(cart.clone())
        };
        let Outcome::Done(answer) = self.client.carry_out(what).await else { return };
        let Some(mut hold) = answer.hold().cloned() else { return };
        for _ in 0..self.client.rng.random_range(0..4) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.change(&mut hold, &cart).await {
                Next::GoOn => {}
                Next::Leave => return,
            }
            self.think(10, 1_500).await;
        }
        match self.client.rng.random_range(0..20) {
            0..=10 => self.pay(&hold).await,
            11..=15 => {
                let (seats, only) = (hold.seats.clone(), Vec::new());
                self.client.carry_out(What::Release { hold: hold.hold, seats, only }).await;
            }
            // Comes back after the hold has ended.
            16 => {
                self.think(1_000, u64::from(MAX_HOLD_SECONDS) * 1_000).await;
                self.pay(&hold).await;
            }
            _ => {}
        }
    }

    fn wish(&mut self, cart: String) -> What {
        let rng = &mut self.client.rng;
        let mut seats: Vec<u32> = index::sample(rng, SEATS as usize, 4).iter().map(|i| i as u32).collect();
        seats.truncate(*[1, 1, 1, 2, 2, 3, 4].get(rng.random_range(0..7)).unwrap_or(&1));
        let areas = if rng.random_bool(0.2) { rng.random_range(1..=2) } else { 0 };
        What::Hold { cart, seats, areas }
    }

    /// Something in the middle.
    async fn change(&mut self, hold: &mut HoldSaid, cart: &str) -> Next {
        let (token, seats) = (hold.hold.clone(), hold.seats.clone());
        let what = match self.client.rng.random_range(0..7) {
            0 => What::Checkout { hold: token, seats },
            1 | 2 => What::Heartbeat { hold: token, seats },
            3 => What::GetHold { hold: token, seats },
            4 => self.wish(cart.to_owned()),
            5 if seats.len() > 1 => {
                let only = vec![seats[self.client.rng.random_range(0..seats.len())]];
                What::Release { hold: token, seats, only }
            }
            _ => {
                self.think(1_000, 7_000).await;
                return Next::GoOn;
            }
        };
        let looks = !what.writes();
        match self.client.carry_out(what).await {
            Outcome::Done(answer) => match answer.hold() {
                // The hold may have ended and the wish begun a new one for the cart.
                Some(said) if said.status == "active" => {
                    *hold = said.clone();
                    Next::GoOn
                }
                _ => Next::Leave,
            },
            Outcome::Refused => Next::GoOn,
            Outcome::Unknown if looks => Next::GoOn,
            Outcome::Unknown => Next::Leave,
        }
    }

    async fn pay(&mut self, hold: &HoldSaid) {
        let what = What::Confirm { hold: hold.hold.clone(), seats: hold.seats.clone() };
        let Outcome::Done(answer) = self.client.carry_out(what).await else { return };
        let Some(booking) = answer.booking().cloned() else { return };
        self.bookings.push(booking);
        if self.client.rng.random_bool(0.7) || self.bookings.len() > 2 {
            self.think(10, 1_000).await;
            self.cancel_one().await;
        }
    }

    async fn cancel_one(&mut self) {
        let which = self.client.rng.random_range(0..self.bookings.len());
        let booking = self.bookings.swap_remove(which);
        let (id, seats) = (booking.booking.clone(), booking.seats.clone());
        let cancel = What::Cancel { booking: id.clone(), seats: seats.clone() };
        self.client.carry_out(cancel).await;
        if self.client.rng.random_bool(0.3) {
            self.client.carry_out(What::GetBooking { booking: id, seats }).await;
        }
    }

    async fn look_at_a_booking(&mut self) {
        if let Some(BookingSaid { booking, seats, .. }) = self.bookings.first().cloned() {
            self.client.carry_out(What::GetBooking { booking, seats }).await;
        }
    }
}

enum Next {
    GoOn,
    Leave,
}
