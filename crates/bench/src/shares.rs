//! Who had the processors while a peer was under load: each kind of thread of this process, and the client beside it.
//!
//! When the machine gets slower all of them do, so shares say more than rates, and what a change has done to one thread can
//! be seen in one run where rates need many.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The threads that are told apart, by the beginning of their names, which the kernel cuts off after 15 letters.
const THREADS: [(&str, &str); 3] =
    [("tokio-rt-worker", "http"), ("rowlock-writer", "writer"), ("rowlock-checkpo", "copier")];

/// How long everybody had run at a moment.
pub struct Moment {
    at: Instant,
    threads: [Duration; THREADS.len()],
    client: Duration,
}

/// Microseconds of processor time a request.
pub struct Shares {
    threads: [f64; THREADS.len()],
    client: f64,
    /// Nobody's, or the kernel's own.
    left: f64,
}

impl Moment {
    /// The client counts from when it has ended.
    pub fn now() -> Self {
        let mut threads = [Duration::ZERO; THREADS.len()];
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let name = read("comm");
            let Some(thread) = THREADS.iter().position(|(begin, _)| name.starts_with(begin)) else {
                continue;
            };
            // Nanoseconds that it ran, that it stood in line, and how often it ran.
            let ran = read("schedstat").split(' ').next().and_then(|ran| ran.parse().ok()).unwrap_or(0);
            threads[thread] += Duration::from_nanos(ran);
        }
        let client = getrusage(UsageWho::RUSAGE_CHILDREN)
            .map_or(0, |used| used.user_time().num_microseconds() + used.system_time().num_microseconds());
        Self { at: Instant::now(), threads, client: Duration::from_micros(client as u64) }
    }

    pub fn shares_since(&self, before: &Moment, requests: u64) -> Shares {
        let of = |time: Duration| time.as_secs_f64() * 1e6 / requests.max(1) as f64;
        let threads: [Duration; THREADS.len()] =
            std::array::from_fn(|thread| self.threads[thread].saturating_sub(before.threads[thread]));
        let client = self.client.saturating_sub(before.client);
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get()) as u32;
        let used = threads.iter().sum::<Duration>() + client;
        let left = ((self.at - before.at) * processors).saturating_sub(used);
        Shares { threads: threads.map(of), client: of(client), left: of(left) }
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((_, what), time) in THREADS.iter().zip(self.threads).filter(|(_, time)| *time >= 0.05) {
            write!(f, "{what} {time:.1}  ")?;
        }
        write!(f, "wrk {:.1}  left {:.1} µs", self.client, self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_counted_as_its_own() {
        let before = Moment::now();
        let before_at = before.at;
        let enough = Duration::from_millis(20);
        // Until it has run for so long, however many others want the processor.
        let busy = move || loop {
            let now = Moment::now();
            if now.threads[1] >= enough || now.at - before_at > Duration::from_secs(60) {
                return now;
            }
            (0..100_000).for_each(|_| std::hint::spin_loop());
        };
        let writer = std::thread::Builder::new().name("rowlock-writer".into()).spawn(busy).unwrap();
        let shares = writer.join().unwrap().shares_since(&before, 1_000);
        assert!(shares.threads[1] >= 20.0, "20 ms for a thousand requests: {shares}");
        assert_eq!(shares.threads[0], 0.0, "nobody else has run: {shares}");
    }
}
