//! Load from wrk: a closed loop of connections that each wait for their answer.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What wrk saw.
#[derive(Clone, Debug)]
pub struct Run {
    pub per_second: f64,
    pub requests: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Answers other than 2xx.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub connections: u32,
    pub duration: Duration,
}

/// The same script drives every peer, so that building a request costs the same for all of them.
const SCRIPT: &str = r#"
function init(args)
  path, token, event, prefix = args[1], args[2], args[3], args[4]
  first, stride, total, fixed = tonumber(args[5]), tonumber(args[6]), tonumber(args[7]), args[8] == "fixed"
  n = 0
  headers = { ["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json" }
end
function request()
  local ordinal = ((first + n) * stride) % total
  if fixed then ordinal = 0 end
  n = n + 1
  local body = string.format('{"event_id":"%s","seat_ids":["%s%08x"],"cart_token":"c%d"}',
    event, prefix, ordinal, first + n)
  return wrk.format("POST", path, headers, body)
end
function done(summary, latency, requests)
  io.write(string.format("RESULT %d %d %f %f %f\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency.max))
end
"#;

/// Where a run takes its seats from.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    pub url: &'a str,
    pub path: &'a str,
    pub token: &'a str,
    pub event: String,
    pub prefix: String,
    pub first: u64,
    pub stride: u64,
    pub total: u64,
    /// Ask for the first seat every time.
    pub fixed: bool,
}

pub fn run(dir: &Path, target: &Target<'_>, load: Load) -> Result<Run, String> {
    let script = dir.join("load.lua");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", &load.connections.to_string()])
        .args(["--duration", &format!("{}s", load.duration.as_secs().max(1)), "--timeout", "10s"])
        .arg("--script")
        .arg(&script)
        .args([target.url, "--", target.path, target.token, &target.event, &target.prefix])
        .args([target.first.to_string(), target.stride.to_string(), target.total.to_string()])
        .arg(if target.fixed { "fixed" } else { "spread" })
        .output()
        .map_err(|error| format!("wrk can't be started ({error}); Debian has it in the package wrk"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text).ok_or_else(|| format!("wrk said:\n{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn parse(text: &str) -> Option<Run> {
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [requests, micros, p50, p99, max] = numbers[..] else { return None };
    let refused = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "))
        .map_or(Some(0), |count| count.trim().parse().ok())?;
    let socket_errors = text.lines().any(|line| line.trim().starts_with("Socket errors:"));
    if socket_errors {
        return None;
    }
    Some(Run {
        per_second: requests / (micros / 1e6),
        requests: requests as u64,
        p50_ms: p50 / 1e3,
        p99_ms: p99 / 1e3,
        max_ms: max / 1e3,
        refused,
    })
}
