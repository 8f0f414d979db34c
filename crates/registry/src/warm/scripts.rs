//! The scripts, and the commands that call them.

use std::sync::LazyLock;

use redis::{Cmd, Script, cmd};

pub(super) struct Named {
    text: &'static str,
    hash: String,
}

fn named(text: &'static str) -> Named {
    Named { text, hash: Script::new(text).get_hash().to_owned() }
}

pub(super) static CLAIM: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/claim.lua")));
pub(super) static RELEASE: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/release.lua")));
pub(super) static HEAL: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/heal.lua")));
pub(super) static RESTORE: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/restore.lua")));
pub(super) static APPLY: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/apply.lua")));
pub(super) static FINISH: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/finish.lua")));
pub(super) static FORGET: LazyLock<Named> = LazyLock::new(|| named(include_str!("scripts/forget.lua")));

impl Named {
    /// The beginning of a call: the keys follow, then the arguments.
    pub fn call(&self, keys: usize) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(&self.hash).arg(keys);
        call
    }
}

/// Commands that load all of them. A server that does not know one, after a restart or a failover, knows none.
pub(super) fn load_all() -> Vec<Cmd> {
    let all: [&Named; 7] = [&CLAIM, &RELEASE, &HEAL, &RESTORE, &APPLY, &FINISH, &FORGET];
    let load = |script: &&Named| cmd("SCRIPT").arg("LOAD").arg(script.text).to_owned();
    all.iter().map(load).collect()
}
