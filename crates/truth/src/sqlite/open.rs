//! The data folder: its lock, its file, its migrations.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;

/// Older versions can corrupt a WAL that is checkpointed while it is written.
const OLDEST_SQLITE: i32 = 3_051_003;

const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_room.sql"),
    include_str!("../../migrations/sqlite/0003_held_by_holds.sql"),
];

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data folder {} can't be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("the data folder {} is in use by another rowlock process", path.display())]
    InUse { path: PathBuf },
    #[error("there is no rowlock data in {}", path.display())]
    Missing { path: PathBuf },
    #[error(
        "{0} is missing or empty, but its log {0}-wal is not: put the file back, or move the log away to start anew",
        path.display()
    )]
    Lost { path: PathBuf },
    #[error("SQLite {found} is too old, at least 3.51.3 is needed")]
    OldSqlite { found: &'static str },
    #[error("the data was written by a newer version of rowlock (schema {found}, this one knows {known})")]
    NewerSchema { found: usize, known: usize },
    #[error(
        "the data was written by an older version of rowlock (schema {found}, this one needs {known}): start the server once"
    )]
    OlderSchema { found: usize, known: usize },
    #[error("the database can't be opened: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("what is in the database can't be read: {0}")]
    Contents(String),
}

/// A data folder, locked for as long as this lives.
pub(super) struct Folder {
    path: PathBuf,
    _lock: Option<File>,
}

impl Folder {
    pub fn lock(dir: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        if rusqlite::version_number() < OLDEST_SQLITE {
            return Err(OpenError::OldSqlite { found: rusqlite::version() });
        }
        let unusable = |source| OpenError::Folder { path: dir.to_owned(), source };
        std::fs::create_dir_all(dir).map_err(unusable)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join("rowlock.lock"))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            #[cfg(feature = "conformance")]
            Err(TryLockError::WouldBlock) if options.sabotage.share_folder => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: dir.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let _ = options;
        Ok(Self { path: dir.to_owned(), _lock: Some(lock) })
    }

    pub fn existing(dir: &Path) -> Result<Self, OpenError> {
        let folder = Self { path: dir.to_owned(), _lock: None };
        match folder.file().metadata() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::Missing { path: dir.to_owned() });
            }
            Err(source) => return Err(OpenError::Folder { path: dir.to_owned(), source }),
        }
        let db = folder.connect_reader()?;
        let known = MIGRATIONS.len();
        match db.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0))? {
            0 => Err(OpenError::Missing { path: dir.to_owned() }),
            found if found > known => Err(OpenError::NewerSchema { found, known }),
            found if found < known => Err(OpenError::OlderSchema { found, known }),
            _ => Ok(folder),
        }
    }

    pub fn file(&self) -> PathBuf {
        self.path.join("rowlock.sqlite")
    }

    /// Makes what is missing: the file, its tables, and the log.
    pub fn prepare(&self, options: &SqliteOptions) -> Result<(), OpenError> {
        if self.has_lost_its_file() {
            return Err(OpenError::Lost { path: self.file() });
        }
        self.make_file().map_err(|source| OpenError::Folder { path: self.path.clone(), source })?;
        let mut db = Connection::open(self.file())?;
        db.busy_timeout(Duration::from_secs(10))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        migrate(&mut db)?;
        // The last to close the file copies the log and removes it.
        drop(db);
        self.make_log(options.log_bytes)
            .map_err(|source| OpenError::Folder { path: self.path.clone(), source })
    }

    /// Names and payments are nobody else's business, whoever may look into the folder. SQLite gives the log the mode of the file.
    fn make_file(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.file()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether there is a log with something in it and no file that it belongs to. SQLite would begin anew and overwrite it.
    fn has_lost_its_file(&self) -> bool {
        let is_empty = self.file().metadata().map_or(true, |found| found.len() == 0);
        let mut head = [0; 4];
        let log = File::open(self.log()).and_then(|mut log| log.read_exact(&mut head));
        is_empty && log.is_ok() && head != [0; 4]
    }

    fn log(&self) -> PathBuf {
        self.path.join("rowlock.sqlite-wal")
    }

    /// A log as long as it gets, full of zeros. SQLite takes one that does not begin as a log does for an empty one. To
    /// overwrite costs a commit half as much as to append, which makes the size of the file durable as well.
    fn make_log(&self, bytes: usize) -> io::Result<()> {
        let path = self.log();
        let is_there = path.metadata().is_ok_and(|found| found.len() > 0);
        if is_there {
            return Ok(());
        }
        // A page at a time: small writes into what was written in larger pieces take the kernel longer.
        let zeros = vec![0; 1 << 12];
        let write = |mut log: File| {
            for first in (0..bytes).step_by(zeros.len()) {
                log.write_all(&zeros[..zeros.len().min(bytes - first)])?;
            }
            log.sync_all()
        };
        // Half a log on a full disk is in everybody's way.
        let create = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        create.and_then(write).inspect_err(|_| drop(std::fs::remove_file(&path)))
    }

    pub fn connect_writer(&self, options: &SqliteOptions) -> Result<Connection, OpenError> {
        let db = Connection::open(self.file())?;
        db.busy_timeout(Duration::from_secs(10))?;
        // Every commit is on the disk before it is acknowledged.
        db.pragma_update(None, "synchronous", "FULL")?;
        // The checkpointer does this, away from the writer.
        db.pragma_update(None, "wal_autocheckpoint", 0)?;
        // What a long read kept the log from starting over for is given back to the disk.
        db.pragma_update(None, "journal_size_limit", 256 << 20)?;
        db.pragma_update(None, "cache_size", -i64::from(options.cache_mebibytes) * 1024)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        // Keys are checked by the kernel before and by `verify` after; checking each again costs a tenth of a hold.
        db.pragma_update(None, "foreign_keys", false)?;
        Ok(db)
    }

    pub fn connect_reader(&self) -> Result<Connection, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(self.file(), flags)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.set_prepared_statement_cache_capacity(64);
        Ok(db)
    }

    /// The file itself, beside the connections to it.
    pub fn open_file(&self) -> Result<File, OpenError> {
        File::open(self.file()).map_err(|source| OpenError::Folder { path: self.path.clone(), source })
    }

    pub fn connect_checkpointer(&self) -> Result<Connection, OpenError> {
        let db = Connection::open(self.file())?;
        db.busy_timeout(Duration::from_millis(0))?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(db)
    }
}

/// A file for rows of another store. Nothing in it needs to last, and faults in the rows are for the checks to find.
pub(super) fn scratch(file: &Path) -> Result<Connection, OpenError> {
    let mut db = Connection::open(file)?;
    db.pragma_update(None, "journal_mode", "OFF")?;
    db.pragma_update(None, "synchronous", "OFF")?;
    migrate(&mut db)?;
    db.pragma_update(None, "foreign_keys", false)?;
    db.pragma_update(None, "ignore_check_constraints", true)?;
    Ok(db)
}

/// Brings the schema up to date. The file itself says how many migrations it has had.
fn migrate(db: &mut Connection) -> Result<(), OpenError> {
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let done: usize = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if done > MIGRATIONS.len() {
        return Err(OpenError::NewerSchema { found: done, known: MIGRATIONS.len() });
    }
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    transaction.commit()?;
    Ok(())
}
