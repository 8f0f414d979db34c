//! Which faults happen when, from a seed alone.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::proxy::Mode;

/// A way from a node to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Clients,
    Redis,
    Postgres,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillNode {
        node: usize,
        down: Duration,
    },
    PauseNode {
        node: usize,
        time: Duration,
    },
    /// Restarted with a clock that is so many seconds off, until the next time it is restarted so.
    SkewNode {
        node: usize,
        seconds: i32,
    },
    /// All nodes are asked to stop and started again.
    StopAll,
    Cut {
        node: usize,
        link: Link,
        mode: Mode,
        time: Duration,
    },
    PauseRedis {
        time: Duration,
    },
    FlushRedis,
    FlushScripts,
    RestartRedis {
        down: Duration,
    },
    PausePostgres {
        time: Duration,
    },
    KillPostgres {
        down: Duration,
    },
}

/// Faults that begin together, so long after those before them are over.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub after: Duration,
    pub faults: Vec<Fault>,
}

impl Fault {
    /// How the report counts it.
    pub fn kind(&self) -> String {
        match self {
            Fault::KillNode { .. } => "node killed".into(),
            Fault::PauseNode { .. } => "node paused".into(),
            Fault::SkewNode { .. } => "node with a wrong clock".into(),
            Fault::StopAll => "all nodes stopped".into(),
            Fault::Cut { link, mode, .. } => {
                let link = match link {
                    Link::Clients => "clients",
                    Link::Redis => "Redis",
                    Link::Postgres => "Postgres",
                };
                format!("node and {link} cut: {}", mode.name())
            }
            Fault::PauseRedis { .. } => "Redis paused".into(),
            Fault::FlushRedis => "Redis emptied".into(),
            Fault::FlushScripts => "scripts of Redis forgotten".into(),
            Fault::RestartRedis { .. } => "Redis killed".into(),
            Fault::PausePostgres { .. } => "Postgres paused".into(),
            Fault::KillPostgres { .. } => "Postgres killed".into(),
        }
    }

    /// The node whose clients can't expect an answer in time.
    pub fn deafens(&self, node: usize) -> bool {
        match self {
            Fault::KillNode { node: of, .. }
            | Fault::PauseNode { node: of, .. }
            | Fault::SkewNode { node: of, .. }
            | Fault::Cut { node: of, link: Link::Clients, .. } => *of == node,
            Fault::StopAll => true,
            _ => false,
        }
    }

    /// Two faults of one target would undo each other.
    fn target(&self) -> Option<usize> {
        const REDIS: usize = 1_000;
        const POSTGRES: usize = 1_001;
        match self {
            Fault::KillNode { node, .. }
            | Fault::PauseNode { node, .. }
            | Fault::SkewNode { node, .. }
            | Fault::Cut { node, .. } => Some(*node),
            Fault::StopAll => None,
            Fault::PauseRedis { .. }
            | Fault::FlushRedis
            | Fault::FlushScripts
            | Fault::RestartRedis { .. } => Some(REDIS),
            Fault::PausePostgres { .. } | Fault::KillPostgres { .. } => Some(POSTGRES),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind())?;
        match self {
            Fault::KillNode { node, down: time }
            | Fault::PauseNode { node, time }
            | Fault::Cut { node, time, .. } => write!(f, ", node {node}, {time:?}"),
            Fault::SkewNode { node, seconds } => write!(f, ", node {node}, {seconds:+} s"),
            Fault::PauseRedis { time }
            | Fault::RestartRedis { down: time }
            | Fault::PausePostgres { time }
            | Fault::KillPostgres { down: time } => write!(f, ", {time:?}"),
            Fault::StopAll | Fault::FlushRedis | Fault::FlushScripts => Ok(()),
        }
    }
}

/// Steps without end. Every kind of fault comes once before any comes again, so that short runs see all of them.
pub struct Schedule {
    rng: StdRng,
    nodes: usize,
    deck: Vec<Card>,
    cards: Vec<Card>,
}

#[derive(Clone, Copy)]
enum Card {
    KillNode,
    PauseNode,
    SkewNode,
    StopAll,
    Cut(Link, u8),
    PauseRedis,
    FlushRedis,
    FlushScripts,
    RestartRedis,
    PausePostgres,
    KillPostgres,
}

/// How often two faults begin together.
const TOGETHER: f64 = 0.3;

impl Schedule {
    /// For nodes that share Postgres and Redis.
    pub fn new(seed: u64, nodes: usize) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), nodes, deck: deck(), cards: Vec::new() }
    }

    /// For one node with a store of its own. Its clock stays right: it is the clock that decides.
    pub fn embedded(seed: u64) -> Self {
        let mut deck = vec![Card::KillNode; 5];
        deck.extend([Card::PauseNode, Card::StopAll]);
        deck.extend((0..5).map(|which| Card::Cut(Link::Clients, which)));
        Self { rng: StdRng::seed_from_u64(seed), nodes: 1, deck, cards: Vec::new() }
    }

    pub fn step(&mut self) -> Step {
        let after = self.millis(500, 3_000);
        let mut faults = vec![self.fault()];
        if self.rng.random_bool(TOGETHER) {
            let second = self.fault();
            let apart = (faults[0].target(), second.target());
            if matches!(apart, (Some(first), Some(second)) if first != second) {
                faults.push(second);
            } else {
                self.put_back(second);
            }
        }
        Step { after, faults }
    }

    fn fault(&mut self) -> Fault {
        if self.cards.is_empty() {
            self.cards.clone_from(&self.deck);
            self.cards.shuffle(&mut self.rng);
        }
        let card = self.cards.pop().expect("a fresh deck has cards");
        let node = self.rng.random_range(0..self.nodes);
        match card {
            Card::KillNode => Fault::KillNode { node, down: self.millis(0, 3_000) },
            Card::PauseNode => Fault::PauseNode { node, time: self.millis(500, 8_000) },
            Card::SkewNode => {
                let seconds = *[-300, -7, 7, 300].choose(&mut self.rng).expect("there are some");
                Fault::SkewNode { node, seconds }
            }
            Card::StopAll => Fault::StopAll,
            Card::Cut(link, which) => {
                let mode = match which {
                    0 => Mode::BlackHole { resets: false },
                    1 => Mode::BlackHole { resets: true },
                    2 => Mode::Reset,
                    3 => Mode::Delay(self.millis(20, 400)),
                    _ => Mode::DropAnswers,
                };
                Fault::Cut { node, link, mode, time: self.millis(1_000, 7_000) }
            }
            Card::PauseRedis => Fault::PauseRedis { time: self.millis(500, 8_000) },
            Card::FlushRedis => Fault::FlushRedis,
            Card::FlushScripts => Fault::FlushScripts,
            Card::RestartRedis => Fault::RestartRedis { down: self.millis(0, 3_000) },
            Card::PausePostgres => Fault::PausePostgres { time: self.millis(500, 8_000) },
            Card::KillPostgres => Fault::KillPostgres { down: self.millis(0, 3_000) },
        }
    }

    /// A card that does not fit beside another is kept for later.
    fn put_back(&mut self, fault: Fault) {
        let card = match fault {
            Fault::KillNode { .. } => Card::KillNode,
            Fault::PauseNode { .. } => Card::PauseNode,
            Fault::SkewNode { .. } => Card::SkewNode,
            Fault::StopAll => Card::StopAll,
            Fault::Cut { link, mode, .. } => Card::Cut(
                link,
                match mode {
                    Mode::BlackHole { resets: false } | Mode::Pass => 0,
                    Mode::BlackHole { resets: true } => 1,
                    Mode::Reset => 2,
                    Mode::Delay(_) => 3,
                    Mode::DropAnswers => 4,
                },
            ),
            Fault::PauseRedis { .. } => Card::PauseRedis,
            Fault::FlushRedis => Card::FlushRedis,
            Fault::FlushScripts => Card::FlushScripts,
            Fault::RestartRedis { .. } => Card::RestartRedis,
            Fault::PausePostgres { .. } => Card::PausePostgres,
            Fault::KillPostgres { .. } => Card::KillPostgres,
        };
        self.cards.push(card);
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.random_range(least..=most))
    }
}

fn deck() -> Vec<Card> {
    let mut cards = vec![
        Card::KillNode,
        Card::KillNode,
        Card::PauseNode,
        Card::SkewNode,
        Card::StopAll,
        Card::PauseRedis,
        Card::FlushRedis,
        Card::FlushScripts,
        Card::RestartRedis,
        Card::PausePostgres,
        Card::KillPostgres,
    ];
    for link in [Link::Clients, Link::Redis, Link::Postgres] {
        cards.extend((0..5).map(|which| Card::Cut(link, which)));
    }
    cards
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_one_schedule() {
        let steps = |seed| {
            let mut schedule = Schedule::new(seed, 3);
            (0..100).map(|_| schedule.step()).collect::<Vec<_>>()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_kind_comes_soon() {
        let mut schedule = Schedule::new(1, 3);
        let kinds: BTreeSet<String> =
            (0..26).flat_map(|_| schedule.step().faults).map(|fault| fault.kind()).collect();
        assert_eq!(kinds.len(), 25, "{kinds:?}");
    }

    #[test]
    fn a_node_with_a_store_of_its_own_is_all_that_can_be_broken() {
        let mut schedule = Schedule::embedded(1);
        let faults: Vec<Fault> = (0..100).flat_map(|_| schedule.step().faults).collect();
        let kinds: BTreeSet<String> = faults.iter().map(Fault::kind).collect();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert!(faults.iter().all(|fault| fault.deafens(0)), "{kinds:?}");
    }

    #[test]
    fn faults_that_begin_together_have_different_targets() {
        let mut schedule = Schedule::new(2, 3);
        let pairs: Vec<Step> =
            (0..500).map(|_| schedule.step()).filter(|step| step.faults.len() == 2).collect();
        assert!(pairs.len() > 50);
        for step in pairs {
            assert_ne!(step.faults[0].target(), step.faults[1].target());
            assert!(step.faults.iter().all(|fault| *fault != Fault::StopAll));
        }
    }
}
