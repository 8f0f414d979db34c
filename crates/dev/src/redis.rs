//! Private Redis servers: one, a cluster, or a master that sentinels watch. None of them keeps anything on disk.

mod cluster;
mod sentinel;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{Process, Start};
use crate::{DevError, address};

pub use cluster::RedisCluster;
pub use sentinel::Sentinels;

const PACKAGE: &str = "redis-server";
const READY: Duration = Duration::from_secs(20);

/// A Redis of one's own. Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub struct Redis {
    folder: TempDir,
    address: SocketAddr,
    arguments: Vec<String>,
    process: Mutex<Option<Process>>,
}

impl Redis {
    pub fn start() -> Result<Self, DevError> {
        Self::start_with(&[])
    }

    /// With settings as they stand in `redis.conf`, such as `maxmemory 10mb`.
    pub fn start_with(settings: &[&str]) -> Result<Self, DevError> {
        let new = Self::new(settings, &[])?;
        new.start_again()?;
        Ok(new)
    }

    /// A server whose settings are in a file that it may write to: sentinels insist on that.
    fn start_with_file(text: &str, arguments: &[&str]) -> Result<Self, DevError> {
        let mut new = Self::new(&[], arguments)?;
        let file = new.folder.path().join("redis.conf");
        std::fs::write(&file, text).map_err(DevError::io("the settings of Redis"))?;
        new.arguments.insert(0, file.display().to_string());
        new.start_again()?;
        Ok(new)
    }

    fn new(settings: &[&str], more: &[&str]) -> Result<Self, DevError> {
        let folder = tempfile::Builder::new().prefix("rowlock-redis-").tempdir();
        let folder = folder.map_err(DevError::io("a temporary folder"))?;
        let address = address::free()?;
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let home = folder.path().display().to_string();
        let mut arguments: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
        for (name, value) in
            [("bind", ip.as_str()), ("port", &port), ("dir", &home), ("protected-mode", "no")]
        {
            arguments.extend([format!("--{name}"), value.to_owned()]);
        }
        // A sentinel has no data to keep, and refuses settings about it.
        if more.is_empty() {
            arguments.extend(["--save", "", "--appendonly", "no"].map(str::to_owned));
            // Others see a connection of ours come from 127.0.0.1 and would look for us there.
            for name in ["bind-source-addr", "replica-announce-ip", "cluster-announce-ip"] {
                arguments.extend([format!("--{name}"), ip.clone()]);
            }
        }
        for setting in settings {
            let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
            arguments.push(format!("--{name}"));
            arguments.extend(value.split(' ').map(str::to_owned));
        }
        Ok(Self { folder, address, arguments, process: Mutex::new(None) })
    }

    /// Starts it on the same address after it was killed. It knows nothing any more.
    pub fn start_again(&self) -> Result<(), DevError> {
        let start = Start::new("redis-server", self.folder.path().join("redis.log"))
            .arguments(self.arguments.clone());
        let process = Process::start(&start)?;
        process.until_ready(READY, || self.cli(&["PING"]).is_ok_and(|said| said == "PONG"))?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) {
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    /// Kills it and starts it again with nothing in it.
    pub fn restart_empty(&self) -> Result<(), DevError> {
        self.kill();
        self.start_again()
    }

    /// Stops the process without ending it: connections stay, answers don't come.
    pub fn pause(&self) {
        if let Some(process) = self.process().as_ref() {
            process.pause();
        }
    }

    pub fn resume(&self) {
        if let Some(process) = self.process().as_ref() {
            process.resume();
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Listens for TLS too, with this key and certificate, and returns the URL for that.
    pub fn speak_tls(&self, key: &Path, certificate: &Path) -> Result<String, DevError> {
        let address = address::free()?;
        let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
        self.cli(&["CONFIG", "SET", "tls-key-file", &key, "tls-cert-file", &certificate])?;
        self.cli(&["CONFIG", "SET", "tls-ca-cert-file", &certificate, "tls-auth-clients", "no"])?;
        self.cli(&["CONFIG", "SET", "tls-port", &address.port().to_string()])?;
        Ok(format!("rediss://{address}"))
    }

    /// Sends one command with `redis-cli` and returns what it prints. An error of Redis is an error here.
    pub fn cli(&self, arguments: &[&str]) -> Result<String, DevError> {
        let mut command = Command::new("redis-cli");
        command.args(["-h", &self.address.ip().to_string(), "-p", &self.address.port().to_string(), "-e"]);
        let output = command.args(arguments).output().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                DevError::Missing { program: "redis-cli".into(), package: PACKAGE }
            }
            _ => DevError::Io { what: "redis-cli".into(), source },
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(DevError::Failed { what: format!("redis-cli {}", arguments.join(" ")), log })
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("redis.log")).unwrap_or_default()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Settings for TLS as they stand in `redis.conf`, and the port that they name.
fn tls_settings(key: &Path, certificate: &Path) -> Result<(Vec<String>, u16), DevError> {
    let port = address::free()?.port();
    let settings = vec![
        format!("tls-port {port}"),
        format!("tls-key-file {}", key.display()),
        format!("tls-cert-file {}", certificate.display()),
        format!("tls-ca-cert-file {}", certificate.display()),
        "tls-auth-clients no".to_owned(),
    ];
    Ok((settings, port))
}
