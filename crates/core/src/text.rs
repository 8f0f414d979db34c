//! Strings that come from outside: each kind has a length limit and is printable, so that no later layer has to ask.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::limits;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidText {
    #[error("must not be empty or blank")]
    Blank,
    #[error("must have at most {max} characters")]
    TooLong { max: usize },
    #[error("must not contain control characters")]
    NotPrintable,
}

/// Checks a string from outside against the rules that every text in the product keeps.
pub fn check(text: &str, max: usize) -> Result<(), InvalidText> {
    // As most of them are: then bytes are characters, and nothing in them is blank or a control character.
    if (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    // Bytes bound the work on hostile input before characters are counted.
    if text.len() > max * 4 || text.chars().count() > max {
        return Err(InvalidText::TooLong { max });
    }
    if text.chars().all(char::is_whitespace) {
        return Err(InvalidText::Blank);
    }
    if text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')) {
        return Err(InvalidText::NotPrintable);
    }
    Ok(())
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        ///
        /// A short one is kept in place. A shared one has a counter, to which every processor that handles a request of the same user
        /// writes.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(SmolStr);

        impl $name {
            pub fn new(text: &str) -> Result<Self, InvalidText> {
                check(text, $max)?;
                Ok(Self(SmolStr::new(text)))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(
    /// Who holds. Opaque: the product never learns who the person behind it is.
    UserId, limits::MAX_USER_CHARS);
text!(
    /// Which of a user's carts. One cart is one hold.
    CartToken, limits::MAX_CART_CHARS);
text!(
    /// The name of an org, event, block, area, tier or key.
    Name, limits::MAX_NAME_CHARS);
text!(
    /// What the payment provider calls the payment.
    PaymentReference, limits::MAX_PAYMENT_REFERENCE_CHARS);
text!(
    /// The row of a seat, as printed on it.
    Row, limits::MAX_ROW_CHARS);

impl CartToken {
    /// The cart of a user who does not name one.
    pub fn unnamed() -> Self {
        Self(SmolStr::new_static("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_printable_and_refuses_the_rest() {
        assert!(UserId::new("auth0|5f7c").is_ok());
        assert!(UserId::new("Zoë 🎭").is_ok());
        assert_eq!(UserId::new(""), Err(InvalidText::Blank));
        assert_eq!(UserId::new(" \u{a0}"), Err(InvalidText::Blank));
        assert_eq!(UserId::new("a\0b"), Err(InvalidText::NotPrintable));
        assert_eq!(UserId::new("a\nb"), Err(InvalidText::NotPrintable));
        assert_eq!(UserId::new("a\u{2028}b"), Err(InvalidText::NotPrintable));
    }

    #[test]
    fn the_limit_counts_characters_not_bytes() {
        assert!(UserId::new(&"ü".repeat(128)).is_ok());
        assert_eq!(UserId::new(&"ü".repeat(129)), Err(InvalidText::TooLong { max: 128 }));
        assert_eq!(UserId::new(&"x".repeat(1_000_000)), Err(InvalidText::TooLong { max: 128 }));
    }
}
