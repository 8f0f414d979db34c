//! What it was measured on.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Of the folder that all stores are in.
    pub filesystem: String,
    pub postgres: Option<String>,
    pub redis: Option<String>,
    /// How this program was built.
    pub build: String,
    /// The load average of the last minute when it began: what else was running.
    pub load_before: f64,
}

impl Machine {
    pub fn look(folder: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu =
            field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kibibytes = memory.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu,
            memory_bytes: kibibytes * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            filesystem: filesystem(&read("/proc/mounts"), folder),
            postgres: None,
            redis: said(Command::new("redis-server").arg("--version")),
            build: if cfg!(debug_assertions) { "dev" } else { "release" }.into(),
            load_before: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
        }
    }

    /// Nothing is written to a disk there, so syncing costs nothing.
    pub fn syncs_for_nothing(&self) -> bool {
        ["tmpfs", "ramfs"].contains(&self.filesystem.as_str())
    }
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // «Redis server v=7.0.15 sha=…»
    Some(text.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("unknown").to_owned())
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The type of the mount that is nearest above the folder.
fn filesystem(mounts: &str, folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut best = (0, "unknown");
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, at, kind, ..] = words[..] else { continue };
        if folder.starts_with(at) && at.len() >= best.0 {
            best = (at.len(), kind);
        }
    }
    best.1.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /nowhere tmpfs rw 0 0\nx /nowhere/deep xfs rw 0 0\n";
        assert_eq!(filesystem(mounts, Path::new("/nowhere/file")), "tmpfs");
        assert_eq!(filesystem(mounts, Path::new("/nowhere/deep/file")), "xfs");
        assert_eq!(filesystem(mounts, Path::new("/nowhere-else")), "ext4");
    }

    #[test]
    fn fields_are_found() {
        assert_eq!(field("a : 1\nmodel name\t: A chip\n", "model name").as_deref(), Some("A chip"));
        assert_eq!(field("", "model name"), None);
    }
}
