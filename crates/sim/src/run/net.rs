//! The simulated network between nodes, store and Redis, and who of them is alive.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::faults::Fault;
use super::history::History;

/// What a node can talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Store,
    Redis(usize),
}

/// Why there is no answer. Whoever asked does not know whether the question had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The connection broke.
    Reset,
    /// Nothing came in time.
    Silence,
}

/// How the network is, in thousandths and milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u32,
    pub slow: u32,
    pub slow_millis: u64,
    pub twice: u32,
    /// Answers that are lost on top of that, when the question has had its effect.
    pub answers: u32,
}

/// One life of a node, from its start to its crash.
pub struct Life {
    pub node: usize,
    dead: AtomicBool,
    died: Notify,
    /// Messages until it crashes. Below zero: it does not.
    fuse: AtomicI64,
    /// Until when nothing of it moves, in ms since the start of the run.
    paused_until: AtomicU64,
    /// By how much its clock is wrong, in ms.
    pub skew: AtomicI64,
}

impl Life {
    pub fn new(node: usize) -> Arc<Self> {
        Arc::new(Self {
            node,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            fuse: AtomicI64::new(-1),
            paused_until: AtomicU64::new(0),
            skew: AtomicI64::new(0),
        })
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_waiters();
    }

    /// Lets it crash at the n-th message from now.
    pub fn kill_after(&self, messages: u64) {
        self.fuse.store(messages as i64, Ordering::Relaxed);
    }

    /// It does not crash after all.
    pub fn disarm(&self) {
        self.fuse.store(-1, Ordering::Relaxed);
    }

    pub fn pause_until(&self, millis: u64) {
        self.paused_until.store(millis, Ordering::Relaxed);
    }

    /// Returns when it is dead.
    pub async fn death(&self) {
        loop {
            let died = self.died.notified();
            if self.is_dead() {
                return;
            }
            died.await;
        }
    }

    /// A node touches the world through its messages alone. A dead one sends none and reads none: whatever of its code is
    /// still there waits here for ever, as if it had vanished.
    async fn must_live(&self) {
        if self.is_dead() {
            pending().await
        }
    }

    /// `true`: it crashes here.
    fn step(&self) -> bool {
        let fuse = self.fuse.load(Ordering::Relaxed);
        if fuse < 0 {
            return false;
        }
        self.fuse.store(fuse - 1, Ordering::Relaxed);
        let crashes = fuse == 0 && !self.is_dead();
        if fuse == 0 {
            self.kill();
        }
        crashes
    }
}

pub struct Net {
    dice: Dice,
    history: History,
    clock: super::clock::Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cuts: BTreeSet<(usize, Place)>,
    paused: Vec<(Place, u64)>,
    weather: Weather,
}

impl Net {
    pub fn new(dice: Dice, clock: super::clock::Clock, history: History) -> Arc<Self> {
        Arc::new(Self { dice, history, clock, state: Mutex::default() })
    }

    pub fn cut(&self, node: usize, place: Place) {
        self.state.lock().cuts.insert((node, place));
    }

    pub fn mend(&self, node: usize, place: Place) {
        self.state.lock().cuts.remove(&(node, place));
    }

    pub fn pause(&self, place: Place, until_millis: u64) {
        self.state.lock().paused.push((place, until_millis));
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// Everything works from now on.
    pub fn calm(&self) {
        *self.state.lock() = State::default();
    }

    fn weather(&self) -> Weather {
        self.state.lock().weather
    }

    /// Whether a message is to be carried out twice.
    pub fn twice(&self) -> bool {
        let weather = self.weather();
        weather.twice > 0 && self.dice.permille(weather.twice)
    }

    /// Whether one way can't be gone now.
    fn is_lost(&self, node: usize, place: Place) -> bool {
        let state = self.state.lock();
        state.cuts.contains(&(node, place))
            || (state.weather.lost > 0 && self.dice.permille(state.weather.lost))
    }

    fn paused_until(&self, place: Place) -> u64 {
        let state = self.state.lock();
        state.paused.iter().filter(|(paused, _)| *paused == place).map(|(_, until)| *until).max().unwrap_or(0)
    }

    /// One way between a node and a place, either way.
    pub async fn cross(&self, life: &Life, place: Place) -> Result<(), Lost> {
        if life.step() {
            self.history.count(&Fault::CrashAtStep.name());
        }
        life.must_live().await;
        let weather = self.weather();
        let mut millis = self.dice.between(0..=2);
        if weather.slow > 0 && self.dice.permille(weather.slow) {
            millis += self.dice.between(1..=weather.slow_millis.max(1));
        }
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
        loop {
            let until = self.paused_until(place).max(life.paused_until.load(Ordering::Relaxed));
            let now = self.clock.millis();
            if until <= now {
                break;
            }
            sleep(Duration::from_millis(until - now)).await;
        }
        life.must_live().await;
        if self.is_lost(life.node, place) {
            let lost = if self.dice.permille(500) { Lost::Reset } else { Lost::Silence };
            self.history.note(format_args!("net: node {} and {place:?}: {lost:?}", life.node));
            self.history.count("fault: message lost");
            return Err(lost);
        }
        Ok(())
    }

    /// Asks a place something and waits for its answer. What is done there is done to its end, whether anybody waits or not.
    pub async fn call<T: Send + 'static>(
        &self,
        life: &Life,
        place: Place,
        limit: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Lost> {
        let call = async {
            self.cross(life, place).await?;
            let answer = tokio::spawn(work).await.map_err(|_| Lost::Reset)?;
            self.cross(life, place).await?;
            let answers = self.weather().answers;
            if answers > 0 && self.dice.permille(answers) {
                self.history.note(format_args!("net: node {} and {place:?}: answer lost", life.node));
                self.history.count("fault: answer lost");
                return Err(Lost::Reset);
            }
            Ok(answer)
        };
        let answer = match timeout(limit, call).await {
            Ok(Err(Lost::Silence)) => {
                // Nobody tells: whoever waits finds out when their time is over.
                sleep(limit / 2).await;
                Err(Lost::Silence)
            }
            Ok(answer) => answer,
            Err(_) => Err(Lost::Silence),
        };
        life.must_live().await;
        answer
    }
}
