//! Settings: where they come from and what is said when they are wrong.

use std::path::{Path, PathBuf};

use rowlock::config::{Sources, load};
use rowlock::settings::Settings;
use tempfile::TempDir;
use toml::Table;

fn default_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rowlock.default.toml")
}

struct Case {
    folder: TempDir,
    sources: Sources,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), sources: Sources::default() }
    }

    fn file(mut self, text: &str) -> Self {
        let path = self.folder.path().join("own.toml");
        std::fs::write(&path, text).unwrap();
        self.sources.file = Some(path);
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((name.into(), value.into()));
        self
    }

    fn flag(mut self, flag: &'static str, key: &'static str, value: &str) -> Self {
        self.sources.flags.push((flag, key, value.to_owned()));
        self
    }

    fn settings(&self) -> Settings {
        load(&self.sources).unwrap()
    }

    fn error(&self) -> String {
        load(&self.sources).unwrap_err().to_string()
    }
}

#[test]
fn the_default_file_and_the_code_say_the_same() {
    let file: Table = std::fs::read_to_string(default_file()).unwrap().parse().unwrap();
    let code = Table::try_from(Settings::default()).unwrap();
    assert_eq!(file, code);
}

#[test]
fn the_default_file_explains_every_setting() {
    let text = std::fs::read_to_string(default_file()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].contains(" = ")) {
        // Two that belong together share a comment: then the line above is the other setting.
        let explained = pair[0].starts_with('#') || pair[0].contains(" = ");
        assert!(explained || pair[1].starts_with('#'), "no comment above: {}", pair[1]);
    }
}

#[test]
fn the_default_file_can_be_used_as_it_is() {
    let sources = Sources { file: Some(default_file()), ..Sources::default() };
    assert_eq!(load(&sources).unwrap(), Settings::default());
    assert_eq!(load(&Sources::default()).unwrap(), Settings::default());
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_defaults() {
    let case = Case::new().file("[server]\nlisten = \"file:1\"\ndata = \"file\"\ndrain_seconds = 7\n");
    let settings = case.settings();
    assert_eq!((settings.server.listen.as_str(), settings.server.drain_seconds), ("file:1", 7));
    assert_eq!(settings.server.log_level, "info", "what no layer names keeps its default");

    let case =
        case.variable("ROWLOCK__SERVER__LISTEN", "environment:1").variable("ROWLOCK__SERVER__DATA", "e");
    let settings = case.settings();
    assert_eq!((settings.server.listen.as_str(), settings.server.data.as_str()), ("environment:1", "e"));
    assert_eq!(settings.server.drain_seconds, 7);

    let case = case.flag("--listen", "server.listen", "flag:1");
    let settings = case.settings();
    assert_eq!((settings.server.listen.as_str(), settings.server.data.as_str()), ("flag:1", "e"));
}

#[test]
fn the_environment_can_set_numbers_and_lists() {
    let case = Case::new()
        .variable("ROWLOCK__STORE__READERS", "5")
        .variable("ROWLOCK__HTTP__TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1")
        .variable("SOMETHING_ELSE", "ignored");
    let settings = case.settings();
    assert_eq!(settings.store.readers, 5);
    assert_eq!(settings.http.trusted_proxies, ["10.0.0.0/8", "192.0.2.1"]);
}

/// The words that an error must contain: the setting and who set it.
#[track_caller]
fn assert_names(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "«{word}» is not in: {error}");
    }
}

#[test]
fn an_unknown_setting_is_named_with_its_origin() {
    assert_names(&Case::new().file("[server]\nlissten = \"x\"").error(), &["server.lissten", "own.toml"]);
    assert_names(&Case::new().file("listen = \"x\"").error(), &["setting listen ", "own.toml"]);
    assert_names(&Case::new().file("[srv]\nlisten = \"x\"").error(), &["srv.listen", "own.toml"]);
    let case = Case::new().variable("ROWLOCK__SERVER__LISSTEN", "x");
    assert_names(&case.error(), &["server.lissten", "ROWLOCK__SERVER__LISSTEN"]);
}

#[test]
fn a_wrong_type_is_named_with_its_origin() {
    for (text, key) in [
        ("[server]\nlisten = 8080", "server.listen"),
        ("[server]\ndrain_seconds = \"ten\"", "server.drain_seconds"),
        ("[server]\ndrain_seconds = 1.5", "server.drain_seconds"),
        ("[server]\ndrain_seconds = -1", "server.drain_seconds"),
        ("[server]\ndrain_seconds = 99999999999", "server.drain_seconds"),
        ("[http]\ntrusted_proxies = \"10.0.0.1\"", "http.trusted_proxies"),
        ("[http]\ntrusted_proxies = [1]", "http.trusted_proxies"),
    ] {
        assert_names(&Case::new().file(text).error(), &[key, "must be", "own.toml"]);
    }
    for wrong in ["ten", "-1", "", "99999999999"] {
        let case = Case::new().variable("ROWLOCK__SERVER__DRAIN_SECONDS", wrong);
        assert_names(&case.error(), &["server.drain_seconds", "must be", "ROWLOCK__SERVER__DRAIN_SECONDS"]);
    }
}

#[test]
fn a_value_out_of_range_is_named_with_its_origin() {
    for (key, value) in [
        ("store.readers", "0"),
        ("engine.lane_capacity", "0"),
        ("http.json_depth", "100000"),
        ("server.log_format", "xml"),
        ("server.log_level", "=loud="),
        ("server.log_level", "warning"),
        ("server.log_level", "info,verbose"),
        ("server.listen", ""),
        ("auth.issuer", " "),
        ("auth.jwt_secret", "too short"),
    ] {
        let variable = format!("ROWLOCK__{}", key.to_uppercase().replace('.', "__"));
        assert_names(&Case::new().variable(&variable, value).error(), &[key, "must", &variable]);
    }
    let case = Case::new().flag("--listen", "server.listen", "");
    assert_names(&case.error(), &["server.listen", "the flag --listen"]);
}

#[test]
fn a_file_that_is_missing_or_not_toml_is_named() {
    let mut case = Case::new();
    case.sources.file = Some(case.folder.path().join("absent.toml"));
    assert_names(&case.error(), &["absent.toml", "can't be read"]);
    assert_names(&Case::new().file("[server").error(), &["own.toml", "not valid TOML"]);
}

#[test]
fn the_secret_can_come_from_a_file() {
    let secret = "0123456789abcdef0123456789abcdef";
    let case = Case::new();
    let path = case.folder.path().join("secret");
    std::fs::write(&path, format!("{secret}\n")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    let case = case.variable("ROWLOCK__AUTH__JWT_SECRET_FILE", &path);
    assert_eq!(case.settings().auth.jwt_secret, secret, "without the line's end");

    let case = case.variable("ROWLOCK__AUTH__JWT_SECRET", secret);
    assert_names(&case.error(), &["ROWLOCK__AUTH__JWT_SECRET", "ROWLOCK__AUTH__JWT_SECRET_FILE"]);

    let case = Case::new().variable("ROWLOCK__AUTH__JWT_SECRET_FILE", "/does/not/exist");
    assert_names(&case.error(), &["/does/not/exist", "ROWLOCK__AUTH__JWT_SECRET_FILE"]);

    // Else a server that was to use Postgres would start with a store of its own.
    for empty in ["", "\n"] {
        let case = Case::new();
        let path = case.folder.path().join("empty");
        std::fs::write(&path, empty).unwrap();
        let case = case.variable("ROWLOCK__STORE__TRUTH_FILE", path.to_str().unwrap());
        assert_names(&case.error(), &[path.to_str().unwrap(), "ROWLOCK__STORE__TRUTH_FILE", "empty"]);
    }
}

#[test]
fn an_error_never_shows_the_secret() {
    let case = Case::new().variable("ROWLOCK__AUTH__JWT_SECRET", "hunter2");
    assert!(!case.error().contains("hunter2"));
}

#[test]
fn a_section_that_does_not_exist_is_told_even_when_it_is_empty() {
    let error = Case::new().file("[sevrer]\n").error();
    assert!(error.contains("there is no setting sevrer"), "{error}");
}

#[test]
fn a_mode_of_redis_needs_a_redis() {
    for mode in ["cluster", "redlock", "sentinel"] {
        let error = Case::new().flag("--redis-mode", "redis.mode", mode).error();
        assert!(error.contains("redis.urls"), "{mode}: {error}");
    }
    let twice = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:1";
    let case = Case::new().variable("ROWLOCK__STORE__TRUTH", "postgres://localhost/x");
    let case = case.variable("ROWLOCK__REDIS__URLS", twice).flag("--redis-mode", "redis.mode", "redlock");
    assert!(case.error().contains("must be different servers"), "{}", case.error());
}
