//! The violations found, so many of each kind and no more.

use rustc_hash::FxHashMap;

use crate::verify::{Promise, Violation};

/// Violations of one kind that are told one by one.
const MAX_TOLD: usize = 100;

#[derive(Default)]
pub(super) struct Findings {
    violations: Vec<Violation>,
    /// By kind: the promise and how many there were.
    found: FxHashMap<&'static str, (Promise, usize)>,
}

impl Findings {
    /// `kind` names what is counted together, as in «31 more of: held seats».
    pub fn add(&mut self, promise: Promise, kind: &'static str, what: String) {
        let found = self.found.entry(kind).or_insert((promise, 0));
        found.1 += 1;
        if found.1 <= MAX_TOLD {
            self.violations.push(Violation { promise, what });
        }
    }

    pub fn finish(mut self) -> Vec<Violation> {
        let mut cut: Vec<_> = self.found.into_iter().filter(|(_, (_, found))| *found > MAX_TOLD).collect();
        cut.sort_unstable_by_key(|(kind, _)| *kind);
        for (kind, (promise, found)) in cut {
            let what = format!("{} more of: {kind}", found - MAX_TOLD);
            self.violations.push(Violation { promise, what });
        }
        self.violations
    }
}
