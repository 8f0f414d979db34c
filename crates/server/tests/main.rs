//! The program itself, as a process.

mod cli;
mod config;
mod crash;
mod demo;
mod dev_up;
mod disk;
mod generated;
mod nodes;
mod shutdown;
mod slow_clients;
mod support;
mod tidy;
mod torture;
mod verify;
