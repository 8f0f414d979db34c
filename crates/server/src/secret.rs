//! The secret that tokens are signed with.

use std::path::Path;

use rand::RngCore;

use crate::config::Origins;
use crate::fault::Fault;
use crate::files;
use crate::settings::{MIN_SECRET_BYTES, Settings};

pub const SECRET_FILE: &str = "jwt.secret";

/// The configured secret, or the one in the data folder, which is made when there is none. `None` when tokens are
/// only checked with public keys: then nobody here can sign one.
pub fn signing_secret(settings: &Settings, data: &Path) -> Result<Option<Vec<u8>>, Fault> {
    if !settings.auth.jwt_secret.is_empty() {
        return Ok(Some(settings.auth.jwt_secret.clone().into_bytes()));
    }
    if !settings.auth.jwks_file.is_empty() {
        return Ok(None);
    }
    let path = data.join(SECRET_FILE);
    let fault = |why: String| Fault::new(format!("the token secret {}: {why}", path.display()));
    let text = files::create_or_read(&path, fresh().as_bytes()).map_err(|error| fault(error.to_string()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() < MIN_SECRET_BYTES {
        return Err(fault(format!("it must have at least {MIN_SECRET_BYTES} bytes")));
    }
    Ok(Some(secret.as_bytes().to_vec()))
}

/// The text of the JWKS file, if one is configured.
pub fn public_keys(settings: &Settings, origins: &Origins) -> Result<Option<String>, Fault> {
    let path = &settings.auth.jwks_file;
    if path.is_empty() {
        return Ok(None);
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let rule = format!("names the file {path}, which can't be read: {error}");
            Err(origins.broken("auth.jwks_file", &rule))
        }
    }
}

fn fresh() -> String {
    let mut bytes = [0; MIN_SECRET_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push('\n');
    text
}
