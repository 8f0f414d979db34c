//! Events whose copy in Redis was seen to miss something, until they are reconciled.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use rowlock_core::{EventId, OrgId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Events that are remembered. More are found when somebody loads them.
const MAX_BEHIND: usize = 4_096;
/// How long after a failure the event is looked at. What else fails in that time is looked at with it.
const MEND_AFTER: Duration = Duration::from_secs(1);

type Events = BTreeMap<EventId, OrgId>;

#[derive(Default)]
pub(crate) struct Behind {
    /// For the next time that all are looked at. Those in memory are looked at anyway.
    later: Mutex<Events>,
    /// Redis was not told of something, and nobody will tell it by themselves.
    failed: Mutex<Events>,
    wake: Notify,
}

impl Behind {
    /// Has the next reconciliation look at an event, also when it is not in memory.
    pub fn note(&self, org: OrgId, event: EventId) {
        insert(&self.later, org, event);
    }

    /// Has an event looked at soon.
    pub fn note_failed(&self, org: OrgId, event: EventId) {
        insert(&self.failed, org, event);
        self.wake.notify_one();
    }

    pub fn take_failed(&self) -> Events {
        std::mem::take(&mut *self.failed.lock())
    }

    pub fn take_all(&self) -> Events {
        let mut all = std::mem::take(&mut *self.later.lock());
        all.append(&mut self.failed.lock());
        all
    }
}

fn insert(events: &Mutex<Events>, org: OrgId, event: EventId) {
    let mut events = events.lock();
    if events.len() < MAX_BEHIND {
        events.insert(event, org);
    }
}

/// When events are looked at after failures: soon after the first, and each time after twice as long, until all are
/// looked at anyway. So a Redis that fails now and then, all day, does not have whole events read all the time.
pub(crate) struct Mending {
    at: Option<Instant>,
    pause: Duration,
    longest: Duration,
}

impl Mending {
    pub fn new(longest: Duration) -> Self {
        Self { at: None, pause: MEND_AFTER.min(longest), longest }
    }

    /// Waits until something has failed and the pause is over. May be given up and waited for anew.
    pub async fn due(&mut self, behind: &Behind) {
        let at = match self.at {
            Some(at) => at,
            None => {
                behind.wake.notified().await;
                *self.at.insert(Instant::now() + self.pause)
            }
        };
        sleep_until(at).await;
    }

    /// Some were looked at.
    pub fn slow_down(&mut self) {
        self.at = None;
        self.pause = (2 * self.pause).min(self.longest);
    }

    /// All were looked at.
    pub fn begin_anew(&mut self) {
        self.at = None;
        self.pause = MEND_AFTER.min(self.longest);
    }

    /// Nothing was looked at.
    pub fn wait_again(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const EVERY: Duration = Duration::from_secs(300);

    fn ids(n: u128) -> (OrgId, EventId) {
        let uuid = uuid::Uuid::from_u128(n);
        (OrgId::from_uuid(uuid), EventId::from_uuid(uuid))
    }

    #[test]
    fn failures_without_end_are_mended_ever_more_seldom() {
        let mut mending = Mending::new(EVERY);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            pauses.push(mending.pause.as_secs());
            mending.slow_down();
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        mending.wait_again();
        assert_eq!(mending.pause, EVERY, "nothing was looked at");
        mending.begin_anew();
        assert_eq!(mending.pause, MEND_AFTER);
        assert_eq!(Mending::new(Duration::from_millis(5)).pause, Duration::from_millis(5));
    }

    #[tokio::test]
    async fn who_gives_up_waiting_does_not_begin_the_pause_anew() {
        let (behind, mut mending) = (Behind::default(), Mending::new(EVERY));
        let (org, event) = ids(1);
        assert!(mending.due(&behind).now_or_never().is_none());
        assert_eq!(mending.at, None, "nothing has failed");
        behind.note_failed(org, event);
        assert!(mending.due(&behind).now_or_never().is_none());
        let at = mending.at.expect("something has failed");
        behind.note_failed(org, event);
        assert!(mending.due(&behind).now_or_never().is_none());
        assert_eq!(mending.at, Some(at));
    }

    #[test]
    fn no_more_events_are_remembered_than_so_many() {
        let behind = Behind::default();
        for n in 0..2 * MAX_BEHIND as u128 {
            let (org, event) = ids(n);
            behind.note(org, event);
            behind.note_failed(org, event);
        }
        assert_eq!(behind.later.lock().len(), MAX_BEHIND);
        assert_eq!(behind.take_failed().len(), MAX_BEHIND);
        assert_eq!(behind.take_all().len(), MAX_BEHIND);
        assert!(behind.take_all().is_empty());
    }
}
