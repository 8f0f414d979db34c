//! Where settings come from: defaults < file < environment < flags.
//!
//! Every layer becomes a flat map from a dotted key to a value and its origin. So a setting that does not exist, or
//! has the wrong type, is refused with its name and the place that set it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::fault::Fault;
use crate::settings::Settings;

/// Environment variables of this product begin so. `ROWLOCK__SERVER__LISTEN` is `server.listen`.
pub const PREFIX: &str = "ROWLOCK__";
const FILE_SUFFIX: &str = "_FILE";
/// Settings that can also be read from a file that the environment names: `ROWLOCK__AUTH__JWT_SECRET_FILE`.
const SECRETS: [&str; 4] = ["auth.jwt_secret", "store.truth", "redis.urls", "redis.master"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the defaults"),
            Origin::File(path) => write!(f, "the file {}", path.display()),
            Origin::Variable(name) => write!(f, "the environment variable {name}"),
            Origin::Flag(name) => write!(f, "the flag {name}"),
        }
    }
}

type Flat = BTreeMap<String, (Value, Origin)>;

/// Who set what: for what is found wrong only when it is used.
#[derive(Clone, Debug)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// A setting that can't be used. `rule` goes on behind its name.
    pub fn broken(&self, key: &str, rule: &str) -> Fault {
        broken(key, rule, self.of(key))
    }

    /// What a setting leads to can't be used. `why` is a sentence, and does not repeat a setting that is a secret.
    pub fn unusable(&self, key: &str, why: &dyn fmt::Display) -> Fault {
        Fault::new(format!("{why} (the setting {key} is set by {})", self.of(key)))
    }

    fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::Default)
    }
}

/// What the process was started with.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    pub environment: Vec<(OsString, OsString)>,
    /// The flag, the key it sets, and its text.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// Reads all the layers. The last one that names a setting wins.
pub fn load(sources: &Sources) -> Result<Settings, Fault> {
    load_with_origins(sources).map(|(settings, _)| settings)
}

pub fn load_with_origins(sources: &Sources) -> Result<(Settings, Origins), Fault> {
    let mut flat = defaults();
    if let Some(path) = &sources.file {
        merge_file(&mut flat, path)?;
    }
    merge_environment(&mut flat, &sources.environment)?;
    for (flag, key, text) in &sources.flags {
        set_text(&mut flat, key, text, Origin::Flag(flag))?;
    }
    let settings: Settings = nest(&flat).try_into().map_err(|error: toml::de::Error| {
        Fault::new(format!("the settings are not valid: {}", error.message()))
    })?;
    let origins = Origins(flat.into_iter().map(|(key, (_, origin))| (key, origin)).collect());
    settings.check().map_err(|(key, rule)| origins.broken(key, &rule))?;
    Ok((settings, origins))
}

fn defaults() -> Flat {
    let table = Table::try_from(Settings::default()).expect("the default settings are a table");
    let mut flat = Flat::new();
    flatten("", table, &Origin::Default, &mut flat);
    flat
}

/// The keys of a table of settings and their values, with sections joined by dots.
fn flatten(prefix: &str, table: Table, origin: &Origin, into: &mut Flat) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(section) => flatten(&key, section, origin, into),
            value => {
                into.insert(key, (value, origin.clone()));
            }
        }
    }
}

fn nest(flat: &Flat) -> Table {
    let mut root = Table::new();
    for (key, (value, _)) in flat {
        let (section, name) = key.split_once('.').expect("every setting is in a section");
        let section = root.entry(section).or_insert_with(|| Value::Table(Table::new()));
        section.as_table_mut().expect("a section is a table").insert(name.to_owned(), value.clone());
    }
    root
}

fn merge_file(flat: &mut Flat, path: &Path) -> Result<(), Fault> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Fault::new(format!("the settings file {shown} can't be read: {error}")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        // Not the error as a whole: it quotes the line, and a secret may be in it.
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Fault::new(format!("the settings file {shown} is not valid TOML in line {line}: {}", error.message()))
    })?;
    let origin = Origin::File(path.to_owned());
    // A section without settings has no key that would be found wrong.
    let is_section = |name: &str| flat.keys().any(|key| key.split('.').next() == Some(name));
    let is_empty = |value: &Value| value.as_table().is_some_and(Table::is_empty);
    if let Some((name, _)) = table.iter().find(|(name, value)| is_empty(value) && !is_section(name)) {
        return Err(unknown(name, &origin));
    }
    let mut layer = Flat::new();
    flatten("", table, &origin, &mut layer);
    for (key, (value, origin)) in layer {
        set(flat, &key, value, origin)?;
    }
    Ok(())
}

fn merge_environment(flat: &mut Flat, variables: &[(OsString, OsString)]) -> Result<(), Fault> {
    // Sorted, so that the same environment always gives the same error.
    let mut variables: Vec<(&str, &OsString)> = variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str().filter(|name| name.starts_with(PREFIX))?, value)))
        .collect();
    variables.sort();
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, value) in variables {
        let value = value.to_str();
        let value =
            value.ok_or_else(|| Fault::new(format!("the environment variable {name} is not UTF-8")))?;
        let key = name[PREFIX.len()..].to_lowercase().replace("__", ".");
        let (key, text) = match secret_of(&key) {
            Some(secret) => (secret.to_owned(), read_secret(name, value)?),
            None => (key, value.to_owned()),
        };
        set_text(flat, &key, &text, Origin::Variable(name.to_owned()))?;
        if let Some(other) = seen.insert(key.clone(), name) {
            return Err(Fault::new(format!(
                "{key} is set twice, by {other} and by {name}: keep one of them"
            )));
        }
    }
    Ok(())
}

fn secret_of(key: &str) -> Option<&'static str> {
    let stem = key.strip_suffix(&FILE_SUFFIX.to_lowercase())?;
    SECRETS.into_iter().find(|secret| *secret == stem)
}

fn read_secret(variable: &str, path: &str) -> Result<String, Fault> {
    match std::fs::read_to_string(path) {
        // A secret that did not arrive must not become a server that does without.
        Ok(text) if text.trim().is_empty() => {
            Err(Fault::new(format!("the file {path}, named by {variable}, is empty")))
        }
        Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => {
            Err(Fault::new(format!("the file {path}, named by {variable}, can't be read: {error}")))
        }
    }
}

/// Sets a value from a layer that has types of its own.
fn set(flat: &mut Flat, key: &str, value: Value, origin: Origin) -> Result<(), Fault> {
    let Some(slot) = flat.get_mut(key) else { return Err(unknown(key, &origin)) };
    let fits = match (&slot.0, &value) {
        (Value::Integer(_), Value::Integer(number)) => u32::try_from(*number).is_ok(),
        (Value::Array(_), Value::Array(items)) => items.iter().all(Value::is_str),
        (known, value) => known.same_type(value),
    };
    if !fits {
        return Err(broken(key, wanted(&slot.0), &origin));
    }
    *slot = (value, origin);
    Ok(())
}

/// Sets a value from a layer that has only text. The default says what the text must be.
fn set_text(flat: &mut Flat, key: &str, text: &str, origin: Origin) -> Result<(), Fault> {
    let Some((known, _)) = flat.get(key) else { return Err(unknown(key, &origin)) };
    let value = match known {
        Value::Integer(_) => text.trim().parse().ok().map(Value::Integer),
        Value::Boolean(_) => text.trim().parse().ok().map(Value::Boolean),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        _ => Some(Value::String(text.to_owned())),
    };
    match value {
        Some(value) => set(flat, key, value, origin),
        None => Err(broken(key, wanted(known), &origin)),
    }
}

fn wanted(known: &Value) -> &'static str {
    match known {
        Value::Integer(_) => "must be a whole number, not negative and not huge",
        Value::Boolean(_) => "must be true or false",
        Value::Array(_) => "must be a list of strings",
        _ => "must be a string",
    }
}

fn broken(key: &str, rule: &str, origin: &Origin) -> Fault {
    Fault::new(format!("the setting {key} {rule} (it is set by {origin})"))
}

fn unknown(key: &str, origin: &Origin) -> Fault {
    Fault::new(format!(
        "there is no setting {key} (it is set by {origin}); rowlock.default.toml lists all the settings"
    ))
}
