//! The data folder and the private files in it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::fault::Fault;

const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// Makes the data folder if need be, and sees to it that it can be written to.
pub fn prepare_folder(folder: &Path) -> Result<(), Fault> {
    let shown = folder.display();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_FOLDER)
        .create(folder)
        .map_err(|error| Fault::new(format!("the data folder {shown} can't be made: {error}")))?;
    let probe = beside(&folder.join("probe"));
    let written = private(&probe).and_then(|_| fs::remove_file(&probe));
    written.map_err(|error| Fault::new(format!("the data folder {shown} can't be written to: {error}")))
}

/// Replaces a file with one that only its owner can read. A crash leaves the old one or the new one.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let fresh = beside(path);
    write_through(&fresh, content)?;
    fs::rename(&fresh, path)?;
    sync_folder(path)
}

/// Makes a private file unless there is one already. Either way the answer is what the file says in the end, so two
/// processes that try at once agree.
pub fn create_or_read(path: &Path, content: &[u8]) -> std::io::Result<String> {
    if let Ok(text) = fs::read_to_string(path) {
        return Ok(text);
    }
    let fresh = beside(path);
    write_through(&fresh, content)?;
    let linked = fs::hard_link(&fresh, path);
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => sync_folder(path)?,
    }
    fs::read_to_string(path)
}

fn write_through(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = private(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn private(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(path)?;
    // The mode above counts only for a new file.
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
    Ok(file)
}

/// A rename is durable once its folder is.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    PathBuf::from(name)
}
