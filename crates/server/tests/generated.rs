//! Generated requests at every route of a running server, by schemathesis.

use std::path::Path;
use std::process::Command;

/// No answer that the OpenAPI document does not know, no 500, no panic, and books that agree afterwards.
#[test]
fn no_generated_request_is_answered_wrongly() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/schemathesis.sh");
    let output = Command::new(script).arg(env!("CARGO_BIN_EXE_rowlock")).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "it exited with {}, and says why above", output.status);
}
