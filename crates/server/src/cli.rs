//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use rowlock_core::org::Scope;
use rowlock_core::{EventId, OrgId};

use crate::config::Sources;

/// A seat-hold and reservation engine for event ticketing.
#[derive(Debug, Parser)]
#[command(name = "rowlock", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    Serve(Serve),
    /// Make a token (JWT) for development and print it
    Token(Token),
    /// Work with orgs
    #[command(subcommand)]
    Org(Org),
    /// Check the stored data against the product's promises; exit 1 if any is broken
    Verify(Verify),
    /// Make or update the tables in Postgres, and exit; `serve` does it too
    Migrate(Migrate),
    /// Bring Redis to agree with Postgres, also while servers run
    Reconcile(Reconcile),
    /// Try many nodes on one machine
    #[command(subcommand)]
    Dev(Dev),
    /// Print the OpenAPI description of the HTTP API
    Openapi,
}

/// What every command that works on a data folder takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// The data folder [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Where the truth is: postgres://user@host/database [default: in the data folder]
    #[arg(long, value_name = "URL")]
    pub truth: Option<String>,
    /// A Redis for the warm tier: redis://host:port; may be given several times
    #[arg(long = "redis", value_name = "URL")]
    pub redis: Vec<String>,
    /// What the Redis servers are: single, cluster, sentinel or redlock [default: single]
    #[arg(long, value_name = "MODE")]
    pub redis_mode: Option<String>,
    /// A file with settings; rowlock.default.toml lists all of them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub common: Common,
    /// The address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Make a demo org with three events, and print how to hold two seats unless the log is JSON
    #[arg(long)]
    pub demo: bool,
    /// How log lines look: human or json
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// What is logged, such as info or info,rowlock_api=debug
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
}

#[derive(Debug, Args)]
pub struct Token {
    #[command(flatten)]
    pub common: Common,
    /// The org that the token is for, by its id
    #[arg(long)]
    pub org: OrgId,
    /// The user that the token speaks for
    #[arg(long)]
    pub user: String,
    /// What the token may do; may be given several times [default: read and hold]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<Scope>,
    /// How long the token is good for
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    pub ttl_seconds: u32,
}

#[derive(Debug, Subcommand)]
pub enum Org {
    /// Make an org and its first API key, and print both
    Create(OrgCreate),
}

#[derive(Debug, Args)]
pub struct OrgCreate {
    #[command(flatten)]
    pub common: Common,
    /// The name of the org
    pub name: String,
    /// Let the key create further orgs over HTTP
    #[arg(long)]
    pub operator: bool,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Migrate {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Reconcile {
    #[command(flatten)]
    pub common: Common,
    /// Only this event
    #[arg(long, value_name = "ID")]
    pub event: Option<EventId>,
}

#[derive(Debug, Subcommand)]
pub enum Dev {
    /// Start a private Postgres and Redis and some nodes; Ctrl-C ends all of them
    Up(DevUp),
}

#[derive(Debug, Args)]
pub struct DevUp {
    /// Where the nodes keep their files and logs; Postgres and Redis begin empty each time
    #[arg(long, value_name = "DIR", default_value = "data-dev")]
    pub data: String,
    /// Where the first node listens; the others take the ports after it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: std::net::SocketAddr,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub nodes: u16,
}

impl Common {
    pub fn sources(&self, environment: Vec<(OsString, OsString)>) -> Sources {
        let mut sources = Sources { file: self.config.clone(), environment, flags: Vec::new() };
        sources.flags.extend(self.data.clone().map(|data| ("--data", "server.data", data)));
        sources.flags.extend(self.truth.clone().map(|url| ("--truth", "store.truth", url)));
        let redis = (!self.redis.is_empty()).then(|| self.redis.join(","));
        sources.flags.extend(redis.map(|urls| ("--redis", "redis.urls", urls)));
        sources.flags.extend(self.redis_mode.clone().map(|mode| ("--redis-mode", "redis.mode", mode)));
        sources
    }
}

impl Serve {
    pub fn sources(&self, environment: Vec<(OsString, OsString)>) -> Sources {
        let mut sources = self.common.sources(environment);
        for (flag, key, value) in [
            ("--listen", "server.listen", &self.listen),
            ("--log-format", "server.log_format", &self.log_format),
            ("--log-level", "server.log_level", &self.log_level),
        ] {
            sources.flags.extend(value.clone().map(|value| (flag, key, value)));
        }
        sources
    }
}
