//! The API over real HTTP, on a real engine with a temporary SQLite truth. Files mirror the resources.
//!
//! Every answer that any test gets is compared with `openapi.json` by the client in [`support`].

mod admin;
mod auth;
mod bookings;
mod docs;
mod errors;
mod events;
mod health;
mod idempotency;
mod limits;
mod openapi;
mod rates;
mod routes;
mod seats;
mod support;
