//! Where it is, for whoever waits.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    began: Instant,
    done: Cell<u64>,
    steps: u64,
}

impl Progress {
    /// A bar on a terminal, lines elsewhere.
    pub fn new(steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps);
            let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}");
            bar.set_style(style.expect("the template is right"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, began: Instant::now(), done: Cell::new(0), steps }
    }

    pub fn step(&self, what: String) {
        let done = self.done.replace(self.done.get() + 1);
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(what);
            }
            None => {
                let seconds = self.began.elapsed().as_secs();
                eprintln!("{:>3}:{:02}  {}/{}  {what}", seconds / 60, seconds % 60, done + 1, self.steps);
            }
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
