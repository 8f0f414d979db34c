//! The protocol as it is, and with one safeguard missing.

use std::fmt;

use super::properties as promise;
use super::size::Size;

macro_rules! variants {
    ($($(#[doc = $what:literal])+ $name:ident = $text:literal, $breaks:expr;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $($(#[doc = $what])+ $name,)+
        }

        impl Variant {
            pub const ALL: &[Variant] = &[$(Variant::$name),+];

            /// As the command line knows it.
            pub fn name(self) -> &'static str {
                match self { $(Variant::$name => $text),+ }
            }

            /// What is different about it.
            pub fn what(self) -> &'static str {
                match self { $(Variant::$name => concat!($($what),+)),+ }
            }

            /// The promise that it breaks. `None`: none, because another safeguard stands behind the missing one.
            pub fn breaks(self) -> Option<&'static str> {
                match self { $(Variant::$name => $breaks),+ }
            }
        }
    };
}

variants! {
    /// The protocol as it is.
    Correct = "correct", None;

    /// Rows that were read are neither locked nor compared by version when they are written.
    NoLocksNoVersions = "no-locks-no-versions", Some(promise::ONE_OWNER);
    /// Rows are locked where they are read, and nothing is compared when it is written: no version, and no belief.
    NoVersions = "no-versions", Some(promise::ONE_OWNER);
    /// Whether a key was used already is not compared for what is written on belief.
    UsedKeyBelieved = "used-key-believed", Some(promise::ONE_EFFECT);
    /// What was sent behind another counts as committed although the first was undone, and it with it.
    SecondRidesAlong = "second-rides-along", Some(promise::TOLD_IS_STORED);
    /// What was sent on a connection that is lost counts as committed, and nobody asks.
    LostIsDone = "lost-is-done", Some(promise::TOLD_IS_STORED);
    /// Of two on a connection that is lost, nobody asks for the second when the first is committed.
    AskedForOne = "asked-for-one", Some(promise::TOLD_IS_STORED);
    /// The clock of the node decides whether a hold is over.
    NodeClock = "node-clock", Some(promise::ONE_TOLD);
    /// Whoever knows a hold may release it.
    ReleaseByAnyone = "release-by-anyone", Some(promise::TOLD_IS_STORED);
    /// Whoever knows a hold may extend it.
    ExtendByAnyone = "extend-by-anyone", Some(promise::OWNER_ALONE);
    /// A hold that has ended can be extended.
    ExtendEnded = "extend-ended", Some(promise::ONE_TOLD);
    /// A hold past its time can be confirmed, as long as nobody has tidied it.
    ConfirmLate = "confirm-late", Some(promise::TIME_COUNTS);
    /// The reaper does not look at the status of a hold.
    ReapConfirmed = "reap-confirmed", Some(promise::TOLD_IS_STORED);
    /// The reaper believes what its node remembers of a hold's end.
    ReapByMemory = "reap-by-memory", Some(promise::TOLD_IS_STORED);
    /// Reapers do not look whether somebody else has ended the hold meanwhile, and nothing is locked.
    ReapTwice = "reap-twice", Some(promise::ENDS_ONCE);
    /// The reaper knows what its node has seen since it started, and never asks the truth.
    ForgetfulReaper = "forgetful-reaper", Some(promise::ALL_END);
    /// Whoever takes the seat of a hold past its time does not end that hold.
    HalfTakeover = "half-takeover", Some(promise::TOLD_IS_STORED);
    /// A claim in Redis is taken for the grant.
    ClaimGrants = "claim-grants", Some(promise::ONE_TOLD);
    /// The client is answered before the commit.
    ReplyFirst = "reply-first", Some(promise::TOLD_IS_STORED);
    /// A repeated key is carried out again.
    NoRecord = "no-record", Some(promise::ONE_EFFECT);
    /// The number in the journal is taken when the transaction begins.
    NumberFirst = "number-first", Some(promise::NO_GAP);
    /// A node takes in what is announced without looking for what is missing before it.
    NoGapCheck = "no-gap-check", Some(promise::NOT_MISLED);
    /// A claim is believed although the truth knows nothing of it.
    NoHealing = "no-healing", Some(promise::CAN_BE_HAD);

    /// Rows that were read are locked, and their versions are not compared. What was believed is.
    NoReadVersions = "no-read-versions", None;
    /// Rows are not locked; their versions are compared.
    NoLocks = "no-locks", None;
    /// A node believes what it remembers although it can't ask Redis.
    BeliefWithoutRedis = "belief-without-redis", None;
    /// There is no Redis.
    NoClaims = "no-claims", None;
    /// Redis gives every claim to everybody who asks.
    ClaimsForAll = "claims-for-all", None;
    /// Whoever meets a claim removes it without asking the truth, and so does reconciling.
    BlindHealing = "blind-healing", None;
    /// Nobody reconciles the tiers, and claims that are stale stay until somebody meets them.
    NoReconciling = "no-reconciling", None;
}

impl Variant {
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variant| variant.name() == name)
    }

    pub fn broken() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|variant| variant.breaks().is_some())
    }

    /// Those that miss something and keep all promises.
    pub fn harmless() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|variant| variant.breaks().is_none() && *variant != Variant::Correct)
    }

    pub fn locks(self) -> bool {
        !matches!(self, Variant::NoLocks | Variant::NoLocksNoVersions | Variant::ReapTwice)
    }

    /// Whether rows that were read are compared when they are written.
    pub fn compares_versions(self) -> bool {
        !matches!(self, Variant::NoReadVersions | Variant::NoVersions | Variant::NoLocksNoVersions)
    }

    /// Whether rows that are believed to be free are.
    pub fn compares_beliefs(self) -> bool {
        self != Variant::NoVersions
    }

    /// A world that is large enough to show what the variant breaks, or that it breaks nothing.
    pub fn size(self) -> Size {
        match self {
            Variant::Correct => Size::small(),
            // Another node would still know of the hold.
            Variant::ForgetfulReaper => Size { nodes: 1, behind: 3, ..Size::small() },
            _ if self.breaks().is_some() => Size { behind: 3, ..Size::small() },
            _ => Size { sends: [2, 1, 1], ..Size::small() },
        }
    }

    /// Nodes that may decide differently.
    pub fn clocks(self) -> usize {
        if self == Variant::NodeClock { 2 } else { 1 }
    }

    /// Nodes whose reapers are looked at. They do the same, so one is enough unless they can be wrong about something.
    pub fn reapers(self) -> usize {
        let differ = self == Variant::NodeClock || !self.locks();
        if differ { 2 } else { 1 }
    }

    /// How many ticks the clock of a node is ahead of the truth's. It decides nothing, unless it is let.
    pub fn skew(self, node: usize) -> i8 {
        match (self, node) {
            (Variant::NodeClock, 0) => -1,
            (Variant::NodeClock, _) => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
