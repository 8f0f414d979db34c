//! A client that does not give up: it asks again, with the same key, somewhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::answer::Answer;
use super::history::{Attempt, Effect, Intent, Recorder, Said, What, millis};

/// How long one intention is followed before it is given up.
const PERSISTENCE: Duration = Duration::from_secs(40);
/// How often a client that has its answer asks once more.
const AGAIN: f64 = 0.08;
/// How often a client asks two nodes at once.
const TWICE: f64 = 0.04;

/// Who the client is.
#[derive(Clone)]
pub enum Credential {
    Token(String),
    /// The org's key, acting for this user.
    Key {
        key: String,
        user: String,
    },
}

/// What all clients share.
pub struct Venue {
    pub urls: Vec<String>,
    pub event: String,
    pub area: String,
    pub circle: String,
    pub seat_prefix: String,
    pub recorder: Recorder,
    pub requests: AtomicU64,
    /// How long a client waits for an answer at most.
    pub patience: Duration,
}

pub struct Client {
    pub venue: Arc<Venue>,
    pub user: u32,
    pub http: reqwest::Client,
    pub credential: Credential,
    pub rng: StdRng,
}

/// What an intention has come to, as far as its client knows.
pub enum Outcome {
    Done(Answer),
    Refused,
    Unknown,
}

impl Client {
    /// Asks until there is an answer.
    pub async fn carry_out(&mut self, what: What) -> Outcome {
        // A release has no key: repeating it is harmless by nature. So is holding again for the same cart.
        let keyed = match &what {
            What::Release { .. } | What::GetHold { .. } | What::GetBooking { .. } | What::Map => false,
            What::Hold { .. } | What::HoldAny { .. } => self.rng.random_bool(0.8),
            _ => true,
        };
        let intent = self.venue.recorder.intend(self.user, what, keyed);
        let began = Instant::now();
        let mut node = self.rng.random_range(0..self.venue.urls.len());
        let mut pause = 20;
        loop {
            let effect = if keyed && self.rng.random_bool(TWICE) {
                self.ask_two(&intent, node).await
            } else {
                let patience = self.patience();
                self.ask(&intent, node, patience).await
            };
            match effect {
                (Effect::Done, Some(answer)) => {
                    if keyed && self.rng.random_bool(AGAIN) {
                        let (other, patience) = (self.other(node), self.venue.patience);
                        self.ask(&intent, other, patience).await;
                    }
                    return Outcome::Done(answer);
                }
                (Effect::Refused, _) => return Outcome::Refused,
                _ if began.elapsed() >= PERSISTENCE => return Outcome::Unknown,
                // Who only looks can look later.
                _ if !intent.what.writes() => return Outcome::Unknown,
                _ => {
                    tokio::time::sleep(Duration::from_millis(self.rng.random_range(pause / 2..=pause))).await;
                    pause = (pause * 2).min(1_000);
                    node = self.other(node);
                }
            }
        }
    }

    /// Most wait for as long as it takes; some lose patience while the server is still at it.
    fn patience(&mut self) -> Duration {
        match self.rng.random_range(0..10) {
            0 => Duration::from_millis(self.rng.random_range(5..300)),
            1 => Duration::from_secs(2),
            _ => self.venue.patience,
        }
    }

    fn other(&mut self, node: usize) -> usize {
        let nodes = self.venue.urls.len();
        if nodes == 1 { node } else { (node + self.rng.random_range(1..nodes)) % nodes }
    }

    async fn ask_two(&mut self, intent: &Intent, node: usize) -> (Effect, Option<Answer>) {
        let (other, patience) = (self.other(node), self.venue.patience);
        let (one, two) = tokio::join!(self.ask(intent, node, patience), self.ask(intent, other, patience));
        match (one.0, two.0) {
            (Effect::Done, _) => one,
            (_, Effect::Done) => two,
            // While one of them may still happen, a refusal of the other is not the last word.
            (Effect::Unknown, _) => one,
            _ => two,
        }
    }

    async fn ask(&self, intent: &Intent, node: usize, patience: Duration) -> (Effect, Option<Answer>) {
        let number = self.venue.requests.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("torture-{number}");
        let request = self.request(intent, node).header("X-Request-Id", &request_id).timeout(patience);
        let (invoked, began) = (self.venue.recorder.clock.now(), Instant::now());
        let said = self.send(request, intent.key.is_some()).await;
        let attempt = Attempt {
            intent: intent.id,
            request_id,
            node,
            invoked,
            completed: self.venue.recorder.clock.now(),
            took_millis: millis(began.elapsed()),
            patience_millis: millis(patience),
            said,
        };
        let answered = (attempt.effect(), attempt.answer().cloned());
        self.venue.recorder.record(attempt);
        answered
    }

    async fn send(&self, request: reqwest::RequestBuilder, keep_text: bool) -> Said {
        let answered = async {
            let answer = request.send().await?;
            let status = answer.status().as_u16();
            Ok((status, answer.text().await?))
        };
        match answered.await {
            Ok((status, text)) => {
                let body: Value = serde_json::from_str(&text).unwrap_or_default();
                let answer = Answer::read(status, &body);
                Said::Answered { status, answer, text: (keep_text && status < 300).then_some(text) }
            }
            Err(error) => lost(&error),
        }
    }

    fn request(&self, intent: &Intent, node: usize) -> reqwest::RequestBuilder {
        let venue = &self.venue;
        let url = |path: String| format!("{}{path}", venue.urls[node]);
        let post = |path: String, body: Value| self.http.post(url(path)).json(&body);
        let seat = |ordinal: &u32| format!("{}{ordinal:08x}", venue.seat_prefix);
        let mut request = match &intent.what {
            What::Hold { cart, seats, areas } => {
                let seats: Vec<String> = seats.iter().map(seat).collect();
                let mut body = json!({"event_id": venue.event, "seat_ids": seats, "cart_token": cart});
                if *areas > 0 {
                    body["areas"] = json!([{"area_id": venue.area, "quantity": areas}]);
                }
                post("/api/bookings/hold-seats".into(), body)
            }
            What::HoldAny { cart, quantity } => {
                let body = json!({"event_id": venue.event, "block_id": venue.circle, "quantity": quantity,
                                  "cart_token": cart});
                post("/api/bookings/hold-any".into(), body)
            }
            What::Checkout { hold, .. } => post(format!("/api/bookings/hold/{hold}/checkout"), json!({})),
            What::Heartbeat { hold, .. } => post(format!("/api/bookings/hold/{hold}/heartbeat"), json!({})),
            What::Release { hold, only, .. } => {
                let named: Vec<String> = only.iter().map(|s| format!("seat_id={}", seat(s))).collect();
                let query = if named.is_empty() { String::new() } else { format!("?{}", named.join("&")) };
                self.http.delete(url(format!("/api/bookings/hold/{hold}{query}")))
            }
            What::Confirm { hold, .. } => post(format!("/api/bookings/{hold}/confirm"), json!({})),
            What::Cancel { booking, .. } => post(format!("/api/bookings/{booking}/cancel"), json!({})),
            What::GetHold { hold, .. } => self.http.get(url(format!("/api/bookings/hold/{hold}"))),
            What::GetBooking { booking, .. } => self.http.get(url(format!("/api/bookings/{booking}"))),
            What::Map => self.http.get(url(format!("/api/events/{}/seats?form=status", venue.event))),
        };
        if let Some(key) = &intent.key {
            request = request.header("Idempotency-Key", key);
        }
        match &self.credential {
            Credential::Token(token) => request.bearer_auth(token),
            Credential::Key { key, user } => request.bearer_auth(key).header("Rowlock-User", user),
        }
    }
}

fn lost(error: &reqwest::Error) -> Said {
    if error.is_connect() {
        Said::NotSent
    } else if error.is_timeout() {
        Said::Lost("no answer".into())
    } else {
        Said::Lost("connection broken".into())
    }
}
