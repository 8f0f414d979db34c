//! A few figures of a few runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The middle one, and how far apart they are.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: (low + high) / 2.0, least, most })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} (from {:.2} to {:.2})", self.median, self.least, self.most)
    }
}

/// How unequally things are spread: 0 when all have the same, towards 1 when one has everything.
pub fn gini(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (count, sum) = (values.len() as f64, values.iter().sum::<f64>());
    if sum <= 0.0 {
        return 0.0;
    }
    let ranked: f64 = values.iter().enumerate().map(|(i, value)| (i as f64 + 1.0) * value).sum();
    (2.0 * ranked / (count * sum) - (count + 1.0) / count).max(0.0)
}

/// The chance that one of the winners came before one of the losers: 1 is a queue, 0.5 a lottery. `won` is in the order
/// of arrival. `None` when all won or all lost.
pub fn came_first(won: &[bool]) -> Option<f64> {
    let (mut winners, mut pairs) = (0u64, 0u64);
    for won in won {
        if *won {
            winners += 1;
        } else {
            pairs += winners;
        }
    }
    let losers = won.len() as u64 - winners;
    (winners > 0 && losers > 0).then(|| pairs as f64 / (winners * losers) as f64)
}

#[cfg(test)]
mod tests {
    use super::{Spread, came_first, gini};

    #[test]
    fn gini_goes_from_equal_to_one_who_has_it_all() {
        assert_eq!(gini([2.0; 10]), 0.0);
        assert_eq!(gini([]), 0.0);
        let one_of_many = gini((0..1000).map(|i| if i == 7 { 5.0 } else { 0.0 }));
        assert!((0.99..1.0).contains(&one_of_many), "{one_of_many}");
        assert!((gini([1.0, 3.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_queue_and_a_lottery_can_be_told_apart() {
        assert_eq!(came_first(&[true, true, false, false]), Some(1.0));
        assert_eq!(came_first(&[false, false, true]), Some(0.0));
        assert_eq!(came_first(&[true, false, false, true]), Some(0.5));
        assert_eq!(came_first(&[true, true]), None);
        assert_eq!(came_first(&[]), None);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    }
}
