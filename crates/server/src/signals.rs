//! SIGTERM and SIGINT: the first asks to stop, the second insists.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::fault::Fault;

/// What a shell reports for a process that SIGINT ended.
const INSISTED: i32 = 130;

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> Result<Self, Fault> {
        let of =
            |kind| signal(kind).map_err(|error| Fault::new(format!("signals can't be listened to: {error}")));
        Ok(Self { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    /// The name of the next signal.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next signal, whatever it is doing. What was acknowledged is on disk by then.
    pub fn then_exit(mut self) {
        tokio::spawn(async move {
            let name = self.next().await;
            eprintln!("{name} again: stopping at once");
            std::process::exit(INSISTED);
        });
    }
}
