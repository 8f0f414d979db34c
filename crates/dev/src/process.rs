//! A process that ends with us, whatever becomes of us.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::{DevError, wait_until};

/// How a process is started.
#[derive(Clone, Debug)]
pub struct Start {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Where it writes what it says.
    pub log: PathBuf,
    /// Another user to run as, when we are root.
    pub user: Option<String>,
}

impl Start {
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            log: log.into(),
            user: None,
        }
    }

    #[must_use]
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn user(mut self, user: Option<String>) -> Self {
        self.user = user;
        self
    }

    fn command(&self) -> Command {
        // `setpriv` asks the kernel to kill the process when we die, even when we are killed ourselves.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = &self.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").arg(&self.program).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Ctrl-C in a terminal reaches every process of the group that runs there. It is for us, and we tell our children
        // when they are to end: they may still need each other. Whoever is not told is killed with us, as said above.
        command.process_group(0);
        command
    }
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    child: Mutex<Child>,
    /// The kernel takes the death of the thread that started a process for the death of its parent, so that thread
    /// stays until this is dropped.
    _keeper: mpsc::Sender<()>,
}

impl Process {
    pub fn start(start: &Start) -> Result<Self, DevError> {
        let name = start.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = File::create(&start.log).map_err(DevError::io(format!("the log of {name}")))?;
        let errors = log.try_clone().map_err(DevError::io(format!("the log of {name}")))?;
        let mut command = start.command();
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let (started, starting) = mpsc::channel();
        let (keeper, kept) = mpsc::channel::<()>();
        thread::spawn(move || {
            let _ = started.send(command.spawn());
            let _ = kept.recv();
        });
        let child = starting.recv().unwrap_or_else(|_| Err(std::io::Error::other("the thread ended")));
        let child = child.map_err(DevError::io(format!("{name} can't be started")))?;
        let pid = Pid::from_raw(child.id() as i32);
        Ok(Self { name, log: start.log.clone(), pid, child: Mutex::new(child), _keeper: keeper })
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    pub fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    /// Sends a signal, unless the process has ended: then its id may be somebody else's.
    pub fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            let _ = signal::kill(self.pid, signal);
        }
    }

    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Ends it at once, as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child().wait();
    }

    /// Sends a signal that asks it to end, and waits. The status, or `None` when it is still there.
    pub fn end(&self, signal: Signal, within: Duration) -> Option<ExitStatus> {
        self.signal(signal);
        self.ended(within)
    }

    /// Waits for it to end by itself.
    pub fn ended(&self, within: Duration) -> Option<ExitStatus> {
        let mut status = None;
        wait_until(within, || {
            // Who can't be asked has not ended well.
            status = self.child().try_wait().unwrap_or(Some(ExitStatus::from_raw(1 << 8)));
            status.is_some()
        });
        status
    }

    /// Waits until `is_ready`, and says what the process said when it never is.
    pub fn until_ready(&self, within: Duration, mut is_ready: impl FnMut() -> bool) -> Result<(), DevError> {
        let mut ended = false;
        let ready = wait_until(within, || {
            ended = !self.is_running();
            ended || is_ready()
        });
        if ready && !ended {
            return Ok(());
        }
        let what = if ended { "ended instead of starting" } else { "did not become ready" };
        Err(DevError::Failed { what: format!("{} {what}", self.name), log: self.said() })
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end and returns what it prints.
pub(crate) fn run(command: &mut Command) -> Result<String, DevError> {
    let what = format!("{command:?}");
    let output = command.current_dir("/").output().map_err(DevError::io(what.clone()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(DevError::Failed { what, log: String::from_utf8_lossy(&output.stderr).into_owned() })
}
