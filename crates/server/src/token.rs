//! `rowlock token`: a JWT for development, signed with the secret of the data folder.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rowlock_api::credential;
use rowlock_core::UserId;
use rowlock_core::org::{Scope, Scopes};
use rowlock_truth::Truth;

use crate::cli::Token;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::{secret, store};

pub fn run(settings: &Settings, args: &Token) -> Result<ExitCode, Fault> {
    let user = UserId::new(&args.user).map_err(|rule| Fault::new(format!("--user {rule}")))?;
    let scopes: Scopes = match args.scopes.is_empty() {
        true => [Scope::Read, Scope::Hold].into_iter().collect(),
        false => args.scopes.iter().copied().collect(),
    };
    let truth = store::read_only(settings)?;
    let known = store::block_on(truth.org(args.org))?
        .map_err(|failure| Fault::new(format!("the data folder can't be read: {failure}")))?;
    if known.is_none() {
        return Err(Fault::new(format!("there is no org {} in {}", args.org, settings.server.data)));
    }
    let secret = secret::signing_secret(settings, Path::new(&settings.server.data))?.ok_or_else(|| {
        Fault::new(
            "auth.jwks_file is set and auth.jwt_secret is not, so tokens come from your identity provider",
        )
    })?;
    let auth = &settings.auth;
    let ttl = Duration::from_secs(args.ttl_seconds.into());
    let token = credential::sign_token(
        &secret,
        &auth.issuer,
        &auth.audience,
        args.org,
        &user,
        scopes,
        ttl,
        truth.now(),
    );
    say(token);
    Ok(ExitCode::SUCCESS)
}
