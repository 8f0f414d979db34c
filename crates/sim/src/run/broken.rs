//! Safeguards that can be switched off, to show that the simulator notices.

use clap::ValueEnum;

/// What is broken, and in which layer of the simulation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Broken {
    /// Store: rows are neither locked nor compared with the version they were read with.
    NoLocksNoCompare,
    /// Store: what was believed of a batch is written without being compared.
    BeliefNotCompared,
    /// Store: how many places a user is believed to have is not compared.
    BelievedUsers,
    /// Store: the places that a user has are not counted.
    UsersNotCounted,
    /// Store client: the answer goes out before the commit.
    ReplyBeforeCommit,
    /// Store client: a commit whose answer was lost counts as done, and nobody asks.
    AmbiguousIsSuccess,
    /// Store client: a commit whose answer was lost is done again, and nobody asks.
    AmbiguousIsRepeated,
    /// Store client: whoever has the claim in Redis gets the seat, whatever the row says.
    ClaimTrusted,
    /// Store client: anybody may release a hold.
    ReleaseWithoutOwner,
    /// Store client: the reaper ends holds that are confirmed already.
    ReaperWithoutStatus,
    /// Store client: whether a hold is over is decided by the node's clock.
    ExpiryByNodeClock,
    /// Store client: idempotency records are not written.
    NoRecord,
    /// Store: sequences are taken before the commit, and lost with it.
    SequenceEarly,
    /// Store: a restart in the middle of a commit leaves half of it.
    TornCommit,
    /// Store client: the org of a request is not looked at.
    NoTenants,
    /// Store client: the reaper's commands do nothing.
    ReaperOff,
    /// Store client: what was missed of other nodes is never looked up.
    FollowOff,
    /// Hot tier: facts are taken in whatever is missing before them.
    GapsIgnored,
    /// Engine: the tiers are never compared and repaired.
    ReconcileOff,
}

impl Broken {
    pub fn all() -> &'static [Broken] {
        Self::value_variants()
    }

    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
