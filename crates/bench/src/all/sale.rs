//! A flash sale: far more buyers than seats, all of whom want the good ones.
//!
//! Buyers look at the map, think, hold, pay and confirm, or walk away. Their clock runs faster than ours. Chance is
//! the same for every peer: the same buyers arrive at the same moments with the same wishes.

mod books;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rowlock_core::{EventId, SeatId};
use tokio::task::JoinSet;

use self::books::{Books, Ended};
use super::Suite;
use super::field::{Peer, Times as HoldTimes};
use super::report::Sale;
use crate::client::{self, Pool, text_in, token_in};
use crate::random::{Random, Zipf};
use crate::servers::Fallible;
use crate::serving::HOLD;

/// Of the sale's clock, in seconds.
const ARRIVALS: f64 = 600.0;
const PATIENCE: f64 = 480.0;
const THINK: f64 = 20.0;
const LOOK_AGAIN: f64 = 15.0;
const AFTER_CONFLICT: f64 = 3.0;
const PAY: (f64, f64) = (30.0, 120.0);
const TTL: f64 = 300.0;
const CHECKOUT: f64 = 120.0;

/// How many want one seat, two seats, up to six.
const CARTS: [f64; 6] = [0.25, 0.40, 0.12, 0.15, 0.04, 0.04];
/// One in seven walks away from a hold; half of them say so.
const ABANDON: f64 = 1.0 / 7.0;
const RELEASE: f64 = 0.5;
const POPULARITY: f64 = 0.8;
const TRIES: u32 = 12;
const DRAWS: usize = 40;
const SEED: u64 = 2026;
/// How far apart the clocks of two processes of one machine can seem, in seconds.
const APART: f64 = 0.05;
/// Of our clock.
const POLL: Duration = Duration::from_millis(50);

/// What a buyer is like, known before the sale.
#[derive(Clone, Debug)]
pub struct Buyer {
    /// Seconds of our clock after the doors open.
    pub arrives: f64,
    pub wants: u32,
    random: Random,
}

pub fn buyers(count: u32, speed: f64) -> Vec<Buyer> {
    let mut random = Random::new(SEED);
    let mut all: Vec<Buyer> = (0..count)
        .map(|i| {
            // Most come early.
            let arrives = ARRIVALS / speed * random.unit().powi(2);
            let wants = 1 + random.choice(&CARTS) as u32;
            Buyer { arrives, wants, random: Random::new(SEED ^ (u64::from(i) << 20)) }
        })
        .collect();
    all.sort_by(|one, other| one.arrives.total_cmp(&other.arrives));
    all
}

struct Held {
    token: String,
    seats: Vec<u32>,
    /// Before the hold was made: when its buyer sent for it.
    asked: f64,
}

struct Shop {
    pool: Pool,
    event: EventId,
    prefix: String,
    popular: Zipf,
    books: Books,
    opens: Instant,
    speed: f64,
    ttl: f64,
    checkout: f64,
}

impl Suite {
    pub async fn sale(&mut self) -> Fallible<Vec<Sale>> {
        let mut sales = Vec::new();
        for peer in self.peers(&[Peer::Embedded, Peer::Node]) {
            self.progress.step(format!("flash sale: {}", peer.title()));
            let (sale, wrong) = self.sale_of(peer).await?;
            self.problems
                .extend(wrong.into_iter().map(|what| format!("flash sale, {}: {what}", peer.title())));
            sales.push(sale);
        }
        Ok(sales)
    }

    async fn sale_of(&self, peer: Peer) -> Fallible<(Sale, Vec<String>)> {
        let size = self.sizes.sale;
        let server = self.field.start(peer).await?;
        let real = |seconds: f64| (seconds / size.speed).round().max(1.0) as u32;
        let (ttl, checkout) = (real(TTL), real(CHECKOUT));
        let times = HoldTimes { ttl, checkout, heartbeat: 1, most: ttl + checkout };
        let event = server.events(1, size.seats, times).await?[0];
        let buyers = buyers(size.buyers, size.speed);
        let tokens: Vec<String> = (0..size.buyers).map(|i| server.token(&format!("buyer-{i}"))).collect();
        let shop = Shop {
            pool: Pool::new(server.address, self.sizes.connections as usize),
            event,
            prefix: SeatId::prefix(event),
            popular: Zipf::new(size.seats as usize, POPULARITY),
            books: Books::new(size.buyers),
            opens: Instant::now(),
            speed: size.speed,
            ttl: ttl.into(),
            checkout: checkout.into(),
        };
        let (done, result) = tokio::sync::oneshot::channel();
        let crowd = buyers.clone();
        std::thread::Builder::new().name("buyers".into()).spawn(move || {
            let _ = done.send(open(shop, crowd, tokens));
        })?;
        let books = result.await.map_err(|_| "the buyers panicked")??;
        // What was left to expire is free again when its time is over, and a second later at most it is seen to be.
        let last = Instant::now() + Duration::from_secs(u64::from(ttl + checkout) + 1);
        let mut occupancy = server.occupancy(event).await?;
        while occupancy.held > 0 && Instant::now() < last {
            tokio::time::sleep(POLL).await;
            occupancy = server.occupancy(event).await?;
        }
        let mut wrong = books.problems(&occupancy, size.seats);
        wrong.extend(server.unlike(event, &occupancy).await?);
        wrong.extend(server.violations().await?);
        Ok((books.report(peer, size, occupancy, &buyers), wrong))
    }
}

fn open(mut shop: Shop, buyers: Vec<Buyer>, tokens: Vec<String>) -> std::io::Result<Books> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        shop.opens = Instant::now();
        let shop = Arc::new(shop);
        let mut tasks = JoinSet::new();
        for (number, (buyer, token)) in buyers.into_iter().zip(tokens).enumerate() {
            let shop = Arc::clone(&shop);
            tasks.spawn(async move {
                if let Err(error) = shop.visit(number, buyer, &token).await {
                    shop.books.broken(&error);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
        Arc::into_inner(shop)
            .map(|shop| shop.books)
            .ok_or_else(|| std::io::Error::other("a buyer is still there"))
    })
}

impl Shop {
    fn seconds(&self) -> f64 {
        self.opens.elapsed().as_secs_f64()
    }

    /// Waits some seconds of the sale's clock.
    async fn wait(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds / self.speed)).await;
    }

    async fn visit(&self, number: usize, mut buyer: Buyer, token: &str) -> std::io::Result<()> {
        tokio::time::sleep_until((self.opens + Duration::from_secs_f64(buyer.arrives)).into()).await;
        let leaves = buyer.arrives + PATIENCE / self.speed;
        let mut tries = 0;
        while tries < TRIES && self.seconds() < leaves {
            let Some(map) = self.look(token).await? else { return Ok(()) };
            if !map.contains(&b'a') {
                if !map.contains(&b'h') {
                    return Ok(());
                }
                // Somebody may walk away from a hold.
                let pause = buyer.random.between(0.5, 1.5) * LOOK_AGAIN;
                self.wait(pause).await;
                continue;
            }
            let seats = choose(&map, buyer.wants as usize, &self.popular, &mut buyer.random);
            let think = buyer.random.exponential(THINK);
            self.wait(think).await;
            tries += 1;
            let asked = self.seconds();
            match self.hold(token, &seats).await? {
                Some(hold) => {
                    let hold = Held { token: hold, seats, asked };
                    return self.pay(number, &mut buyer.random, token, &hold).await;
                }
                None => self.wait(AFTER_CONFLICT).await,
            }
        }
        Ok(())
    }

    /// The letters of all seats. `None` when there was no such answer.
    async fn look(&self, token: &str) -> std::io::Result<Option<Vec<u8>>> {
        let path = format!("/api/events/{}/seats?form=status", self.event);
        let (status, body) = self.pool.send(&client::get(&path, token, &[])).await?;
        self.books.looked(status);
        Ok(text_in(&body, "status").map(|letters| letters.into()).filter(|_| status == 200))
    }

    /// The token of the hold, or `None` when somebody was quicker.
    async fn hold(&self, token: &str, seats: &[u32]) -> std::io::Result<Option<String>> {
        let ids: Vec<String> = seats.iter().map(|seat| format!("\"{}{seat:08x}\"", self.prefix)).collect();
        let body = format!(r#"{{"event_id":"{}","seat_ids":[{}]}}"#, self.event, ids.join(","));
        let wished = Instant::now();
        let (status, body) = self.pool.send(&client::post(HOLD, token, &body)).await?;
        self.books.held(status, wished.elapsed());
        Ok(token_in(&body).filter(|_| status == 201))
    }

    async fn pay(&self, number: usize, random: &mut Random, token: &str, held: &Held) -> std::io::Result<()> {
        let Held { token: hold, seats, asked } = held;
        let (asked, since) = (*asked, self.seconds());
        let walks_away = random.unit() < ABANDON;
        if walks_away && random.unit() >= RELEASE {
            self.books.ended(number, Ended::Expired, seats, self.ttl, self.seconds());
            return Ok(());
        }
        if !walks_away {
            let path = format!("/api/bookings/hold/{hold}/checkout");
            let (status, _) = self.pool.send(&client::post(&path, token, "{}")).await?;
            if self.too_late(number, status, asked, self.ttl, seats) {
                return Ok(());
            }
            self.books.expect(status, 200, "checkout");
        }
        let pay = random.between(PAY.0, PAY.1);
        self.wait(pay).await;
        if walks_away {
            let path = format!("/api/bookings/hold/{hold}");
            let (status, _) = self.pool.send(&client::delete(&path, token)).await?;
            self.books.expect(status, 200, "release");
            self.books.ended(number, Ended::Released, seats, self.seconds() - since, self.seconds());
        } else {
            let path = format!("/api/bookings/{hold}/confirm");
            let (status, _) = self.pool.send(&client::post(&path, token, "{}")).await?;
            if self.too_late(number, status, asked, self.ttl + self.checkout, seats) {
                return Ok(());
            }
            self.books.expect(status, 201, "confirm");
            if status == 201 {
                self.books.ended(number, Ended::Sold, seats, self.seconds() - since, self.seconds());
            }
        }
        Ok(())
    }
}

/// Of an operation on a hold whose time is over.
const GONE: u16 = 410;

impl Shop {
    /// A machine that is busy with other things may let a hold run out under its buyer. That is no error as long as
    /// the buyer's clock says so too: a hold can't end sooner than its length after it was `asked` for.
    fn too_late(&self, buyer: usize, status: u16, asked: f64, lasts: f64, seats: &[u32]) -> bool {
        let now = self.seconds();
        let late = status == GONE && now - asked + APART >= lasts;
        if late {
            self.books.ended(buyer, Ended::TooLate, seats, lasts, now);
        }
        late
    }
}

/// Free seats by their popularity: as many as wanted, or as there are.
fn choose(map: &[u8], wants: usize, popular: &Zipf, random: &mut Random) -> Vec<u32> {
    let mut seats = Vec::new();
    for _ in 0..DRAWS {
        let seat = popular.draw(random);
        if seats.len() < wants && map.get(seat) == Some(&b'a') && !seats.contains(&(seat as u32)) {
            seats.push(seat as u32);
        }
    }
    // The popular ones are gone: take any, from some place on.
    let from = (random.bits() % map.len().max(1) as u64) as usize;
    let rest = (from..map.len()).chain(0..from).filter(|seat| map[*seat] == b'a').map(|seat| seat as u32);
    for seat in rest {
        if seats.len() >= wants {
            break;
        }
        if !seats.contains(&seat) {
            seats.push(seat);
        }
    }
    seats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buyers_are_the_same_every_time_and_come_in_order() {
        let (one, other) = (buyers(500, 60.0), buyers(500, 60.0));
        assert!(one.iter().zip(&other).all(|(a, b)| (a.arrives, a.wants) == (b.arrives, b.wants)));
        assert!(one.is_sorted_by(|a, b| a.arrives <= b.arrives));
        assert!(one.iter().all(|buyer| (1..=6).contains(&buyer.wants) && buyer.arrives < 10.0));
        assert!(one.iter().any(|buyer| buyer.wants == 6) && one.iter().any(|buyer| buyer.wants == 1));
    }

    #[test]
    fn only_free_seats_are_chosen_and_none_twice() {
        let (popular, mut random) = (Zipf::new(10, 1.0), Random::new(1));
        for _ in 0..200 {
            let mut seats = choose(b"hasahhaahh", 3, &popular, &mut random);
            seats.sort_unstable();
            seats.dedup();
            assert_eq!(seats.len(), 3);
            assert!(seats.iter().all(|seat| [1, 3, 6, 7].contains(seat)), "{seats:?}");
        }
        assert_eq!(choose(b"hhahhhhhhh", 3, &popular, &mut random), [2]);
        assert!(choose(b"hhh", 3, &popular, &mut random).is_empty());
    }
}
