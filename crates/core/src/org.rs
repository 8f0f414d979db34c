//! Orgs and the API keys that speak for them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{KeyId, OrgId};
use crate::text::Name;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Org {
    pub id: OrgId,
    pub name: Name,
    pub created_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: KeyId,
    pub org: OrgId,
    pub name: Name,
    pub scopes: Scopes,
    /// SHA-256 of the secret. It stays out of the journal and of every answer.
    #[serde(skip)]
    pub secret_hash: [u8; 32],
    pub created_at: Time,
    pub revoked_at: Option<Time>,
}

/// What a credential may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Scope {
    /// See events, seats and occupancy.
    Read,
    /// Hold, extend, release and confirm for oneself.
    Hold,
    /// Hold and confirm in one step, as a box office does.
    Book,
    /// Cancel bookings.
    Cancel,
    /// Name the user in the `Rowlock-User` header.
    ActAs,
    /// Create and change events, see all holds, bookings and journals of the org.
    Admin,
    /// Create, list and revoke API keys.
    Keys,
    /// Create and list orgs: for whoever runs the installation.
    Operator,
}

impl Scope {
    pub const ALL: [Scope; 8] = [
        Scope::Read,
        Scope::Hold,
        Scope::Book,
        Scope::Cancel,
        Scope::ActAs,
        Scope::Admin,
        Scope::Keys,
        Scope::Operator,
    ];

    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Hold => "hold",
            Scope::Book => "book",
            Scope::Cancel => "cancel",
            Scope::ActAs => "act_as",
            Scope::Admin => "admin",
            Scope::Keys => "keys",
            Scope::Operator => "operator",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of read, hold, book, cancel, act_as, admin, keys, operator")]
pub struct InvalidScope;

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(InvalidScope)
    }
}

/// A set of scopes. Stored and shown as words, held as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Scopes(u8);

impl Scopes {
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Those of its scopes, each as its [`Scope::bit`].
    pub const fn bits(self) -> u8 {
        self.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every scope in `other` is in this set too.
    pub const fn covers(self, other: Scopes) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl TryFrom<Vec<String>> for Scopes {
    type Error = InvalidScope;

    fn try_from(words: Vec<String>) -> Result<Self, InvalidScope> {
        words.iter().map(|word| word.parse::<Scope>()).collect()
    }
}

impl From<Scopes> for Vec<String> {
    fn from(scopes: Scopes) -> Self {
        scopes.iter().map(|scope| scope.as_str().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_survive_their_words() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        let some: Scopes = [Scope::Read, Scope::Operator].into_iter().collect();
        assert_eq!(Scopes::try_from(Vec::<String>::from(some)), Ok(some));
        assert!(Scopes::all().covers(some) && !some.covers(Scopes::all()));
        assert!("Admin".parse::<Scope>().is_err());
    }
}
