//! What Redis has of an event's holds, for comparing it with the truth, and the two ways to repair it.

use redis::{FromRedisValue, Value, cmd};
use rowlock_core::{EventId, OrgId, SeatId, Time};
use std::collections::BTreeMap;

use super::claim::{Owner, confirmed};
use super::keys::Keys;
use super::scripts::{RELEASE, RESTORE};
use super::server::Server;
use super::snapshot::read_member;
use super::{Unavailable, Warm, WarmHeld};
use crate::breaker::Kind;

/// Entries that are read or written with one command.
const PAGE: usize = 2_000;

/// A held seat as Redis knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmHold {
    /// From the projection.
    pub held: WarmHeld,
    /// Who the claim on the seat belongs to. `None`: there is no claim, or not on all servers.
    pub owner: Option<Owner>,
}

impl Warm {
    /// All held seats of the event. With several servers these are the holds that any of them knows, and the claims
    /// that all of them that answer know: repairing what differs makes them equal. Commits that happen meanwhile may
    /// be in it or not.
    pub async fn holds(&self, org: OrgId, event: EventId) -> Result<Vec<WarmHold>, Unavailable> {
        let asked = self.inner.servers.iter().map(|server| self.holds_on(server, org, event));
        let answers = futures::future::join_all(asked).await;
        let mut answers: Vec<Vec<WarmHold>> = answers.into_iter().flatten().collect();
        if answers.len() < self.quorum() {
            return Err(Unavailable);
        }
        if answers.len() == 1 {
            return Ok(answers.remove(0));
        }
        let servers = answers.len();
        let mut known: BTreeMap<(u32, rowlock_core::HoldId), (WarmHold, usize)> = BTreeMap::new();
        for hold in answers.into_iter().flatten() {
            let owned = usize::from(hold.owner.is_some());
            let entry = known.entry((hold.held.ordinal, hold.held.hold)).or_insert((hold, 0));
            entry.1 += owned;
        }
        let merged = known.into_values().map(|(mut hold, owned)| {
            hold.owner = hold.owner.filter(|_| owned == servers);
            hold
        });
        Ok(merged.collect())
    }

    async fn holds_on(
        &self,
        server: &Server,
        org: OrgId,
        event: EventId,
    ) -> Result<Vec<WarmHold>, Unavailable> {
        let base = self.keys().base(org, event);
        let mut holds = Vec::new();
        for first in (0..).step_by(PAGE) {
            let mut range = cmd("ZRANGE");
            range.arg(format!("{base}seat_holds")).arg(first).arg(first + PAGE - 1).arg("WITHSCORES");
            let members: Vec<(String, f64)> = only(server.run(Kind::Bulk, &[range]).await?)?;
            let count = members.len();
            let held = members.iter().filter_map(|(text, score)| read_member(event, text, *score));
            let held: Vec<WarmHeld> = held.collect();
            let seats: Vec<SeatId> = held.iter().map(|held| SeatId::of(event, held.ordinal)).collect();
            let owners = owners_on(server, &base, &seats).await?;
            holds.extend(held.into_iter().zip(owners).map(|(held, owner)| WarmHold { held, owner }));
            if count < PAGE {
                break;
            }
        }
        Ok(holds)
    }

    /// Who has the claims on these seats, on the first server that answers.
    pub async fn owners(
        &self,
        org: OrgId,
        event: EventId,
        seats: &[SeatId],
    ) -> Result<Vec<Option<Owner>>, Unavailable> {
        let base = self.keys().base(org, event);
        for server in &self.inner.servers {
            if let Ok(owners) = owners_on(server, &base, seats).await {
                return Ok(owners);
            }
        }
        Err(Unavailable)
    }

    /// Writes claims that the truth has as of `sequence`. Later ones stay. `now` is the truth's.
    pub async fn restore(
        &self,
        org: OrgId,
        event: EventId,
        sequence: u64,
        now: Time,
        held: &[WarmHeld],
    ) -> Result<(), Unavailable> {
        let base = self.keys().base(org, event);
        for page in held.chunks(PAGE / 2) {
            let mut call = RESTORE.call(page.len());
            for held in page {
                call.arg(Keys::seat(&base, SeatId::of(event, held.ordinal)));
            }
            call.arg(sequence);
            for held in page {
                call.arg(confirmed(held.hold, &held.user, held.until, sequence));
                call.arg((held.until.millis_since(now) as u64 + self.grace_millis()).max(1));
            }
            self.everywhere(Kind::Bulk, vec![call]).await?;
        }
        Ok(())
    }

    /// Removes claims of holds that the truth does not have, where they still are of these holds.
    pub async fn remove(&self, org: OrgId, event: EventId, gone: &[WarmHeld]) -> Result<(), Unavailable> {
        let base = self.keys().base(org, event);
        for page in gone.chunks(PAGE) {
            let remove = |held: &WarmHeld| {
                let key = Keys::seat(&base, SeatId::of(event, held.ordinal));
                RELEASE.call(1).arg(key).arg(format!("{{\"hold\":\"{}\"", held.hold)).to_owned()
            };
            self.everywhere(Kind::Bulk, page.iter().map(remove).collect()).await?;
        }
        Ok(())
    }
}

async fn owners_on(server: &Server, base: &str, seats: &[SeatId]) -> Result<Vec<Option<Owner>>, Unavailable> {
    let mut owners = Vec::with_capacity(seats.len());
    for page in seats.chunks(PAGE) {
        let mut get = cmd("MGET");
        for seat in page {
            get.arg(Keys::seat(base, *seat));
        }
        let values: Vec<Option<Vec<u8>>> = only(server.run(Kind::Bulk, &[get]).await?)?;
        owners.extend(values.into_iter().map(|value| value.map(Owner::read)));
    }
    Ok(owners)
}

/// The answer to the only command.
fn only<T: FromRedisValue>(answers: Vec<Value>) -> Result<T, Unavailable> {
    let answer = answers.into_iter().next().ok_or(Unavailable)?;
    T::from_redis_value(answer).map_err(|_| Unavailable)
}
