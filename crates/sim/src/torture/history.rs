//! All that was asked and all that was answered, and when.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;

use super::answer::Answer;
use super::seat::Time;

/// The wall clock, which is that of the store on this machine, kept from going back.
#[derive(Default)]
pub struct Clock(AtomicI64);

impl Clock {
    /// Microseconds since the Unix epoch.
    pub fn now(&self) -> Time {
        let wall = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as Time);
        self.0.fetch_max(wall, Ordering::SeqCst).max(wall)
    }
}

/// What somebody wants. One intention has as many attempts as it takes, all with the same idempotency key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Hold {
        cart: String,
        seats: Vec<u32>,
        areas: u32,
    },
    HoldAny {
        cart: String,
        quantity: u32,
    },
    Checkout {
        hold: String,
        seats: Vec<u32>,
    },
    Heartbeat {
        hold: String,
        seats: Vec<u32>,
    },
    /// `only`: these seats, or all when there are none.
    Release {
        hold: String,
        seats: Vec<u32>,
        only: Vec<u32>,
    },
    Confirm {
        hold: String,
        seats: Vec<u32>,
    },
    Cancel {
        booking: String,
        seats: Vec<u32>,
    },
    GetHold {
        hold: String,
        seats: Vec<u32>,
    },
    GetBooking {
        booking: String,
        seats: Vec<u32>,
    },
    Map,
}

impl What {
    pub const fn name(&self) -> &'static str {
        match self {
            What::Hold { .. } => "hold",
            What::HoldAny { .. } => "hold any",
            What::Checkout { .. } => "checkout",
            What::Heartbeat { .. } => "heartbeat",
            What::Release { .. } => "release",
            What::Confirm { .. } => "confirm",
            What::Cancel { .. } => "cancel",
            What::GetHold { .. } => "get hold",
            What::GetBooking { .. } => "get booking",
            What::Map => "seat map",
        }
    }

    pub const fn writes(&self) -> bool {
        !matches!(self, What::GetHold { .. } | What::GetBooking { .. } | What::Map)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Intent {
    pub id: u32,
    pub user: u32,
    pub what: What,
    pub key: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    Answered {
        status: u16,
        answer: Answer,
        /// The body as it came, where it must come alike every time.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// No connection came about, so nothing can have happened.
    NotSent,
    /// Sent, and no answer came: whether it happened is not known.
    Lost(String),
}

#[derive(Clone, Debug, Serialize)]
pub struct Attempt {
    pub intent: u32,
    /// Sent as `X-Request-Id`, so that the journal shows which attempt had the effect.
    pub request_id: String,
    pub node: usize,
    pub invoked: Time,
    pub completed: Time,
    pub took_millis: u64,
    /// How long the client was willing to wait.
    pub patience_millis: u64,
    pub said: Said,
}

/// What an attempt has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Done,
    Refused,
    Nothing,
    Unknown,
}

impl Attempt {
    pub fn effect(&self) -> Effect {
        match &self.said {
            Said::Answered { status: 200..=299, .. } => Effect::Done,
            Said::Answered { status: 400..=499, .. } => Effect::Refused,
            Said::Answered { .. } | Said::Lost(_) => Effect::Unknown,
            Said::NotSent => Effect::Nothing,
        }
    }

    /// How the report calls what came of it.
    pub fn outcome(&self) -> String {
        match &self.said {
            Said::Answered { status, answer: Answer::Refusal { code, .. }, .. } => format!("{status} {code}"),
            Said::Answered { status, .. } => status.to_string(),
            Said::NotSent => "not sent".to_owned(),
            Said::Lost(why) => format!("lost: {why}"),
        }
    }

    pub fn answer(&self) -> Option<&Answer> {
        match &self.said {
            Said::Answered { answer, .. } => Some(answer),
            Said::NotSent | Said::Lost(_) => None,
        }
    }
}

#[derive(Default)]
pub struct History {
    pub intents: Vec<Intent>,
    pub attempts: Vec<Attempt>,
}

impl History {
    /// The attempts of each intent, in the order in which they were made.
    pub fn by_intent(&self) -> Vec<Vec<&Attempt>> {
        let mut all: Vec<Vec<&Attempt>> = vec![Vec::new(); self.intents.len()];
        for attempt in &self.attempts {
            all[attempt.intent as usize].push(attempt);
        }
        for attempts in &mut all {
            attempts.sort_by_key(|attempt| attempt.invoked);
        }
        all
    }
}

/// Keeps the history in memory for the checks and in a file for people.
pub struct Recorder {
    pub clock: Clock,
    kept: Mutex<History>,
    file: Mutex<BufWriter<File>>,
}

impl Recorder {
    pub fn new(file: &Path) -> std::io::Result<Self> {
        let file = Mutex::new(BufWriter::new(File::create(file)?));
        Ok(Self { clock: Clock::default(), kept: Mutex::default(), file })
    }

    /// Somebody begins to want something.
    pub fn intend(&self, user: u32, what: What, keyed: bool) -> Intent {
        let mut kept = self.kept.lock();
        let id = kept.intents.len() as u32;
        let key = keyed.then(|| format!("key-{id}"));
        let intent = Intent { id, user, what, key };
        kept.intents.push(intent.clone());
        drop(kept);
        self.write(&intent);
        intent
    }

    pub fn record(&self, attempt: Attempt) {
        self.write(&attempt);
        self.kept.lock().attempts.push(attempt);
    }

    fn write<T: Serialize>(&self, line: &T) {
        let mut file = self.file.lock();
        // A full disk is noticed by everything else.
        let _ = serde_json::to_writer(&mut *file, line);
        let _ = file.write_all(b"\n");
    }

    pub fn attempts(&self) -> usize {
        self.kept.lock().attempts.len()
    }

    pub fn finish(self) -> History {
        let _ = self.file.lock().flush();
        self.kept.into_inner()
    }
}

pub fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}
