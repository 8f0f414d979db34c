//! The protocol, every order of every step.
//!
//! What is modelled is not the code but what the parts may do to each other: clients that repeat themselves, nodes that
//! crash between any two steps, Redis that forgets, a truth that locks, compares and commits, and time that passes. A
//! checker walks through every state that can come of it. [`Variant`] has the protocol with one safeguard missing at a time:
//! each of them must be caught, or be shown to be harmless because another safeguard stands behind it.

mod action;
mod belief;
mod check;
mod narrate;
mod node;
mod packed;
pub mod properties;
mod protocol;
mod redis;
mod size;
mod state;
mod truth;
mod variant;

use std::process::ExitCode;

pub use check::{Counterexample, Explored, counterexample, explore};
pub use protocol::Protocol;
pub use size::Size;
pub use variant::Variant;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Clients that want seats.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    clients: u8,
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    seats: u8,
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    nodes: u8,
    /// The size that the tests explore.
    #[arg(long, conflicts_with_all = ["clients", "seats", "nodes"])]
    small: bool,
    /// Requests that each client may send, repetitions included.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=4))]
    sends: Option<u8>,
    /// Faults in one run, at most.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=4))]
    faults: Option<u8>,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Explore a variant with a safeguard missing, or `all` of them. `list` says which there are.
    #[arg(long, value_name = "NAME")]
    broken: Option<String>,
}

impl Options {
    fn size(&self) -> Size {
        let mut size = if self.small { Size::small() } else { Size::full() };
        if !self.small {
            size.clients = self.clients.into();
            size.seats = self.seats.into();
            size.nodes = self.nodes.into();
        }
        if let Some(sends) = self.sends {
            size.sends = [sends; state::MAX_CLIENTS];
        }
        size.faults = self.faults.unwrap_or(size.faults);
        size
    }
}

pub fn main(options: Options) -> ExitCode {
    let fine = match options.broken.as_deref() {
        None => {
            explore_and_tell(Protocol::new(options.size(), Variant::Correct).with_symmetry(), options.threads)
                .is_sound()
        }
        Some("list") => {
            for variant in Variant::ALL {
                println!("{:<22} {}", variant.name(), variant.what().trim());
            }
            true
        }
        Some("all") => {
            // Every one of them, and not only up to the first that is not as it should be.
            let all = Variant::broken().chain(Variant::harmless());
            let fine: Vec<bool> = all.map(|variant| try_variant(variant, &options)).collect();
            fine.into_iter().all(|fine| fine)
        }
        Some(name) => match Variant::of(name) {
            Some(variant) => try_variant(variant, &options),
            None => {
                eprintln!("There is no variant «{name}»; «--broken list» says which there are.");
                false
            }
        },
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A broken variant must be caught, a harmless one must not.
fn try_variant(variant: Variant, options: &Options) -> bool {
    let mut size = variant.size();
    if options.sends.is_some() {
        size.sends = options.size().sends;
    }
    size.faults = options.faults.unwrap_or(size.faults);
    let protocol = Protocol::new(size, variant);
    println!("{variant}:{}", variant.what());
    let Some(promise) = variant.breaks() else {
        return explore_and_tell(protocol, options.threads).broken.is_empty();
    };
    match counterexample(&protocol, promise) {
        Some(found) => {
            println!(
                "  caught in {} steps, after {} states: «{promise}» is broken",
                found.steps, found.states
            );
            print_trace(&found.trace);
            true
        }
        None => {
            println!("  NOT CAUGHT: «{promise}» holds in all states");
            false
        }
    }
}

fn explore_and_tell(protocol: Protocol, threads: usize) -> Explored {
    let size = protocol.size;
    let Size { clients, seats, nodes, faults, .. } = size;
    let sends = &size.sends[..clients];
    println!(
        "  {clients} clients × {seats} seats × {nodes} nodes, requests a client {sends:?}, faults {faults}"
    );
    let found = explore(protocol, threads, true);
    let seconds = found.time.as_secs_f64();
    println!(
        "  {} states, {} steps, depth {}, {seconds:.1} s: {} promises kept, {} things reached",
        found.states, found.steps, found.depth, found.promises, found.reached
    );
    for (promise, trace) in &found.broken {
        println!("  BROKEN: «{promise}»");
        print_trace(trace);
    }
    for missing in &found.missing {
        println!("  NEVER HAPPENED: «{missing}»");
    }
    found
}

fn print_trace(trace: &[String]) {
    for (number, line) in (1..).zip(trace) {
        println!("  {number:>4}. {line}");
    }
}
