//! The whole benchmark, tiny: every section is there, and what it counted adds up.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowlock-bench")).args(arguments).output().expect("the benchmark starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("the report is there")).expect("it is JSON")
}

fn check(report: &Value, folder: &Path) -> Output {
    let file = folder.join("fabricated.json");
    std::fs::write(&file, report.to_string()).unwrap();
    bench(&["check", file.to_str().unwrap()])
}

fn list<'a>(report: &'a Value, name: &str) -> &'a Vec<Value> {
    let found = name.split('.').fold(report, |value, part| &value[part]);
    found.as_array().unwrap_or_else(|| panic!("{name} is missing"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_whole_benchmark_runs_and_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["all", "--tiny", "--out", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let report = read(&folder.path().join("report.json"));
    assert_eq!(report["problems"], json!([]), "{}", said(&output));

    // Postgres and Redis are tools of this repository's tests, so nothing may have been left out.
    assert_eq!(report["skipped"], json!([]));
    for (name, least) in [
        ("throughput.turns", 14),
        ("throughput.rates", 7),
        ("throughput.ratios", 8),
        ("latency", 6),
        ("cost", 4),
        ("sale", 2),
        ("one_seat", 4),
        ("area", 2),
        ("checkout", 2),
        ("maps", 2),
        ("growth.seats", 2),
        ("growth.events", 2),
        ("growth.holds", 2),
        ("growth.nodes", 2),
        ("goals", 13),
    ] {
        assert_eq!(list(&report, name).len(), least, "{name}");
    }
    for latency in list(&report, "latency") {
        let percents: Vec<u64> =
            list(latency, "points").iter().map(|point| number(&point["percent"])).collect();
        assert_eq!(percents, [25, 50, 75, 90]);
    }
    for sale in list(&report, "sale") {
        let of = |name: &str| number(&sale["occupancy"][name]);
        assert_eq!(of("sold") + of("available"), of("total"), "{sale}");
        assert_eq!((of("sold"), of("total")), (number(&sale["sold"]), number(&sale["seats"])));
        assert!(of("sold") > 0 && number(&sale["conflicts"]) > 0, "nobody wanted the same seat: {sale}");
    }
    for crowd in list(&report, "one_seat") {
        assert!(list(crowd, "winners").iter().all(|winners| *winners == 1), "{crowd}");
    }
    for area in list(&report, "area") {
        assert_eq!(area["places_answered"], area["large"]["held"]);
        assert_eq!((number(&area["winners"]), number(&area["small"]["held"])), (20, 20));
    }
    for with in list(&report, "growth.holds") {
        for step in list(with, "operations") {
            assert!(number(&step["requests"]) > 0, "{step}");
        }
        assert_eq!(list(with, "operations").len(), 11);
    }
    for checkout in list(&report, "checkout") {
        assert_eq!(checkout["occupancy"]["sold"], checkout["holds"]);
    }

    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("Flash sale") && html.ends_with("</html>\n"));

    // A fabricated report that reaches everything passes, and one that is short in one figure does not.
    let mut good = report;
    reach(&mut good);
    let checked = check(&good, folder.path());
    assert!(checked.status.success() && !said(&checked).contains("CAN'T TELL"), "{}", said(&checked));
    let mut short = good.clone();
    short["throughput"]["ratios"][0]["spread"]["median"] = json!(0.59);
    assert_eq!(check(&short, folder.path()).status.code(), Some(1));
    let mut fewer = good.clone();
    fewer["growth"]["holds"][1]["count"] = json!(100_000);
    let checked = check(&fewer, folder.path());
    assert!(
        checked.status.success() && said(&checked).contains("CAN'T TELL: 1,000,000"),
        "{}",
        said(&checked)
    );
    let mut unsound = good;
    unsound["problems"] = json!(["a seat was sold twice"]);
    assert_eq!(check(&unsound, folder.path()).status.code(), Some(1));
}

/// What the workloads say of servers whose stores are looked for elsewhere, as if they had acknowledged without writing.
fn problems_of_the_forgetful(arguments: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let all = [&["all", "--tiny", "--forget", "--out", folder.path().to_str().unwrap()], arguments].concat();
    let output = bench(&all);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report = read(&folder.path().join("report.json"));
    let problems = list(&report, "problems").iter().map(|problem| problem.as_str().unwrap().to_owned());
    problems.filter(|problem| problem.contains("stored")).collect()
}

#[test]
fn every_workload_notices_that_nothing_is_stored() {
    let problems = problems_of_the_forgetful(&["--embedded"]);
    for workload in [
        "round 1",
        "round 2",
        "latency",
        "cost",
        "flash sale",
        "one seat",
        "an area",
        "checkout",
        "maps",
        "growing seats",
        "growing events",
        "growing active holds",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(workload)), "{workload}: {problems:#?}");
    }
}

#[test]
fn every_peer_is_seen_to_store_nothing() {
    let problems = problems_of_the_forgetful(&["--only", "one-seat"]);
    let peers =
        ["Rowlock embedded", "Rowlock, Postgres + Redis", "SET NX + transaction", "SELECT … FOR UPDATE"];
    for peer in peers {
        let noticed = format!("one seat, {peer}: 3 holds were answered, and 0 holds are stored");
        assert!(problems.contains(&noticed), "{noticed}: {problems:#?}");
    }
}

/// Puts what was measured where the goals are, and makes it as much as they are about.
fn reach(report: &mut Value) {
    for crowd in report["one_seat"].as_array_mut().unwrap() {
        crowd["users"] = json!(1_000);
    }
    report["growth"]["holds"][1]["count"] = json!(1_000_000);
    for ratio in report["throughput"]["ratios"].as_array_mut().unwrap() {
        ratio["spread"]["median"] = json!(7.0);
    }
    for latency in report["latency"].as_array_mut().unwrap() {
        for point in latency["points"].as_array_mut().unwrap() {
            point["p99_ms"] = json!(1.0);
        }
    }
    for maps in report["maps"].as_array_mut().unwrap() {
        (maps["first_answer_ms"], maps["bytes_a_seat"]) = (json!(1.0), json!(50.0));
        maps["seats"] = json!(100_000);
        for read in maps["reads"].as_array_mut().unwrap() {
            (read["p50_ms"], read["p99_ms"]) = (json!(1.0), json!(2.0));
        }
    }
    for with in report["growth"]["holds"].as_array_mut().unwrap() {
        for operation in with["operations"].as_array_mut().unwrap() {
            operation["p50_ms"] = json!(1.0);
        }
    }
}
