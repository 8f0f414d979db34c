//! `rowlock token`: a JWT for development, signed with the secret of the data folder.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rowlock_api::{FromText, credential};
use rowlock_core::UserId;
use rowlock_core::org::{Scope, Scopes};

use crate::cli::Token;
use crate::config::Origins;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::{secret, store};

pub fn run(settings: &Settings, origins: &Origins, args: &Token) -> Result<ExitCode, Fault> {
    let user = UserId::read(&args.user).map_err(|rule| Fault::new(format!("--user {rule}")))?;
    if args.scopes.contains(&Scope::ActAs) {
        return Err(Fault::new("--scope act_as is for API keys only: a token speaks for the user in it"));
    }
    let scopes: Scopes = match args.scopes.is_empty() {
        true => [Scope::Read, Scope::Hold].into_iter().collect(),
        false => args.scopes.iter().copied().collect(),
    };
    let (known, now) = store::block_on(async {
        let truth = store::existing(settings, origins).await?;
        Ok((truth.org(args.org).await, truth.now()))
    })??;
    let known = known.map_err(|failure| Fault::new(format!("the store can't be read: {failure}")))?;
    if known.is_none() {
        return Err(Fault::new(format!("there is no org {} in {}", args.org, store::name(settings))));
    }
    let data = Path::new(&settings.server.data);
    let is_made = settings.auth.jwt_secret.is_empty() && !data.join(secret::SECRET_FILE).exists();
    let secret = secret::signing_secret(settings, data)?.ok_or_else(|| {
        Fault::new(
            "auth.jwks_file is set and auth.jwt_secret is not, so tokens come from your identity provider",
        )
    })?;
    if is_made {
        eprintln!(
            "warning: {} is new. A server that runs already, or has auth.jwt_secret set, has another secret and refuses this token",
            data.join(secret::SECRET_FILE).display()
        );
    }
    let auth = &settings.auth;
    let ttl = Duration::from_secs(args.ttl_seconds.into());
    let token =
        credential::sign_token(&secret, &auth.issuer, &auth.audience, args.org, &user, scopes, ttl, now);
    say(token);
    Ok(ExitCode::SUCCESS)
}
