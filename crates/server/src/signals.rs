//! SIGTERM, SIGINT and SIGHUP: the first asks to stop, the second insists.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::fault::Fault;

/// What a shell adds to the number of the signal that ended a process.
const ENDED_BY_SIGNAL: i32 = 128;

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal has gone. `None` for who was started with nohup, which is to go on without one.
    hang_up: Option<Signal>,
}

impl Signals {
    pub fn listen() -> Result<Self, Fault> {
        let of =
            |kind| signal(kind).map_err(|error| Fault::new(format!("signals can't be listened to: {error}")));
        Ok(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hang_up: if ignores_hang_up() { None } else { Some(of(SignalKind::hangup())?) },
        })
    }

    /// The name of the next signal.
    pub async fn next(&mut self) -> &'static str {
        self.next_kind().await.0
    }

    async fn next_kind(&mut self) -> (&'static str, SignalKind) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SignalKind::terminate()),
            _ = self.interrupt.recv() => ("SIGINT", SignalKind::interrupt()),
            _ = async { self.hang_up.as_mut()?.recv().await }, if self.hang_up.is_some() => {
                ("SIGHUP", SignalKind::hangup())
            }
        }
    }

    /// Ends the process at the next signal, whatever it is doing. What was acknowledged is on disk by then.
    pub fn then_exit(mut self) {
        tokio::spawn(async move {
            let (name, kind) = self.next_kind().await;
            eprintln!("{name} again: stopping at once");
            std::process::exit(ENDED_BY_SIGNAL + kind.as_raw_value());
        });
    }
}

/// Whether whoever started this process had it ignore SIGHUP, the first signal of the mask.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
