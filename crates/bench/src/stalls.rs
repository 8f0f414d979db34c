//! Holds that had to wait for long, and whether the embedded store was copying its log into its file meanwhile.
//!
//! The same load comes in turns with checkpoints and without: a hold that was slow while the log was copied may have been
//! slow because of something else on the machine, and the turns without say how often that happens.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rowlock_core::OrgId;
use rowlock_registry::{Engine, EngineOptions};
use rowlock_truth::sqlite::{SqliteOptions, SqliteTruth};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::client::{Schedule, Seats};
use crate::engine;
use crate::servers::{Fallible, progress};
use crate::setup::{SCATTER, SEATS_PER_EVENT, Stage};

#[derive(clap::Args)]
pub struct Arguments {
    /// Each has a turn with checkpoints and one without.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Of each turn.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Holds a second; a quarter of what it can do alone if not given, about half of what it does over HTTP.
    #[arg(long)]
    per_second: Option<f64>,
    /// Neighbouring seats one after another, instead of seats far apart.
    #[arg(long)]
    neighbours: bool,
    /// Exit with 1 when more holds stalled with a checkpoint under way than without any checkpoints.
    #[arg(long)]
    check: bool,
}

/// A hold that takes longer has stalled.
const STALL: Duration = Duration::from_millis(50);
const BUYERS: u32 = 256;
/// How long the highest rate is looked for.
const FLAT_OUT_SECONDS: u64 = 2;
/// What a hold adds to the log at most, when seats are far apart and when they are neighbours. The log that is never copied is made
/// as long as it gets, as the other one is, so that no commit has to make it longer.
const LOG_BYTES_A_HOLD: (usize, usize) = (12 << 10, 6 << 10);

pub async fn run(arguments: Arguments) -> Fallible<bool> {
    let copies = Copies::listen()?;
    let per_second = match arguments.per_second {
        Some(per_second) => per_second,
        None => highest(arguments.neighbours).await? / 4.0,
    };
    println!("{per_second:.0} holds a second, a turn of {} s each", arguments.seconds);
    let (mut with, mut without) = (Turn::default(), Turn::default());
    for round in 1..=arguments.rounds {
        for (checkpoints, name, sum) in [(true, "with", &mut with), (false, "without", &mut without)] {
            let turn = turn(&arguments, per_second, checkpoints, &copies).await?;
            println!("{round}  {name:<7} checkpoints: {turn}");
            sum.add(turn);
        }
    }
    println!("\nall with    checkpoints: {with}\nall without checkpoints: {without}");
    if with.copies.is_empty() || !without.copies.is_empty() {
        return Err("checkpoints were not seen where they should be, or were where they should not".into());
    }
    let passes = !stalled_by_checkpoints(&with, &without);
    let limit = STALL.as_millis();
    println!("goal: no hold over {limit} ms from checkpoints  {}", if passes { "reached" } else { "MISSED" });
    Ok(passes || !arguments.check)
}

/// What the engine does when it is asked as fast as it answers.
async fn highest(neighbours: bool) -> Fallible<f64> {
    progress("looking for the highest rate".to_owned());
    let dir = tempfile::tempdir_in(".")?;
    let stage = Arc::new(Stage::new(dir.path()).await);
    let event = stage.event().await;
    let asked = engine::Arguments { buyers: BUYERS, seconds: FLAT_OUT_SECONDS, neighbours };
    let done = engine::flat_out(&stage, event, &asked).await;
    stage.engine.stop().await;
    Ok(f64::from(done.held) / done.took.as_secs_f64())
}

async fn turn(arguments: &Arguments, per_second: f64, checkpoints: bool, copies: &Copies) -> Fallible<Turn> {
    let duration = Duration::from_secs(arguments.seconds);
    let total = (per_second * duration.as_secs_f64()).ceil() as u32 + 1;
    let dir = tempfile::tempdir_in(".")?;
    let (org, seats) = prepare(dir.path(), total, arguments.neighbours).await;
    let usual = SqliteOptions::default();
    let (far, near) = LOG_BYTES_A_HOLD;
    let longest = total as usize * if arguments.neighbours { near } else { far };
    let log_bytes = if checkpoints { usual.log_bytes } else { longest.max(usual.log_bytes) };
    let options = SqliteOptions { checkpoints, log_bytes, ..usual };
    let truth = SqliteTruth::open(dir.path(), options)?;
    let stage = Stage { engine: Engine::start(Arc::new(truth), EngineOptions::default()).await?, org };
    for event in seats.events() {
        stage.engine.event(org, *event).await?;
    }
    copies.take();
    let began = Instant::now();
    let mut turn = load(&stage, &seats, per_second, duration).await?;
    turn.elapsed = began.elapsed();
    turn.copies = copies.take();
    let log = dir.path().join("rowlock.sqlite-wal").metadata()?.len();
    if log > log_bytes as u64 {
        progress(format!(
            "the log was made with {log_bytes} bytes and has {log}: commits were slower for that"
        ));
    }
    stage.engine.stop().await;
    Ok(turn)
}

/// A store with seats, closed: what made them is in its file, and its log is new when it is opened.
async fn prepare(dir: &Path, total: u32, neighbours: bool) -> (OrgId, Seats) {
    let stage = Stage::new(dir).await;
    let count = total.div_ceil(SEATS_PER_EVENT);
    let each = total.div_ceil(count);
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(stage.event_of(each).await);
    }
    stage.engine.stop().await;
    (stage.org, Seats::of(events, each, if neighbours { 1 } else { SCATTER }))
}

/// Holds that are due at fixed moments, however long those before them take.
async fn load(stage: &Stage, seats: &Seats, per_second: f64, duration: Duration) -> Fallible<Turn> {
    let schedule = Schedule::new(Instant::now(), per_second, duration, 0, 1);
    let permits = Semaphore::new(0);
    let mut holds = JoinSet::new();
    let send = async {
        for number in 0..schedule.total {
            permits.acquire().await.expect("nobody closes it").forget();
            let Some((event, ordinal)) = seats.get(number) else { break };
            let user = format!("buyer-{}", number % u64::from(BUYERS));
            let request = stage.hold(event, ordinal, &user, &format!("cart-{number}"));
            let (engine, due) = (stage.engine.clone(), schedule.due(number));
            let is_timed = schedule.is_timed(number);
            holds.spawn(async move {
                let done = engine.execute(request).await;
                done.map(|_| is_timed.then(|| Span { from: due, to: Instant::now() }))
            });
        }
    };
    let (beat, ()) = tokio::join!(schedule.beat(&permits), send);
    beat?;
    let answered = holds.join_all().await.into_iter().collect::<Result<Vec<Option<Span>>, _>>()?;
    Ok(Turn { holds: answered.into_iter().flatten().collect(), ..Turn::default() })
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    to: Instant,
}

impl Span {
    fn took(&self) -> Duration {
        self.to.saturating_duration_since(self.from)
    }

    fn meets(&self, other: &Span) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// One turn, or all of a kind.
#[derive(Default)]
struct Turn {
    elapsed: Duration,
    /// From when each was due to its answer.
    holds: Vec<Span>,
    /// When the log was being copied.
    copies: Vec<Span>,
}

impl Turn {
    fn add(&mut self, other: Turn) {
        self.elapsed += other.elapsed;
        self.holds.extend(other.holds);
        self.copies.extend(other.copies);
    }

    fn stalled(&self) -> Vec<Span> {
        self.holds.iter().filter(|hold| hold.took() > STALL).copied().collect()
    }

    /// Those that were waiting while the log was being copied.
    fn stalled_while_copying(&self) -> usize {
        self.stalled().iter().filter(|hold| self.copies.iter().any(|copy| copy.meets(hold))).count()
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took: Vec<Duration> = self.holds.iter().map(Span::took).collect();
        took.sort_unstable();
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        let at = |part: f64| ms(took.get((took.len() as f64 * part) as usize).copied().unwrap_or_default());
        let copying: Duration = self.copies.iter().map(Span::took).sum();
        let stalled = self.stalled();
        write!(
            f,
            "{} holds, p50 {:.2} ms, p99.9 {:.1} ms, slowest {:.1} ms; {} checkpoints, under way {:.0} % of the time, \
             longest {:.1} ms; over {} ms {} holds in {} stalls, {} of them with a checkpoint under way",
            took.len(),
            at(0.5),
            at(0.999),
            ms(took.last().copied().unwrap_or_default()),
            self.copies.len(),
            copying.as_secs_f64() * 100.0 / self.elapsed.as_secs_f64().max(1e-9),
            ms(self.copies.iter().map(Span::took).max().unwrap_or_default()),
            STALL.as_millis(),
            stalled.len(),
            separate(stalled.clone()),
            self.stalled_while_copying(),
        )
    }
}

/// How often everything stood still: holds that waited at the same time waited for the same.
fn separate(mut spans: Vec<Span>) -> usize {
    spans.sort_unstable_by_key(|span| span.from);
    let (mut count, mut last) = (0, None);
    for span in spans {
        if last.is_none_or(|last| span.from > last) {
            count += 1;
        }
        last = last.max(Some(span.to));
    }
    count
}

/// A checkpoint was under way, and that it was is no chance: without any, fewer holds stalled.
fn stalled_by_checkpoints(with: &Turn, without: &Turn) -> bool {
    with.stalled_while_copying() > without.stalled().len()
}

/// When the store copied its log, from what it tells at the level debug.
#[derive(Clone, Default)]
struct Copies(Arc<Mutex<Vec<Span>>>);

impl Copies {
    const TARGET: &str = "rowlock_truth::sqlite::checkpoint";

    fn listen() -> Fallible<Self> {
        let copies = Self::default();
        tracing::subscriber::set_global_default(copies.clone())?;
        Ok(copies)
    }

    fn take(&self) -> Vec<Span> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

impl Subscriber for Copies {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == Self::TARGET
    }

    fn event(&self, event: &Event<'_>) {
        let to = Instant::now();
        let mut micros = Micros(None);
        event.record(&mut micros);
        match micros.0 {
            Some(micros) => {
                let from = to.checked_sub(Duration::from_micros(micros)).unwrap_or(to);
                self.0.lock().expect("nobody panics with it").push(Span { from, to });
            }
            // What went wrong says why a figure is as it is.
            None => eprintln!("{event:?}"),
        }
    }

    // There are no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// How long it took, as the event says it.
struct Micros(Option<u64>);

impl Visit for Micros {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "micros" {
            self.0 = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(start: Instant, millis: &[(u64, u64)]) -> Vec<Span> {
        let at = |millis| start + Duration::from_millis(millis);
        millis.iter().map(|(from, to)| Span { from: at(*from), to: at(*to) }).collect()
    }

    fn turn(holds: &[(u64, u64)], copies: &[(u64, u64)]) -> Turn {
        let start = Instant::now();
        Turn { elapsed: Duration::from_secs(1), holds: spans(start, holds), copies: spans(start, copies) }
    }

    #[test]
    fn holds_that_wait_together_are_one_stall() {
        let start = Instant::now();
        assert_eq!(separate(Vec::new()), 0);
        // The second lasts longer than the third, which the fourth does not meet.
        assert_eq!(separate(spans(start, &[(0, 60), (10, 200), (50, 120), (150, 210), (300, 400)])), 2);
    }

    #[test]
    fn a_checkpoint_is_to_blame_only_beside_turns_without() {
        // One is quick, one stalls while the log is copied, one stalls afterwards.
        let with = turn(&[(0, 49), (100, 160), (500, 600)], &[(155, 170), (300, 310)]);
        assert_eq!((with.stalled().len(), with.stalled_while_copying()), (2, 1));
        assert!(stalled_by_checkpoints(&with, &turn(&[(0, 50)], &[])));
        assert!(!stalled_by_checkpoints(&with, &turn(&[(0, 51)], &[])));
        assert!(!stalled_by_checkpoints(&turn(&[(500, 600)], &[(0, 400)]), &Turn::default()));
    }
}
