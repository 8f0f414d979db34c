//! Log lines, for people or for machines. They go to stderr: stdout is for what a command was asked to print.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::Server;

pub fn start(server: &Server) {
    let filter = EnvFilter::new(&server.log_level);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The only way to fail is that somebody in this process was first, such as a test.
    let _ = match server.log_format.as_str() {
        "json" => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
        _ => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
}
