//! What this process may answer by itself: only what the truth would say as well.

use std::cell::LazyCell;

use rowlock_core::command::Places;
use rowlock_core::{Command, Refusal, Request, SeatId, Time, decide};

use super::Engine;
use crate::hot::HotEvent;

impl Engine {
    /// Whoever meets the claim of another is told that seats are taken, so that must be what the kernel would say.
    pub(super) async fn may_be_claimed(&self, request: &Request) -> bool {
        let (Command::Hold(places) | Command::Book { places, .. }) = &request.command else { return false };
        match self.hot().get(places.event).await {
            Ok(Some(live)) => {
                live.org() == request.org && is_about_seats(&live.read(), places, || self.now())
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Refuses what this process knows can't be. A request with an idempotency key may have a recorded answer, which
    /// only the truth knows, so it always goes down. One that is refused is not needed any more, and gives its seats away.
    pub(super) async fn refuse_early(&self, request: &mut Request) -> Option<Refusal> {
        let Command::Hold(places) = &mut request.command else { return None };
        if request.idempotency.is_some() {
            return None;
        }
        let live = self.hot().get(places.event).await.ok()??;
        if live.org() != request.org {
            return None;
        }
        let event = live.read();
        // Read only where it matters: seats that are free or sold are so at any time.
        let now = LazyCell::new(|| self.now());
        let margin = self.inner.options.refusal_margin.as_millis() as i64;
        let taken = |ordinal| event.surely_taken(ordinal, &places.user, || *now, margin);
        let surely_taken = |seat: &SeatId| event.ordinal(*seat).is_some_and(taken);
        if !places.seats.iter().any(surely_taken) || !is_about_seats(&event, places, || *now) {
            return None;
        }
        let mut seats = std::mem::take(&mut places.seats);
        seats.retain(surely_taken);
        Some(Refusal::SeatsTaken { seats })
    }
}

/// Whether the kernel gets as far as asking whose the seats are. It refuses for other reasons before that.
fn is_about_seats(event: &HotEvent, places: &Places, now: impl Fn() -> Time) -> bool {
    let policy = &event.event().policy;
    places.seats.iter().all(|seat| event.ordinal(*seat).is_some())
        && decide::check_shape(places).is_ok()
        && (policy.sells_always() || policy.sells_at(now()))
}
