//! The stores: one suite for all of them, and what is special about each.

mod controls;
mod folder;
mod log;
mod postgres;
mod postgres_behind;
mod postgres_belief;
mod postgres_controls;
mod postgres_gullible;
mod postgres_locked;
mod postgres_plans;
mod postgres_primary;
mod scale;
mod seats;
mod sqlite;
mod support;
mod verify;
