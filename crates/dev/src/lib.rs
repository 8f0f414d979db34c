//! Servers of one's own: Postgres and Redis as private processes, each in a folder of its own and on an address that
//! nobody else uses. Tests, benchmarks and `rowlock dev up` start them, and they end with whoever started them.

pub mod address;
pub mod certificate;
pub mod postgres;
pub mod process;
pub mod redis;

use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub enum DevError {
    #[error("{program} is missing: Debian has it in the package {package}")]
    Missing { program: String, package: &'static str },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("{what}\n{log}")]
    Failed { what: String, log: String },
}

impl DevError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| DevError::Io { what, source }
    }
}

/// Asks again and again until the answer is yes. `false` when the time is over first.
pub fn wait_until(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + within;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
