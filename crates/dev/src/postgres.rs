//! A private Postgres.

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};
use tempfile::TempDir;

use crate::process::{Process, Start, run};
use crate::{DevError, address, certificate};

/// The user and the database that exist from the start.
pub const USER: &str = "rowlock";

const READY: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(20);

/// A Postgres with a data folder of its own. Dropping it ends the server and removes the folder.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    address: SocketAddr,
    user: Option<User>,
    process: Mutex<Option<Process>>,
}

impl Postgres {
    pub fn start() -> Result<Self, DevError> {
        Self::start_with(&[])
    }

    /// With settings, such as `max_connections=20`.
    pub fn start_with(settings: &[&str]) -> Result<Self, DevError> {
        let user = unprivileged()?;
        let template = template(user.as_ref())?;
        let new = Self::new(user)?;
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&template).arg(new.data()))?;
        new.configure(settings)?;
        new.start_again()?;
        Ok(new)
    }

    /// A copy of this one that follows it by replication, under the name `standby`.
    pub fn standby(&self) -> Result<Self, DevError> {
        let new = Self::new(self.user.clone())?;
        let source = format!(
            "host={} port={} user={USER} application_name=standby",
            self.address.ip(),
            self.address.port()
        );
        let mut copy = Command::new("setpriv");
        if let Some(user) = &self.user {
            copy.args(["--reuid", &user.name, "--regid", &user.name, "--clear-groups"]);
        }
        copy.arg("--").arg(binary("pg_basebackup")?);
        copy.args(["--no-sync", "--checkpoint=fast", "-R", "-d", &source, "-D"]).arg(new.data());
        run(&mut copy)?;
        new.configure(&[])?;
        new.start_again()?;
        Ok(new)
    }

    fn new(user: Option<User>) -> Result<Self, DevError> {
        let folder = tempfile::Builder::new().prefix("rowlock-pg-").tempdir();
        let folder = folder.map_err(DevError::io("a temporary folder"))?;
        own(folder.path(), user.as_ref())?;
        Ok(Self { folder, address: address::free()?, user, process: Mutex::new(None) })
    }

    fn configure(&self, settings: &[&str]) -> Result<(), DevError> {
        use std::io::Write as _;
        let mut text = format!(
            "listen_addresses = '{}'\nport = {}\nunix_socket_directories = '{}'\n\
             shared_buffers = 64MB\nmax_connections = 100\nautovacuum_naptime = 10s\n",
            self.address.ip(),
            self.address.port(),
            self.folder.path().display(),
        );
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            text.push_str(&format!("{name} = '{value}'\n"));
        }
        let file = std::fs::OpenOptions::new().append(true).open(self.data().join("postgresql.conf"));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(DevError::io("the settings of Postgres"))
    }

    /// Starts the server on the data it has, after it was stopped.
    pub fn start_again(&self) -> Result<(), DevError> {
        let start = Start::new(binary("postgres")?, self.folder.path().join("postgres.log"))
            .arguments(["-D".to_owned(), self.data().display().to_string()])
            .user(self.user.as_ref().map(|user| user.name.clone()));
        let process = Process::start(&start)?;
        let ready = binary("pg_isready")?;
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        process.until_ready(READY, || {
            let mut ask = Command::new(&ready);
            ask.args(["-q", "-h", &host, "-p", &port, "-U", USER, "-d", "postgres"]);
            ask.status().is_ok_and(|status| status.success())
        })?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Stops it at once, as if the power had failed: no checkpoint, no goodbye.
    pub fn stop_at_once(&self) {
        if let Some(process) = self.process().take() {
            process.end(Signal::SIGQUIT, STOP);
        }
    }

    /// Turns TLS on, with a certificate of its own. Returns the file that vouches for it.
    pub fn speak_tls(&self) -> Result<PathBuf, DevError> {
        let (key, certificate) = (self.data().join("server.key"), self.data().join("server.crt"));
        certificate::self_signed(self.address.ip(), &key, &certificate)?;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&key, private).map_err(DevError::io("the key of Postgres"))?;
        for file in [&key, &certificate] {
            if let Some(user) = &self.user {
                chown(file, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                    .map_err(DevError::io("its owner"))?;
            }
        }
        self.sql("ALTER SYSTEM SET ssl = on")?;
        self.sql("SELECT pg_reload_conf()")?;
        Ok(certificate)
    }

    /// Makes a standby the primary.
    pub fn promote(&self) -> Result<(), DevError> {
        self.sql("SELECT pg_promote()").map(drop)
    }

    /// Runs SQL with psql and returns what it prints, unaligned and without headings.
    pub fn sql(&self, sql: &str) -> Result<String, DevError> {
        let mut psql = Command::new(binary("psql")?);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", sql]);
        run(&mut psql)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address)
    }

    /// The folder of its data and its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The processes of the server, the first one first.
    pub fn pids(&self) -> Vec<u32> {
        let Some(pid) = self.process().as_ref().map(Process::pid) else { return Vec::new() };
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        std::iter::once(pid).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("postgres.log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop_at_once();
    }
}

/// A data folder fresh from `initdb`, made once for this machine and user: copying it is ten times quicker.
fn template(user: Option<&User>) -> Result<PathBuf, DevError> {
    let initdb = binary("initdb")?;
    let version = run(Command::new(&initdb).arg("--version"))?;
    let version = version.split_whitespace().nth(2).unwrap_or("0").to_owned();
    let uid = user.map_or_else(|| Uid::current().as_raw(), |user| user.uid.as_raw());
    let base = tempfile::env::temp_dir().join(format!("rowlock-postgres-{version}-{uid}"));
    let made = base.join("made");
    std::fs::create_dir_all(&base).map_err(DevError::io("the folder of the template"))?;
    let lock = std::fs::File::create(base.join("lock")).map_err(DevError::io("the lock of the template"))?;
    lock.lock().map_err(DevError::io("the lock of the template"))?;
    if made.exists() {
        return Ok(made);
    }
    own(&base, user)?;
    let making = base.join("making");
    let _ = std::fs::remove_dir_all(&making);
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        command.args(["--reuid", &user.name, "--regid", &user.name, "--clear-groups"]);
    }
    command.arg("--").arg(&initdb).args(["-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C.UTF-8"]);
    command.args(["--no-sync", "--wal-segsize=4", "-D"]).arg(&making);
    run(&mut command)?;
    std::fs::rename(&making, &made).map_err(DevError::io("the template"))?;
    Ok(made)
}

/// Who Postgres runs as: it refuses to run as root.
fn unprivileged() -> Result<Option<User>, DevError> {
    if !Uid::current().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Ok(Some(user)) = User::from_name(name) {
            return Ok(Some(user));
        }
    }
    Err(DevError::Missing { program: "a user for Postgres".into(), package: "postgresql" })
}

fn own(folder: &Path, user: Option<&User>) -> Result<(), DevError> {
    let Some(user) = user else { return Ok(()) };
    chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .and_then(|()| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)))
        .map_err(DevError::io("the owner of a folder"))
}

/// A program of Postgres. Debian keeps those of the server out of the path.
pub(crate) fn binary(name: &str) -> Result<PathBuf, DevError> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| DevError::Missing { program: name.into(), package: "postgresql" })
}
