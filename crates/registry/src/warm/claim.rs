//! Claims: who is about to have a seat, or has it.

use redis::{Cmd, FromRedisValue, Value, cmd};
use rowlock_core::{CartToken, EventId, HoldId, OrgId, SeatId, Time, UserId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use uuid::Uuid;

use super::keys::Keys;
use super::scripts::{CLAIM, HEAL, RELEASE};
use super::server::Server;
use super::{Unavailable, Warm};
use crate::breaker::Kind;

/// What is to be claimed, for whom.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub org: OrgId,
    pub event: EventId,
    pub user: &'a UserId,
    pub cart: &'a CartToken,
    pub seats: &'a [SeatId],
}

#[derive(Clone, Debug)]
pub enum Claimed {
    /// All of the seats, or those of them that the user did not have already.
    Claimed(Receipt),
    /// None of the seats, because others have these.
    Taken(Vec<(SeatId, Owner)>),
    /// Redis can't be asked, or did not answer. The truth decides without it.
    Unavailable {
        /// What it may have been told nevertheless.
        left: Option<Receipt>,
    },
}

/// What it takes to give a pending claim back.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub org: OrgId,
    pub event: EventId,
    pub(super) token: Uuid,
    /// Those that this claim has taken: not those that the user had before.
    pub seats: Vec<SeatId>,
    /// When the claim ends by itself, if no commit confirms it.
    pub valid_until: Instant,
}

/// Who has a seat, as Redis knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Known once the claim is confirmed.
    pub hold: Option<HoldId>,
    pub user: Option<UserId>,
    pub cart: Option<CartToken>,
    pub held_at: Option<Time>,
    pub expires_at: Option<Time>,
    pub pending: bool,
    /// The value as it was seen, so that exactly this one can be removed.
    pub(super) seen: Vec<u8>,
}

/// The value of a seat's key. Scripts rely on `token` or `hold` being the first of its fields and `sequence` the last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<HoldId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cart: Option<CartToken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pending: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

impl Owner {
    pub(super) fn read(seen: Vec<u8>) -> Self {
        // What can't be read belongs to nobody that is known. The truth decides about it, and it can be healed.
        let stored: Stored = serde_json::from_slice(&seen).unwrap_or_default();
        Self {
            hold: stored.hold,
            user: stored.user,
            cart: stored.cart,
            held_at: stored.held_at,
            expires_at: stored.expires_at,
            pending: stored.pending,
            seen,
        }
    }
}

/// The value of a claim that the truth has confirmed.
pub(super) fn confirmed(hold: HoldId, user: &UserId, expires_at: Time, sequence: u64) -> String {
    let stored = Stored {
        hold: Some(hold),
        user: Some(user.clone()),
        expires_at: Some(expires_at),
        sequence: Some(sequence),
        ..Stored::default()
    };
    text(&stored)
}

/// The same up to where the times begin, for a script to write the rest.
pub(super) fn head(hold: HoldId, user: &UserId, cart: Option<&CartToken>, held_at: Option<Time>) -> String {
    open(Stored {
        hold: Some(hold),
        user: Some(user.clone()),
        cart: cart.cloned(),
        held_at,
        ..Stored::default()
    })
}

fn open(stored: Stored) -> String {
    let mut text = text(&stored);
    text.pop();
    text
}

fn text(stored: &Stored) -> String {
    serde_json::to_string(stored).expect("a claim can be written as JSON")
}

fn token_head(token: Uuid) -> String {
    format!("{{\"token\":\"{token}\"")
}

/// What one server says to a claim.
pub(super) enum Vote {
    /// The places in the list of those it gave.
    Granted(Vec<usize>),
    Taken(Vec<(SeatId, Owner)>),
}

impl Warm {
    /// Claims all the seats or none, for a few seconds: until the commit confirms the claim, or it ends.
    pub async fn claim(&self, claim: &Claim<'_>) -> Claimed {
        if claim.seats.is_empty() {
            return Claimed::Claimed(self.receipt(claim, self.chance().uuid(), Vec::new(), Instant::now()));
        }
        let [server] = &self.inner.servers[..] else { return self.claim_by_majority(claim).await };
        let (began, token) = (Instant::now(), self.chance().uuid());
        let answer = vote(server, &self.claim_command(claim, token), claim).await;
        match answer {
            Ok(vote) => self.claimed(claim, token, began, vote),
            Err(Unavailable) => self.unanswered(claim, token, began),
        }
    }

    /// The same for many claims, each by itself, with one message to the one server. Of seats that are taken it may not
    /// say who has them.
    pub async fn claim_together(&self, claims: &[Claim<'_>]) -> Vec<Claimed> {
        let server = &self.inner.servers[0];
        let began = Instant::now();
        let (tokens, commands): (Vec<Uuid>, Vec<Cmd>) = claims
            .iter()
            .map(|claim| {
                let token = self.chance().uuid();
                (token, self.claim_one(claim, token).unwrap_or_else(|| self.claim_command(claim, token)))
            })
            .unzip();
        let mut answers = server.run(Kind::Request, &commands).await.unwrap_or_default();
        // As good as one that can't be read.
        answers.resize(claims.len(), Value::Int(0));
        let read = |((claim, token), answer): ((&Claim<'_>, Uuid), Value)| match answer {
            Value::Okay => self.claimed(claim, token, began, Vote::Granted(vec![0])),
            Value::Nil => Claimed::Taken(Vec::new()),
            answer => match read_vote(answer, claim.seats) {
                Some(vote) => self.claimed(claim, token, began, vote),
                None => self.unanswered(claim, token, began),
            },
        };
        claims.iter().zip(tokens).zip(answers).map(read).collect()
    }

    /// Whether claims are one server's business, and not that of a majority.
    pub fn is_one_server(&self) -> bool {
        self.inner.servers.len() == 1
    }

    fn claimed(&self, claim: &Claim<'_>, token: Uuid, began: Instant, vote: Vote) -> Claimed {
        match vote {
            Vote::Granted(given) => {
                let seats = given.into_iter().map(|i| claim.seats[i]).collect();
                Claimed::Claimed(self.receipt(claim, token, seats, began + self.inner.options.pending))
            }
            Vote::Taken(taken) => Claimed::Taken(taken),
        }
    }

    /// A message may have arrived though its answer has not.
    fn unanswered(&self, claim: &Claim<'_>, token: Uuid, began: Instant) -> Claimed {
        let everything = (0..claim.seats.len()).collect();
        match self.claimed(claim, token, began, Vote::Granted(everything)) {
            Claimed::Claimed(receipt) => Claimed::Unavailable { left: Some(receipt) },
            other => other,
        }
    }

    /// The common case, one free seat, without a script, which costs Redis three times as much. `None`: it takes one.
    fn claim_one(&self, claim: &Claim<'_>, token: Uuid) -> Option<Cmd> {
        let [seat] = claim.seats else { return None };
        let mut value = self.claim_head(claim, token);
        value.push_str(",\"pending\":true}");
        let mut set = cmd("SET");
        set.arg(Keys::seat(&self.keys().base(claim.org, claim.event), *seat)).arg(value);
        set.arg("NX").arg("PX").arg(self.inner.options.pending.as_millis() as u64);
        Some(set)
    }

    fn claim_head(&self, claim: &Claim<'_>, token: Uuid) -> String {
        open(Stored {
            token: Some(token),
            user: Some(claim.user.clone()),
            cart: Some(claim.cart.clone()),
            ..Stored::default()
        })
    }

    pub(super) fn claim_command(&self, claim: &Claim<'_>, token: Uuid) -> Cmd {
        let base = self.keys().base(claim.org, claim.event);
        let mut call = CLAIM.call(claim.seats.len());
        for seat in claim.seats {
            call.arg(Keys::seat(&base, *seat));
        }
        call.arg(self.claim_head(claim, token))
            .arg(claim.user.as_str())
            .arg(self.inner.options.pending.as_millis() as u64);
        call
    }

    pub(super) fn receipt(
        &self,
        claim: &Claim<'_>,
        token: Uuid,
        seats: Vec<SeatId>,
        valid_until: Instant,
    ) -> Receipt {
        Receipt { org: claim.org, event: claim.event, token, seats, valid_until }
    }

    /// Gives a pending claim back. What is somebody else's by now, or confirmed, stays.
    pub async fn release(&self, receipt: &Receipt) -> Result<(), Unavailable> {
        self.release_all(std::slice::from_ref(receipt)).await
    }

    pub async fn release_all(&self, receipts: &[Receipt]) -> Result<(), Unavailable> {
        let commands = receipts.iter().filter(|receipt| !receipt.seats.is_empty());
        let commands = commands.map(|receipt| self.release_command(receipt)).collect();
        self.everywhere(Kind::Request, commands).await.map(drop)
    }

    pub(super) fn release_command(&self, receipt: &Receipt) -> Cmd {
        let base = self.keys().base(receipt.org, receipt.event);
        let mut call = RELEASE.call(receipt.seats.len());
        for seat in &receipt.seats {
            call.arg(Keys::seat(&base, *seat));
        }
        call.arg(token_head(receipt.token));
        call
    }

    /// Removes claims of which the truth knows nothing, each only as it was seen.
    pub async fn heal(
        &self,
        org: OrgId,
        event: EventId,
        stale: &[(SeatId, Owner)],
    ) -> Result<(), Unavailable> {
        if stale.is_empty() {
            return Ok(());
        }
        let base = self.keys().base(org, event);
        let mut call = HEAL.call(stale.len());
        for (seat, _) in stale {
            call.arg(Keys::seat(&base, *seat));
        }
        for (_, owner) in stale {
            call.arg(&owner.seen[..]);
        }
        self.everywhere(Kind::Request, vec![call]).await.map(drop)
    }
}

/// Asks one server.
pub(super) async fn vote(server: &Server, command: &Cmd, claim: &Claim<'_>) -> Result<Vote, Unavailable> {
    let answers = server.run(Kind::Request, std::slice::from_ref(command)).await?;
    let answer = answers.into_iter().next().ok_or(Unavailable)?;
    read_vote(answer, claim.seats).ok_or(Unavailable)
}

fn read_vote(answer: Value, seats: &[SeatId]) -> Option<Vote> {
    let (granted, rest): (bool, Value) = FromRedisValue::from_redis_value(answer).ok()?;
    let within = |i: usize| i.checked_sub(1).filter(|i| *i < seats.len());
    if granted {
        let given: Vec<usize> = FromRedisValue::from_redis_value(rest).ok()?;
        return Some(Vote::Granted(given.into_iter().map(within).collect::<Option<_>>()?));
    }
    let taken: Vec<(usize, Vec<u8>)> = FromRedisValue::from_redis_value(rest).ok()?;
    let owner = |(i, seen)| Some((seats[within(i)?], Owner::read(seen)));
    Some(Vote::Taken(taken.into_iter().map(owner).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_begin_and_end_as_the_scripts_expect() {
        let user = UserId::new("a\"b").unwrap();
        let hold = HoldId::from_uuid(Uuid::from_u128(7));
        let value = confirmed(hold, &user, Time::from_millis(5), 9);
        assert!(value.starts_with(&format!("{{\"hold\":\"{hold}\"")), "{value}");
        assert!(value.ends_with(",\"expires_at\":5,\"sequence\":9}"), "{value}");
        let value = head(hold, &user, Some(&CartToken::unnamed()), Some(Time::from_millis(3)));
        assert!(value.ends_with(",\"held_at\":3"), "{value}");
        let token = Uuid::from_u128(3);
        let value = open(Stored { token: Some(token), user: Some(user), ..Stored::default() });
        assert!(value.starts_with(&token_head(token)), "{value}");
    }

    #[test]
    fn a_value_that_is_not_ours_has_no_owner_and_can_be_healed() {
        let owner = Owner::read(b"nonsense".to_vec());
        assert_eq!((owner.hold, owner.pending), (None, false));
        assert_eq!(owner.seen, b"nonsense");
    }
}
