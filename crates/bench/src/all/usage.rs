//! What processes have used: processor time, memory, and syncs to disk.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A hundredth of a second is what Linux counts in, on every machine that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of processor time, those of its children that have ended included.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks(&stat) / TICKS_PER_SECOND
}

fn ticks(stat: &str) -> f64 {
    // The fields are counted from behind the name, which is in parentheses and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    (11..15).filter_map(|field| fields.get(field)?.parse::<f64>().ok()).sum()
}

/// The most memory that a process has had, in bytes.
pub fn peak_memory(pid: u32) -> u64 {
    kibibytes(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "VmHWM:")
}

/// Memory now, with what it shares with others counted in part: the processes of Postgres share most of theirs.
pub fn own_memory(pid: u32) -> u64 {
    kibibytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default(), "Pss:")
}

fn kibibytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Counts fsync and fdatasync of some processes in the kernel, while it lives.
pub struct Syncs {
    perf: Child,
    said: std::path::PathBuf,
}

const EVENTS: &str = "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync";
/// Until perf has attached itself.
const ATTACH: Duration = Duration::from_millis(200);
const TRIES: u32 = 4;

impl Syncs {
    /// `None` when there is no perf, or it may not. `pids` is asked again when one of them has ended meanwhile, which
    /// perf does not forgive.
    pub fn count(pids: impl Fn() -> Vec<u32>, folder: &Path) -> Option<Self> {
        (0..TRIES).find_map(|_| Self::attach(&pids(), folder))
    }

    fn attach(pids: &[u32], folder: &Path) -> Option<Self> {
        let said = folder.join("perf.txt");
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", EVENTS, "-p", &pids.join(","), "-o"])
            .arg(&said)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        std::thread::sleep(ATTACH);
        matches!(perf.try_wait(), Ok(None)).then_some(Self { perf, said })
    }

    pub fn stop(mut self) -> Option<u64> {
        kill(Pid::from_raw(self.perf.id() as i32), Signal::SIGINT).ok()?;
        self.perf.wait().ok()?;
        sum(&fs::read_to_string(&self.said).ok()?)
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// `None` when one of them was not counted.
fn sum(text: &str) -> Option<u64> {
    let counts: Option<Vec<u64>> = text
        .lines()
        .filter(|line| line.contains("sys_enter"))
        .map(|line| line.split(',').next()?.parse().ok())
        .collect();
    counts.filter(|counts| counts.len() == EVENTS.split(',').count()).map(|counts| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat_are_found_behind_any_name() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 99 99";
        assert_eq!(ticks(stat), 127.0);
        assert!(cpu_seconds(std::process::id()) >= 0.0);
        assert!(peak_memory(std::process::id()) > 100_000);
        assert!(own_memory(std::process::id()) > 100_000);
    }

    #[test]
    fn perf_is_read_or_refused() {
        let text =
            "# started\n\n12,,syscalls:sys_enter_fsync,1,100.00,,\n30,,syscalls:sys_enter_fdatasync,1,1,,\n";
        assert_eq!(sum(text), Some(42));
        assert_eq!(sum("<not counted>,,syscalls:sys_enter_fsync\n30,,syscalls:sys_enter_fdatasync"), None);
        assert_eq!(sum(""), None);
    }
}
