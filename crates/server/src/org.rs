//! `rowlock org create`: the first org of an installation, which nobody has a credential for yet.

use std::process::ExitCode;
use std::sync::Arc;

use rowlock_api::{FromText, credential};
use rowlock_core::org::{ApiKey, Org, Scope, Scopes};
use rowlock_core::{Actor, Command, Name, OrgId, Outcome, Request};
use rowlock_registry::{Engine, Failure};

use crate::cli::OrgCreate;
use crate::config::Origins;
use crate::fault::Fault;
use crate::output::say;
use crate::settings::Settings;
use crate::store;

/// What the journal shows for commands that come from the command line.
const REQUEST_ID: &str = "command-line";
const IN_USE: &str =
    "If that is a running server, ask it: POST /api/admin/orgs with a key that has the scope operator";

pub fn create(settings: &Settings, origins: &Origins, args: &OrgCreate) -> Result<ExitCode, Fault> {
    let name = Name::read(&args.name).map_err(|rule| Fault::new(format!("the name of the org {rule}")))?;
    let (org, key, text) = store::block_on(async {
        let truth = store::open(settings, origins, IN_USE).await?;
        let engine = store::engine(settings, origins, truth).await?;
        let made = create_with_key(&engine, name, args.operator).await;
        engine.stop().await;
        made.map_err(|failure| Fault::new(format!("the org can't be made: {failure}")))
    })??;
    let scopes: Vec<&str> = key.scopes.iter().map(Scope::as_str).collect();
    say(format!("org      {} ({})", org.id, org.name));
    say(format!("api key  {text}"));
    say(format!("scopes   {}", scopes.join(", ")));
    say("\nKeep the key: it is not shown again. It goes into the header  Authorization: Bearer <api key>");
    Ok(ExitCode::SUCCESS)
}

async fn create_with_key(
    engine: &Engine,
    name: Name,
    operator: bool,
) -> Result<(Org, ApiKey, String), Failure> {
    let org = create_org(engine, name).await?;
    let scopes = Scope::ALL.into_iter().filter(|scope| operator || *scope != Scope::Operator).collect();
    let (key, text) = create_key(engine, org.id, "first key", scopes).await?;
    Ok((org, key, text))
}

/// Makes an org that belongs to nobody yet.
pub(crate) async fn create_org(engine: &Engine, name: Name) -> Result<Org, Failure> {
    let nobody = OrgId::from_uuid(uuid::Uuid::nil());
    match execute(engine, nobody, Command::CreateOrg { name }).await? {
        Outcome::Org(org) => Ok(org),
        other => unreachable!("a new org is answered with {other:?}"),
    }
}

/// Makes a key and returns it with the text that a client sends. Only its hash is stored.
pub(crate) async fn create_key(
    engine: &Engine,
    org: OrgId,
    name: &str,
    scopes: Scopes,
) -> Result<(ApiKey, String), Failure> {
    let (secret, secret_hash) = credential::new_secret();
    let name = Name::new(name).expect("the name of a built-in key is valid");
    match execute(engine, org, Command::CreateApiKey { name, scopes, secret_hash }).await? {
        Outcome::ApiKey(key) => {
            let text = credential::key_text(key.id, &secret);
            Ok((*key, text))
        }
        other => unreachable!("a new key is answered with {other:?}"),
    }
}

pub(crate) async fn execute(engine: &Engine, org: OrgId, command: Command) -> Result<Outcome, Failure> {
    let request =
        Request { org, actor: Actor::System, request_id: Arc::from(REQUEST_ID), idempotency: None, command };
    Ok(engine.execute(request).await?.outcome)
}
