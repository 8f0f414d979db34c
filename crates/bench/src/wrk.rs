//! Load from wrk: a closed loop of connections that each wait for their answer.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

/// What wrk saw.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub per_second: f64,
    pub requests: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Answers other than 2xx.
    pub refused: u64,
    /// Connections that failed, and answers that did not come in time.
    pub broken: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub connections: u32,
    pub duration: Duration,
    /// The processor that wrk stays on, if it is to stay on one.
    pub processor: Option<usize>,
}

/// The same script drives every peer, so that building a request costs the same for all of them. It costs little: all but
/// the seat and the cart is put together once, because what the client needs of the processors the server can't have. With
/// several nodes there is a thread for each, with its share of the connections and of the seats.
const SCRIPT: &str = r#"
started = 0
function setup(thread)
  if #nodes > 1 then
    local node = nodes[started + 1]
    thread.addr = wrk.lookup(node[1], node[2])[1]
  end
  thread:set("node", started)
  started = started + 1
end
local first, stride, total, fixed, whole
local n, format = 0, string.format
function init(args)
  local path, token, event, prefix = args[1], args[2], args[3], args[4]
  first, stride, total, fixed = tonumber(args[5]), tonumber(args[6]), tonumber(args[7]), args[8] == "fixed"
  first = first + node * math.floor((tonumber(args[9]) - first) / #nodes)
  local headers = { ["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json" }
  local body = '{"event_id":"' .. event .. '","seat_ids":["' .. prefix .. '<<seat>>"],"cart_token":"c<<cart>>"}'
  whole = wrk.format("POST", path, headers, body):gsub("%%", "%%%%")
  whole = whole:gsub("<<seat>>", "%%08x"):gsub("<<cart>>", "%%08d")
end
function request()
  local ordinal = fixed and 0 or ((first + n) * stride) % total
  n = n + 1
  return format(whole, ordinal, first + n)
end
function done(summary, latency, requests)
  io.write(string.format("RESULT %d %d %f %f %f\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency.max))
end
"#;

/// Where a run takes its seats from.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// `http://host:port` of each node. The load is split evenly between them.
    pub urls: &'a [String],
    pub path: &'a str,
    pub token: &'a str,
    pub event: String,
    pub prefix: String,
    /// The nth seats that are asked for: from this one,
    pub first: u64,
    /// up to this one.
    pub end: u64,
    /// How far the next one is from one.
    pub stride: u64,
    pub total: u64,
    /// Ask for the first seat every time.
    pub fixed: bool,
}

pub fn run(dir: &Path, target: &Target<'_>, load: Load) -> Result<Run, String> {
    let script = dir.join("load.lua");
    let nodes = nodes(target.urls)?;
    std::fs::write(&script, format!("nodes = {nodes}{SCRIPT}")).map_err(|error| error.to_string())?;
    let threads = target.urls.len().to_string();
    let mut command = match load.processor {
        Some(processor) => {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", &processor.to_string(), "wrk"]);
            command
        }
        None => Command::new("wrk"),
    };
    let output = command
        .args(["--threads", &threads, "--connections", &load.connections.to_string()])
        .args(["--duration", &format!("{}s", load.duration.as_secs().max(1)), "--timeout", "10s"])
        .arg("--script")
        .arg(&script)
        .args([&target.urls[0], "--", target.path, target.token, &target.event, &target.prefix])
        .args([target.first.to_string(), target.stride.to_string(), target.total.to_string()])
        .args([if target.fixed { "fixed" } else { "spread" }, &target.end.to_string()])
        .output()
        .map_err(|error| format!("wrk can't be started ({error}); Debian has it in the package wrk"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text).ok_or_else(|| format!("wrk said:\n{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The nodes as a Lua table.
fn nodes(urls: &[String]) -> Result<String, String> {
    let node = |url: &String| {
        let address = url.strip_prefix("http://").and_then(|address| address.rsplit_once(':'));
        let (host, port) = address.ok_or_else(|| format!("{url} is no address for wrk"))?;
        Ok(format!("{{\"{host}\", \"{port}\"}}"))
    };
    let all: Vec<String> = urls.iter().map(node).collect::<Result<_, String>>()?;
    if all.is_empty() {
        Err("there is no node to load".into())
    } else {
        Ok(format!("{{{}}}", all.join(", ")))
    }
}

fn parse(text: &str) -> Option<Run> {
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [requests, micros, p50, p99, max] = numbers[..] else { return None };
    let after = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start));
    let refused = after("Non-2xx or 3xx responses: ").map_or(Some(0), |count| count.trim().parse().ok())?;
    let broken = after("Socket errors: ").map_or(Some(0), |counts| {
        // «connect 0, read 3, write 0, timeout 0»
        counts.split(',').map(|part| part.trim().rsplit(' ').next()?.parse::<u64>().ok()).sum()
    })?;
    Some(Run {
        per_second: requests / (micros / 1e6),
        requests: requests as u64,
        p50_ms: p50 / 1e3,
        p99_ms: p99 / 1e3,
        max_ms: max / 1e3,
        refused,
        broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_prints() {
        let text = "Running 5s test\n  Socket errors: connect 0, read 3, write 1, timeout 2\n  \
                    Non-2xx or 3xx responses: 7\nRESULT 1000 500000 1500.000000 20000.0 30000.0\n";
        let run = parse(text).unwrap();
        assert_eq!((run.requests, run.refused, run.broken), (1000, 7, 6));
        assert_eq!((run.per_second, run.p50_ms, run.p99_ms, run.max_ms), (2000.0, 1.5, 20.0, 30.0));
        let clean = parse("RESULT 10 1000000 1 2 3").unwrap();
        assert_eq!((clean.refused, clean.broken), (0, 0));
        assert!(parse("unable to connect").is_none());
    }

    #[test]
    fn nodes_are_a_table_of_lua() {
        let urls = ["http://127.0.0.1:80".to_owned(), "http://127.0.0.2:81".to_owned()];
        assert_eq!(nodes(&urls).unwrap(), r#"{{"127.0.0.1", "80"}, {"127.0.0.2", "81"}}"#);
        assert!(nodes(&[]).is_err());
    }
}
