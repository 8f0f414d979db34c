//! What a command prints. A reader that has gone away, such as `head`, is no reason to fail.

use std::fmt::Display;
use std::io::Write;

pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
