//! The commands, as a person at a terminal meets them.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Client, Server, create_org, run, stderr, stdout, text};

#[tokio::test]
async fn an_empty_folder_says_how_to_begin_and_the_first_org_works() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data, &[]);
    assert!(server.printed().contains("rowlock org create"), "{}", server.printed());
    assert!(server.printed().contains(&format!("{}/docs", server.url)));
    assert!(server.terminate().success());

    let (_, key) = create_org(&data, &[]);
    let mut server = Server::start(&data, &[]);
    assert!(!server.printed().contains("org create"), "there is an org now");
    let client = Client::new(&server.url, &key);
    let unknown = "/api/events/00000000-0000-7000-8000-000000000000";
    assert_eq!(client.get("anna", unknown).await.unwrap().0, 404, "the key is let in");
    let stranger = Client::new(&server.url, &key.replace(char::is_alphanumeric, "x"));
    assert_eq!(stranger.get("anna", unknown).await.unwrap().0, 401);
}

#[test]
fn org_create_gives_operator_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["org", "create", "--data", text(folder.path()), "Opera"]);
    assert!(stdout(&output).contains("admin") && !stdout(&output).contains("operator"));
    let output = run(&["org", "create", "--data", text(folder.path()), "Opera", "--operator"]);
    assert!(stdout(&output).contains("operator"));
}

#[test]
fn org_create_refuses_the_names_that_the_api_refuses() {
    let folder = tempfile::tempdir().unwrap();
    for (name, why) in [(" ", "must not be empty"), (" Opera", "must not begin with white space")] {
        let output = run(&["org", "create", "--data", text(folder.path()), name]);
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_folder_that_a_server_has_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(folder.path());
    let _server = Server::start(folder.path(), &[]);
    let output = run(&["org", "create", "--data", data, "Opera"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("POST /api/admin/orgs"), "{}", stderr(&output));
    let output = run(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("in use"), "{}", stderr(&output));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(one.path(), &[]);
    let address = server.url.strip_prefix("http://").unwrap();
    let output = run(&["serve", "--data", text(two.path()), "--listen", address]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(address) && stderr(&output).contains("--listen"), "{}", stderr(&output));
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = file.join("data");
    let output = run(&["serve", "--data", text(&inside), "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(text(&inside)), "{}", stderr(&output));
}

#[test]
fn settings_come_from_the_environment_and_errors_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::support::rowlock();
    command.args(["serve", "--data", text(folder.path())]).env("ROWLOCK__SERVER__LISTEN", "127.0.0.1:0");
    let server = Server::spawn(&mut command);
    assert!(!server.url.ends_with(":8080") && !server.url.ends_with(":0"), "{}", server.url);
    let output =
        crate::support::rowlock().arg("openapi").env("ROWLOCK__SERVER__LISSTEN", "x").output().unwrap();
    assert!(output.status.success(), "a command without settings does not read them");
    let output = crate::support::rowlock()
        .args(["verify", "--data", text(folder.path())])
        .env("ROWLOCK__SERVER__LISSTEN", "x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("ROWLOCK__SERVER__LISSTEN"), "{}", stderr(&output));
}

/// These are found out by whoever uses them, long after all settings were read.
#[test]
fn settings_that_prove_wrong_in_use_are_named_with_their_origin() {
    let folder = tempfile::tempdir().unwrap();
    let no_keys = folder.path().join("no-keys");
    std::fs::write(&no_keys, "some text").unwrap();
    let absent = folder.path().join("absent");
    let refused = |variable: &str, value: &str, setting: &str, why: &str| {
        let mut command = crate::support::rowlock();
        command.args(["serve", "--data", text(&folder.path().join("data"))]);
        match variable {
            "--listen" => command.args([variable, value]),
            _ => command.args(["--listen", "127.0.0.1:0"]).env(variable, value),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}={value}");
        for word in [variable, setting, why, "it is set by"] {
            assert!(stderr(&output).contains(word), "«{word}» is not in: {}", stderr(&output));
        }
    };
    refused("ROWLOCK__AUTH__JWKS_FILE", text(&no_keys), "auth.jwks_file", "must be a JWKS in JSON");
    refused("ROWLOCK__AUTH__JWKS_FILE", text(&absent), "auth.jwks_file", "can't be read");
    refused("ROWLOCK__HTTP__TRUSTED_PROXIES", "foo", "http.trusted_proxies", "«foo»");
    refused("ROWLOCK__AUTH__ISSUER", " ", "auth.issuer", "must not be empty");
    refused("--listen", "nonsense", "server.listen", "an address with a port");
}

/// Whoever named the database is told, and nobody is told its password.
#[test]
fn a_postgres_that_cant_be_used_is_named_with_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = "postgres://anna:tulips@127.0.0.1:1/tickets";
    let refused = |arguments: &[&str], (variable, value): (&str, &str), setting: &str, why: &str| {
        let mut command = crate::support::rowlock();
        command.args(arguments).args(["--data", text(folder.path())]);
        let output = command.env(variable, value).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.contains(setting), "{said}");
        assert!(!said.contains("tulips"), "{said}");
    };
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["verify"],
        &["migrate"],
        &["org", "create", "Opera"],
        &["token", "--org", "00000000-0000-7000-8000-000000000000", "--user", "anna"],
    ] {
        let truth = ("ROWLOCK__STORE__TRUTH", nobody);
        let origin = "store.truth is set by the environment variable ROWLOCK__STORE__TRUTH";
        refused(arguments, truth, origin, "Postgres can't be reached");
        let certificate = ("ROWLOCK__STORE__CA_FILE", "absent.pem");
        let origin = "store.ca_file is set by the environment variable ROWLOCK__STORE__CA_FILE";
        refused(&[arguments, &["--truth", nobody]].concat(), certificate, origin, "absent.pem can't be used");
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_org_and_user() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(folder.path());
    let (org, _) = create_org(folder.path(), &[]);
    let token = |more: &[&str]| run(&[&["token", "--data", data], more].concat());

    let output = token(&["--org", &org, "--user", "anna"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mode = std::fs::metadata(folder.path().join("jwt.secret")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the secret is private");
    assert!(stderr(&output).contains("is new"), "{}", stderr(&output));

    let server = Server::start(folder.path(), &[]);
    let good = stdout(&output).trim().to_owned();
    let event = "/api/events/00000000-0000-7000-8000-000000000000";
    let status = async |credential: &str| {
        let request = reqwest::Client::new().get(format!("{}{event}", server.url)).bearer_auth(credential);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(&good).await, 404, "let in, and there is no such event");
    assert_eq!(status(&format!("{good}x")).await, 401);
    // While the server runs, too.
    let no_read = token(&["--org", &org, "--user", "anna", "--scope", "keys", "--ttl-seconds", "60"]);
    assert_eq!(status(stdout(&no_read).trim()).await, 403, "the scope read is missing");
    assert_eq!(stderr(&no_read), "", "it has the server's secret");
    for file in ["rowlock.sqlite", "rowlock.sqlite-wal", "rowlock.sqlite-shm"] {
        let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file} is private");
    }

    for (wrong, why) in [
        (vec!["--org", "00000000-0000-7000-8000-000000000000", "--user", "anna"], "no org"),
        (vec!["--org", "opera", "--user", "anna"], "UUID"),
        (vec!["--org", &org, "--user", ""], "--user"),
        (vec!["--org", &org, "--user", " anna"], "must not begin with white space"),
        (vec!["--org", &org, "--user", "anna", "--scope", "act_as"], "API keys only"),
        (vec!["--org", &org, "--user", "anna", "--scope", "everything"], "must be one of"),
        (vec!["--org", &org, "--user", "anna", "--ttl-seconds", "0"], "ttl"),
    ] {
        let output = token(&wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(why), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn openapi_prints_json_that_describes_the_paths() {
    let output = run(&["openapi"]);
    assert!(output.status.success());
    let description: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(description["paths"]["/api/bookings/hold-seats"]["post"].is_object());
}

#[test]
fn json_logs_are_json_and_keep_the_demo_s_secrets_out() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(folder.path());
    let arguments = ["serve", "--demo", "--data", data, "--listen", "127.0.0.1:0", "--log-format", "json"];
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut child = crate::support::rowlock().args(arguments).stderr(log).spawn().unwrap();
    let read = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    for _ in 0..600 {
        if read().contains("listening") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let demo = crate::support::demo(folder.path());
    assert!(read().contains(demo["url"].as_str().unwrap()), "{}", read());
    for line in read().lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a log line is JSON");
        assert!(line["level"].is_string() && line["timestamp"].is_string());
    }
    for secret in ["admin_key", "buyer_token"] {
        assert!(!read().contains(demo[secret].as_str().unwrap()), "{secret} is in the log");
    }
}
