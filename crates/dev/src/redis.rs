//! Private Redis servers.
