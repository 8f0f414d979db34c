//! Chance that is the same every time: two peers must meet the same buyers.

/// SplitMix64: small, and good enough for choosing seats.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Times between things that happen by themselves, with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Which of these weights.
    pub fn choice(&mut self, weights: &[f64]) -> usize {
        let mut rest = self.unit() * weights.iter().sum::<f64>();
        for (i, weight) in weights.iter().enumerate() {
            rest -= weight;
            if rest < 0.0 {
                return i;
            }
        }
        weights.len() - 1
    }
}

/// Popularity: the nth is wanted 1/n^s as often as the first.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Sums of the weights up to each.
    sums: Vec<f64>,
}

impl Zipf {
    pub fn new(count: usize, exponent: f64) -> Self {
        let weights = (1..=count.max(1)).map(|rank| (rank as f64).powf(-exponent));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    /// A rank, from 0.
    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_chance() {
        let draw =
            |seed| (0..9).map(|_| 0).scan(Random::new(seed), |r, _| Some(r.bits())).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn zipf_is_as_steep_as_its_exponent() {
        let (zipf, mut random) = (Zipf::new(1000, 1.0), Random::new(7));
        let mut counts = vec![0u32; 1000];
        for _ in 0..200_000 {
            counts[zipf.draw(&mut random)] += 1;
        }
        let ratio = |a: usize, b: usize| f64::from(counts[a]) / f64::from(counts[b]);
        assert!((1.85..2.15).contains(&ratio(0, 1)), "{:?}", &counts[..4]);
        assert!((3.6..4.4).contains(&ratio(0, 3)), "{:?}", &counts[..4]);
        let even = Zipf::new(4, 0.0);
        let hits = (0..40_000).filter(|_| even.draw(&mut random) == 3).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
    }

    #[test]
    fn means_are_as_asked_for() {
        let mut random = Random::new(3);
        let mean = (0..100_000).map(|_| random.exponential(2.0)).sum::<f64>() / 1e5;
        assert!((1.95..2.05).contains(&mean), "{mean}");
        let picks = (0..10_000).filter(|_| random.choice(&[1.0, 3.0]) == 1).count();
        assert!((7_300..7_700).contains(&picks), "{picks}");
    }
}
