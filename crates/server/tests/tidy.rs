//! Style is a test: the arrows between the crates, the size of files, and documents that don't name what is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Lines in a source file at most.
const MAX_LINES: usize = 600;

/// Each crate, and those of ours that it may use.
const ARROWS: [(&str, &[&str]); 10] = [
    ("core", &[]),
    ("dev", &[]),
    ("json", &[]),
    ("truth", &["core", "json"]),
    ("registry", &["core", "truth"]),
    ("api", &["core", "json", "truth", "registry"]),
    ("server", &["core", "truth", "registry", "api", "dev"]),
    ("bench", &["core", "truth", "registry", "api", "server", "dev"]),
    ("sim", &["core", "truth", "registry", "dev"]),
    ("fuzz", &["core", "truth", "registry", "api", "server"]),
];

/// What only some crates may speak: a dependency, and who may have it.
const SPEAKERS: [(&str, &[&str]); 13] = [
    ("rusqlite", &["truth"]),
    ("tokio-postgres", &["truth", "bench", "sim"]),
    ("redis", &["registry", "bench", "sim"]),
    ("axum", &["api", "server", "bench", "fuzz"]),
    ("hyper", &["server", "bench"]),
    ("hyper-util", &["server", "bench"]),
    ("http", &["api"]),
    ("utoipa", &["api"]),
    ("jsonwebtoken", &["api"]),
    ("governor", &["api"]),
    ("clap", &["server", "bench", "sim"]),
    ("toml", &["server"]),
    ("tracing-subscriber", &["server", "sim"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder, without what is built or hidden.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != "data" && !name.starts_with('.') {
            found.extend(files(&path, ending));
        } else if path.is_file() && name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

fn crate_of(path: &Path) -> String {
    shown(path).split('/').nth(1).unwrap().to_owned()
}

/// Code that ships, as opposed to tests, the benchmark, the simulator and the fuzzers.
fn ships(path: &Path) -> bool {
    let path = shown(path);
    let tries = ["crates/bench/", "crates/sim/", "crates/fuzz/"];
    path.contains("/src/") && !tries.iter().any(|tries| path.starts_with(tries))
}

fn dependencies(name: &str, kind: &str) -> BTreeSet<String> {
    let manifest: Table = read(&root().join("crates").join(name).join("Cargo.toml")).parse().unwrap();
    manifest.get(kind).and_then(Value::as_table).into_iter().flat_map(|table| table.keys().cloned()).collect()
}

#[test]
fn dependencies_point_one_way() {
    let folders: BTreeSet<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    assert_eq!(
        folders,
        known.keys().map(|name| (*name).to_owned()).collect(),
        "name the new crate's place here"
    );
    for (name, may) in ARROWS {
        for used in dependencies(name, "dependencies") {
            let ours = match used.as_str() {
                "rowlock" => "server",
                other => other.strip_prefix("rowlock-").unwrap_or_default(),
            };
            assert!(ours.is_empty() || may.contains(&ours), "crates/{name} must not depend on {used}");
        }
    }
}

#[test]
fn only_the_crates_that_should_speak_a_language_do() {
    for (name, _) in ARROWS {
        for (dependency, may) in SPEAKERS {
            let speaks = dependencies(name, "dependencies").contains(dependency);
            assert!(!speaks || may.contains(&name), "crates/{name} must not depend on {dependency}");
        }
    }
    let core = dependencies("core", "dependencies");
    for outside in ["tokio", "rand", "jiff", "tracing", "metrics", "serde_json"] {
        assert!(!core.contains(outside), "the kernel does no I/O and has no clock, randomness or log");
    }
}

#[test]
fn only_the_warm_tier_speaks_redis() {
    for path in files(&root().join("crates/registry/src"), ".rs") {
        let is_warm = shown(&path).starts_with("crates/registry/src/warm");
        assert!(is_warm || !read(&path).contains("redis::"), "{} speaks Redis", shown(&path));
    }
}

#[test]
fn only_the_server_reads_the_environment() {
    for path in files(&root().join("crates"), ".rs") {
        if ships(&path) && crate_of(&path) != "server" {
            for reads in ["std::env", "env::var", "option_env!"] {
                assert!(!read(&path).contains(reads), "{} reads the environment", shown(&path));
            }
        }
    }
}

#[test]
fn the_kernel_reads_no_clock() {
    for path in files(&root().join("crates/core/src"), ".rs") {
        for clock in ["SystemTime", "Instant", "std::time", "rand::", "std::fs", "std::net"] {
            assert!(!read(&path).contains(clock), "{} has {clock} in it", shown(&path));
        }
    }
}

/// What says which modules a folder has: `main.rs` or `mod.rs` in it. A file that none of them names is not compiled.
fn roof(folder: &Path) -> Option<PathBuf> {
    ["main.rs", "mod.rs"].map(|name| folder.join(name)).into_iter().find(|roof| roof.is_file())
}

/// Nobody would notice that the tests in a file are not run.
#[test]
fn every_file_of_tests_is_compiled() {
    let is_test = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "tests");
    let all: Vec<PathBuf> = files(&root().join("crates"), ".rs").into_iter().filter(is_test).collect();
    assert!(all.len() > 100, "tests have moved: {}", all.len());
    for path in all {
        let (mut folder, mut name) = (path.parent().unwrap(), path.file_stem().unwrap());
        if roof(folder).as_ref() == Some(&path) {
            (folder, name) = (folder.parent().unwrap(), folder.file_name().unwrap());
        }
        let Some(roof) = roof(folder) else {
            // A binary is found by cargo: a file in `tests`, a folder there, or `tests` itself.
            let is_binary = folder.ends_with("tests") || folder.join("tests").is_dir();
            assert!(is_binary, "{} is in a folder that is no module", shown(&path));
            continue;
        };
        let named = format!("mod {};", name.display());
        let has = read(&roof).lines().any(|line| line.trim_start_matches("pub ") == named);
        assert!(has, "{} is not a module of {}", shown(&path), shown(&roof));
    }
}

#[test]
fn files_are_short_and_finished() {
    // Put together here, so that this file does not find itself.
    let unfinished = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["dbg", "!("].concat()];
    for path in files(&root().join("crates"), ".rs") {
        let text = read(&path);
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines: split it", shown(&path));
        for (i, line) in text.lines().enumerate() {
            let place = format!("{}:{}", shown(&path), i + 1);
            let left = unfinished.iter().find(|word| line.contains(word.as_str()));
            assert!(left.is_none(), "{place} is not finished: {left:?}");
        }
    }
}

/// Words in a document that look like a path of this repository.
fn paths_in(text: &str) -> BTreeSet<String> {
    const ROOTS: [&str; 6] = ["crates/", "docs/", "scripts/", ".ci/", ".config/", "rowlock.default.toml"];
    let words = text.split(|c: char| c.is_whitespace() || "`()[]<>|\"',;:*{}".contains(c));
    let trimmed = words.map(|word| word.trim_end_matches(['.', '/']).split('#').next().unwrap_or_default());
    trimmed.filter(|word| ROOTS.iter().any(|root| word.starts_with(root))).map(str::to_owned).collect()
}

#[test]
fn documents_name_only_files_that_exist() {
    let mut documents = files(&root().join("docs"), ".md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        documents.push(root().join(name));
    }
    for document in documents {
        for path in paths_in(&read(&document)) {
            assert!(root().join(&path).exists(), "{} names {path}, which does not exist", shown(&document));
        }
    }
    assert_eq!(paths_in("see `crates/core/src/lib.rs`.").len(), 1);
}
