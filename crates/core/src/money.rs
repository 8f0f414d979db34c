//! Money: whole minor units of one currency. There is no floating point near a price.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Three capital letters, as ISO 4217 writes currencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a currency of three capital letters, such as EUR")]
pub struct InvalidCurrency;

impl Currency {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency is three ASCII letters")
    }
}

impl FromStr for Currency {
    type Err = InvalidCurrency;

    fn from_str(text: &str) -> Result<Self, InvalidCurrency> {
        let letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| InvalidCurrency)?;
        if letters.iter().all(u8::is_ascii_uppercase) { Ok(Self(letters)) } else { Err(InvalidCurrency) }
    }
}

impl TryFrom<String> for Currency {
    type Error = InvalidCurrency;

    fn try_from(text: String) -> Result<Self, InvalidCurrency> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.as_str().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_three_capitals_only() {
        assert_eq!("EUR".parse::<Currency>().unwrap().to_string(), "EUR");
        for bad in ["", "eur", "EU", "EURO", "E\0R", "€"] {
            assert_eq!(bad.parse::<Currency>(), Err(InvalidCurrency));
        }
    }
}
