//! Everything that can happen next, one step at a time.

use std::fmt;

use super::node::bit;
use super::state::{MAX_CLIENTS, SLOTS, Verb};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    // The clients. `redis`: whether the node asks Redis, or can't. `believes`: whether it takes the seats to be free, and
    // sends a hold of them without reading first.
    Send {
        client: u8,
        verb: Verb,
        redis: bool,
        believes: bool,
    },
    // A request on its way. `slot`: which of the client's requests.
    Load {
        client: u8,
        slot: u8,
        node: u8,
    },
    /// What was sent on belief is carried out, or undone.
    Arrive {
        client: u8,
        slot: u8,
    },
    Commit {
        client: u8,
        slot: u8,
    },
    Answer {
        client: u8,
        slot: u8,
    },
    // What goes on by itself.
    Tick,
    Reap {
        node: u8,
        client: u8,
    },
    CommitReap {
        node: u8,
    },
    Announce {
        entry: u8,
    },
    ReadJournal,
    ClaimEnds {
        seat: u8,
    },
    Repair,
    // Faults.
    LoseAnswer {
        client: u8,
        slot: u8,
    },
    /// Which requests were on the connection: one, or two that were sent one behind the other.
    CutOff {
        requests: u8,
    },
    /// Which requests are lost with the node, whether what was not announced yet is, and whether what was sent on belief
    /// is still on its way.
    Crash {
        requests: u8,
        news: bool,
        adrift: bool,
    },
    Reload,
    /// A request about somebody else's hold.
    Meddle {
        client: u8,
        verb: Verb,
        target: u8,
    },
    LoseKey {
        seat: u8,
    },
    Flush,
    LoseNews {
        entry: u8,
    },
    Compare {
        seat: u8,
    },
    // What only a broken protocol does.
    AnswerFirst {
        client: u8,
        slot: u8,
    },
}

fn client(client: u8) -> char {
    char::from(b'A' + client)
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Hold => "hold",
        Verb::Extend => "extend",
        Verb::Confirm => "confirm",
        Verb::Release => "release",
    }
}

fn with_requests(f: &mut fmt::Formatter<'_>, requests: u8) -> fmt::Result {
    for by in (0..MAX_CLIENTS).filter(|by| (0..SLOTS).any(|slot| requests & bit(*by, slot) != 0)) {
        write!(f, ", with a request of {}", client(by as u8))?;
    }
    Ok(())
}

/// In words. What a step comes to is said by the states around it, so see `Protocol::tell` for whole traces.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::Send { client: by, verb: what, redis, believes } => {
                let claims = match (what, redis) {
                    (Verb::Hold, true) => ", which claims the seats in Redis",
                    (Verb::Hold, false) => ", which can't ask Redis",
                    _ => "",
                };
                let belief = if believes { ", and sends it on: it believes that they are free" } else { "" };
                write!(f, "client {} sends «{}» to a node{claims}{belief}", client(by), verb(what))
            }
            Action::Meddle { client: by, verb: what, target } => {
                write!(
                    f,
                    "FAULT: client {} sends «{}» for the hold of {}",
                    client(by),
                    verb(what),
                    client(target)
                )
            }
            Action::Load { client: by, .. } => {
                write!(f, "the truth locks, reads and decides for {}", client(by))
            }
            Action::Arrive { client: by, .. } => write!(f, "what was sent for {} arrives", client(by)),
            Action::Commit { client: by, .. } => write!(f, "the truth commits for {}", client(by)),
            Action::Answer { client: by, .. } => write!(f, "the answer reaches {}", client(by)),
            Action::Tick => write!(f, "a tick of the truth's clock"),
            Action::Reap { node, client: of } => {
                write!(f, "the reaper of node {node} takes up the hold of {}", client(of))
            }
            Action::CommitReap { node } => write!(f, "the truth commits for the reaper of node {node}"),
            Action::Announce { entry: 0 } => write!(f, "the next fact is announced"),
            Action::Announce { entry } => write!(f, "a fact is announced, {entry} before it were not"),
            Action::ReadJournal => write!(f, "a node reads the journal"),
            Action::ClaimEnds { seat } => write!(f, "the pending claim on seat {seat} ends by itself"),
            Action::Repair => write!(f, "the reconciliation repairs what it saw"),
            Action::LoseAnswer { client: by, .. } => write!(f, "FAULT: the answer to {} is lost", client(by)),
            Action::Reload => write!(f, "FAULT: the node that follows crashes and loads everything again"),
            Action::CutOff { requests } => {
                write!(f, "FAULT: a connection to the truth is cut before the commit")?;
                with_requests(f, requests)
            }
            Action::Crash { requests, news, adrift } => {
                write!(f, "FAULT: a node crashes")?;
                with_requests(f, requests)?;
                f.write_str(if adrift { ", and what it has sent is still on its way" } else { "" })?;
                f.write_str(if news { ", and announces nothing any more" } else { "" })
            }
            Action::LoseKey { seat } => write!(f, "FAULT: Redis loses the claim on seat {seat}"),
            Action::Flush => write!(f, "FAULT: Redis loses everything"),
            Action::LoseNews { entry } => {
                write!(f, "FAULT: the announcement of fact {entry} from here is lost")
            }
            Action::Compare { seat } => write!(f, "a reconciliation finds a difference at seat {seat}"),
            Action::AnswerFirst { client: by, .. } => write!(f, "the node answers {} at once", client(by)),
        }
    }
}
