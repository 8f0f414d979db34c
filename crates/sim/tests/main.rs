//! The model and the simulator, and whether they can fail.

mod model;
mod run;
