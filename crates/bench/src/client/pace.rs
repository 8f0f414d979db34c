//! When requests are due.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

/// How requests follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the answer before is there: what a server can do, but not what a user waits.
    Closed,
    /// So many a second, whether or not the server keeps up.
    Open { per_second: f64 },
}

/// Fixed moments, of which each thread of the client has every nth.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub start: Instant,
    /// Between two requests of this thread.
    pub interval: Duration,
    /// Until its first.
    pub offset: Duration,
    pub total: u64,
    /// The first whose time counts.
    first_timed: u64,
}

/// At the beginning all connections are new at once: to accept them takes the server longer than many requests, and whoever
/// is in the middle of a sale does not see it. So the requests of this part are sent and counted, but not timed.
const LEAD_IN: Duration = Duration::from_millis(250);
/// At most this part of the whole.
const LEAD_IN_PART: u32 = 6;

/// Requests that become due within this time are let go together: waking up for each of them would cost more than
/// what is measured.
const TICK: Duration = Duration::from_micros(100);

impl Schedule {
    pub fn new(start: Instant, per_second: f64, duration: Duration, thread: u32, threads: u32) -> Self {
        let gap = 1.0 / per_second.max(1e-3);
        let all = (duration.as_secs_f64() / gap).round().max(1.0) as u64;
        let (thread64, threads64) = (u64::from(thread), u64::from(threads));
        let interval = Duration::from_secs_f64(gap * f64::from(threads));
        let lead_in = LEAD_IN.min(duration / LEAD_IN_PART);
        Self {
            start,
            interval,
            first_timed: (lead_in.as_secs_f64() / interval.as_secs_f64()).ceil() as u64,
            offset: Duration::from_secs_f64(gap * f64::from(thread)),
            total: all / threads64 + u64::from(thread64 < all % threads64),
        }
    }

    pub fn is_timed(&self, number: u64) -> bool {
        number >= self.first_timed
    }

    pub fn due(&self, number: u64) -> Instant {
        self.start + self.offset + Duration::from_nanos(self.interval.as_nanos() as u64 * number)
    }

    /// How many are due by now.
    pub fn due_by(&self, now: Instant) -> u64 {
        match now.checked_duration_since(self.start + self.offset) {
            None => 0,
            Some(since) => {
                (since.as_nanos() / self.interval.as_nanos().max(1) + 1).min(self.total.into()) as u64
            }
        }
    }

    /// Adds a permit for each request when it is due.
    pub async fn beat(&self, permits: &Semaphore) -> std::io::Result<()> {
        let timer = Timer::new()?;
        let mut released = 0;
        while released < self.total {
            let now = Instant::now();
            let due = self.due_by(now);
            permits.add_permits((due - released) as usize);
            released = due;
            timer.until(self.due(released).max(now + TICK)).await?;
        }
        Ok(())
    }
}

/// Tokio's own timers are exact to a millisecond, which is longer than many an answer takes.
struct Timer(AsyncFd<Fd>);

struct Fd(TimerFd);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer {
    fn new() -> std::io::Result<Self> {
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // What replaces it is unsafe, for descriptors that somebody else may close. Nobody else has this one.
        #[allow(deprecated)]
        let timer = AsyncFd::new(Fd(timer))?;
        Ok(Self(timer))
    }

    async fn until(&self, then: Instant) -> std::io::Result<()> {
        let Some(rest) = then.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) else {
            return Ok(());
        };
        let expiry = Expiration::OneShot(TimeSpec::from_duration(rest));
        self.0.get_ref().0.set(expiry, TimerSetTimeFlags::empty())?;
        loop {
            let mut ready = self.0.readable().await?;
            match self.0.get_ref().0.wait() {
                Err(nix::errno::Errno::EAGAIN) => ready.clear_ready(),
                done => return Ok(done?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_moments() {
        let start = Instant::now();
        let schedules: Vec<Schedule> =
            (0..3).map(|thread| Schedule::new(start, 1000.0, Duration::from_secs(1), thread, 3)).collect();
        let mut all: Vec<Instant> =
            schedules.iter().flat_map(|one| (0..one.total).map(|number| one.due(number))).collect();
        all.sort();
        assert_eq!(all.len(), 1000);
        for (number, due) in all.iter().enumerate() {
            let wanted = start + Duration::from_millis(number as u64);
            let off = due.max(&wanted).duration_since(*due.min(&wanted));
            assert!(off < Duration::from_micros(2), "request {number} is {off:?} off");
        }
    }

    #[test]
    fn a_late_client_finds_all_that_was_due() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 100.0, Duration::from_secs(1), 0, 1);
        assert_eq!(schedule.due_by(start), 1);
        assert_eq!(schedule.due_by(start + Duration::from_millis(255)), 26);
        assert_eq!(schedule.due_by(start + Duration::from_secs(9)), 100);
        // The clock of a request begins when it was due, however late it is sent.
        assert_eq!(schedule.due(25), start + Duration::from_millis(250));
    }

    #[test]
    fn the_lead_in_is_not_timed() {
        let timed = |seconds, number| {
            let schedule = Schedule::new(Instant::now(), 1000.0, Duration::from_secs(seconds), 0, 1);
            schedule.is_timed(number)
        };
        assert_eq!((timed(9, 249), timed(9, 250)), (false, true));
        assert_eq!((timed(1, 166), timed(1, 167)), (false, true), "a sixth of a short one");
    }

    #[tokio::test]
    async fn the_beat_keeps_time() {
        let schedule = Schedule::new(Instant::now(), 2000.0, Duration::from_millis(50), 0, 1);
        let permits = Semaphore::new(0);
        schedule.beat(&permits).await.unwrap();
        assert_eq!(permits.available_permits(), 100);
        assert!(schedule.start.elapsed() >= Duration::from_millis(49));
    }
}
