//! Settings: a file, and an environment behind a line of three dashes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rowlock::config::{self, Sources};
use rowlock::settings::Settings;
use serde_json::Value;

const MARK: &[u8] = b"\n---\n";
/// A secret in an input. Whatever is wrong with its settings, no message may have it in it.
const SECRET: &str = "s3cr3t";
const SECRET_LINE: &str = "jwt_secret = \"s3cr3t\"";

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
}

pub fn run(data: &[u8]) {
    let mark = data.windows(MARK.len()).position(|part| part == MARK);
    let (file, environment) = match mark {
        Some(at) => (&data[..at], &data[at + MARK.len()..]),
        None => (data, &b""[..]),
    };
    let path = FOLDER.with(|folder| folder.path().join("rowlock.toml"));
    std::fs::write(&path, file).expect("the file can be written");
    let environment = environment.split(|byte| *byte == b'\n').filter_map(variable).collect();
    let sources = Sources { file: Some(path), environment, flags: Vec::new() };
    match config::load(&sources) {
        Ok(settings) => loaded(&settings),
        Err(fault) => {
            let said = fault.to_string();
            assert!(!said.is_empty());
            // It may be in there as a name, which is no secret.
            let text = String::from_utf8_lossy(data);
            let is_secret = text.contains(SECRET_LINE) && text.matches(SECRET).count() == 1;
            assert!(!is_secret || !said.contains(SECRET), "{said}");
        }
    }
}

/// `NAME=value`. Not those that name a file to read: it could be one without end.
fn variable(line: &[u8]) -> Option<(OsString, OsString)> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (line[..equals].to_vec(), line[equals + 1..].to_vec());
    let is_path = name.to_ascii_lowercase().ends_with(b"_file") && !name.ends_with(b"CA_FILE");
    (!is_path).then(|| (OsString::from_vec(name), OsString::from_vec(value)))
}

/// Settings that were taken keep the rules, can be used, and are the same when they come by the environment alone.
fn loaded(settings: &Settings) {
    assert_eq!(settings.check(), Ok(()));
    let _ = (settings.engine_options(), settings.store_options(), settings.postgres(), settings.warm());
    let _ = (settings.http_limits(), settings.rate_limits());
    let Value::Object(sections) = serde_json::to_value(settings).expect("settings are JSON") else { return };
    let mut environment = Vec::new();
    for (section, values) in &sections {
        for (name, value) in values.as_object().expect("a section") {
            let Some(text) = plain(value) else { return };
            let name = format!("ROWLOCK__{section}__{name}").to_uppercase();
            environment.push((OsString::from(name), OsString::from(text)));
        }
    }
    let again = config::load(&Sources { file: None::<PathBuf>, environment, flags: Vec::new() });
    match again {
        Ok(again) => assert_eq!(&again, settings),
        Err(fault) => panic!("{fault}"),
    }
}

/// A value as a variable has it. `None` for lists that can't be written so.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let items: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            let items = items?;
            let fits = |item: &&str| !item.is_empty() && item.trim() == *item && !item.contains(',');
            items.iter().all(fits).then(|| items.join(","))
        }
        other => Some(other.to_string()),
    }
}
