//! The kernel: every transition, every refusal, and a model that it is compared with.

mod edges;
mod limits;
mod model;
mod support;
mod transitions;
