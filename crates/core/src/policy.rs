//! How long and how much one may hold, event by event.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_POLICY_SECONDS, MAX_SEATS_PER_USER};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// How long a fresh hold lasts.
    pub ttl_seconds: u32,
    /// What starting checkout adds, once.
    pub checkout_extension_seconds: u32,
    /// What each heartbeat adds.
    pub heartbeat_seconds: u32,
    /// How long after its creation a hold ends, whatever extended it.
    pub max_hold_seconds: u32,
    /// Places that one user may hold and own together in this event. `None`: no limit.
    pub seats_per_user: Option<u32>,
    pub sales_open_at: Option<Time>,
    pub sales_close_at: Option<Time>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ttl_seconds: 15 * 60,
            checkout_extension_seconds: 5 * 60,
            heartbeat_seconds: 2 * 60,
            max_hold_seconds: 30 * 60,
            seats_per_user: None,
            sales_open_at: None,
            sales_close_at: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct InvalidPolicy {
    pub field: &'static str,
    pub rule: &'static str,
}

impl Policy {
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        let invalid = |field, rule| Err(InvalidPolicy { field, rule });
        for (field, seconds, least) in [
            ("policy.ttl_seconds", self.ttl_seconds, 1),
            ("policy.checkout_extension_seconds", self.checkout_extension_seconds, 0),
            ("policy.heartbeat_seconds", self.heartbeat_seconds, 0),
            ("policy.max_hold_seconds", self.max_hold_seconds, 1),
        ] {
            if seconds < least || seconds > MAX_POLICY_SECONDS {
                return invalid(field, "must be between 1 second (0 for what extends) and 86400 seconds");
            }
        }
        if self.max_hold_seconds < self.ttl_seconds {
            return invalid("policy.max_hold_seconds", "must be at least ttl_seconds");
        }
        if self.seats_per_user.is_some_and(|seats| seats == 0 || seats > MAX_SEATS_PER_USER) {
            return invalid("policy.seats_per_user", "must be between 1 and 10000, or absent for no limit");
        }
        if let (Some(open), Some(close)) = (self.sales_open_at, self.sales_close_at)
            && open >= close
        {
            return invalid("policy.sales_close_at", "must be after sales_open_at");
        }
        Ok(())
    }

    /// Whether there is no time at which it does not sell.
    pub fn sells_always(&self) -> bool {
        self.sales_open_at.is_none() && self.sales_close_at.is_none()
    }

    pub fn sells_at(&self, now: Time) -> bool {
        self.sales_open_at.is_none_or(|open| open <= now)
            && self.sales_close_at.is_none_or(|close| now < close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_documented_one_and_valid() {
        let policy = Policy::default();
        assert_eq!(policy.check(), Ok(()));
        assert_eq!((policy.ttl_seconds, policy.checkout_extension_seconds), (900, 300));
        assert_eq!((policy.heartbeat_seconds, policy.max_hold_seconds), (120, 1800));
    }

    #[test]
    fn each_rule_names_its_field() {
        type Broken = (&'static str, fn(&mut Policy));
        let cases: [Broken; 7] = [
            ("policy.ttl_seconds", |p| p.ttl_seconds = 0),
            ("policy.ttl_seconds", |p| p.ttl_seconds = 86_401),
            ("policy.checkout_extension_seconds", |p| p.checkout_extension_seconds = u32::MAX),
            ("policy.heartbeat_seconds", |p| p.heartbeat_seconds = u32::MAX),
            ("policy.max_hold_seconds", |p| p.max_hold_seconds = 10),
            ("policy.seats_per_user", |p| p.seats_per_user = Some(0)),
            ("policy.sales_close_at", |p| {
                p.sales_open_at = Some(Time::from_millis(5));
                p.sales_close_at = Some(Time::from_millis(5));
            }),
        ];
        for (field, break_it) in cases {
            let mut policy = Policy::default();
            break_it(&mut policy);
            assert_eq!(policy.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn the_window_includes_its_opening_and_excludes_its_close() {
        let at = Time::from_millis;
        let policy =
            Policy { sales_open_at: Some(at(10)), sales_close_at: Some(at(20)), ..Policy::default() };
        let open: Vec<bool> = [9, 10, 19, 20].map(|t| policy.sells_at(at(t))).to_vec();
        assert_eq!(open, [false, true, true, false]);
    }
    #[test]
    fn what_opens_or_closes_does_not_sell_always() {
        let at = Some(Time::from_millis(10));
        let window =
            |sales_open_at, sales_close_at| Policy { sales_open_at, sales_close_at, ..Policy::default() };
        let always =
            [window(None, None), window(at, None), window(None, at)].map(|policy| policy.sells_always());
        assert_eq!(always, [true, false, false]);
    }
}
