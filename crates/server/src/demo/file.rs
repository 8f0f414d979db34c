//! `demo.json`: what a script needs to talk to the demo.

use std::io::ErrorKind;
use std::path::Path;

use rowlock_core::{AreaId, EventId, OrgId};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::files;

pub const FILE: &str = "demo.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demo {
    pub url: String,
    pub org_id: OrgId,
    pub admin_key: String,
    pub buyer_token: String,
    pub events: Vec<DemoEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoEvent {
    pub id: EventId,
    pub name: String,
    pub seats: u32,
    pub areas: Vec<DemoArea>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoArea {
    pub id: AreaId,
    pub name: String,
    pub capacity: u32,
}

/// The demo of a data folder. `None`: there is none, or it was not finished.
pub fn read(data: &Path) -> Result<Option<Demo>, Fault> {
    let path = data.join(FILE);
    let shown = path.display();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Fault::new(format!("{shown} can't be read: {error}"))),
    };
    let demo = serde_json::from_str(&text);
    demo.map(Some).map_err(|error| {
        Fault::new(format!("{shown} is damaged ({error}): remove it, and the next start makes a new key"))
    })
}

pub fn write(data: &Path, demo: &Demo) -> Result<(), Fault> {
    let path = data.join(FILE);
    let mut text = serde_json::to_string_pretty(demo).expect("the demo can be written as JSON");
    text.push('\n');
    files::replace(&path, text.as_bytes())
        .map_err(|error| Fault::new(format!("{} can't be written: {error}", path.display())))
}
