//! What happened in a run: a digest of all of it, its last lines, and counts.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;

use super::clock::Clock;

/// Lines kept for the report of a failure.
const KEPT: usize = 120;

/// Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct History {
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    digest: u64,
    lines: VecDeque<String>,
    line: String,
    counts: Counts,
    trace: bool,
    violations: Vec<String>,
}

/// How often what happened, by name.
pub type Counts = BTreeMap<String, u64>;

impl History {
    pub fn new(clock: Clock, trace: bool) -> Self {
        let inner = Inner {
            digest: 0xcbf2_9ce4_8422_2325,
            lines: VecDeque::new(),
            line: String::new(),
            counts: Counts::new(),
            trace,
            violations: Vec::new(),
        };
        Self { clock, inner: Arc::new(Mutex::new(inner)) }
    }

    pub fn note(&self, what: fmt::Arguments<'_>) {
        let mut inner = self.inner.lock();
        let mut line = std::mem::take(&mut inner.line);
        line.clear();
        let millis = self.clock.millis();
        let _ = write!(line, "{:>5}.{:03} {what}", millis / 1000, millis % 1000);
        for byte in line.bytes() {
            inner.digest = (inner.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if inner.trace {
            println!("{line}");
        }
        if inner.lines.len() == KEPT {
            inner.line = inner.lines.pop_front().unwrap_or_default();
        }
        inner.lines.push_back(line);
    }

    pub fn count(&self, what: &str) {
        let mut inner = self.inner.lock();
        match inner.counts.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(inner.counts.insert(what.to_owned(), 1)),
        }
    }

    /// Notes that a promise was broken. The first one is the one to look at.
    pub fn violation(&self, promise: char, what: fmt::Arguments<'_>) {
        self.note(format_args!("VIOLATION {promise}: {what}"));
        self.inner.lock().violations.push(format!("{promise}: {what}"));
    }

    pub fn has_violation(&self) -> bool {
        !self.inner.lock().violations.is_empty()
    }

    pub fn digest(&self) -> u64 {
        self.inner.lock().digest
    }

    pub fn counts(&self) -> Counts {
        self.inner.lock().counts.clone()
    }

    pub fn violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
    }

    pub fn last_lines(&self) -> Vec<String> {
        self.inner.lock().lines.iter().cloned().collect()
    }
}
