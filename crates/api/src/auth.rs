//! Who is calling: from the `Authorization` field to a [`Caller`].

mod jwt;

pub use jwt::Verifier;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, header};
use rowlock_core::org::{Scope, Scopes};
use rowlock_core::{Actor, Command, IdempotencyKey, KeyId, OrgId, Request, UserId};

use crate::app::Shared;
use crate::credential;
use crate::error::{Problem, code};
use crate::limits::MAX_CREDENTIAL_BYTES;
use crate::wire::FromText;

pub const ROWLOCK_USER: HeaderName = HeaderName::from_static("rowlock-user");

/// Who sent a request, for which org, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    pub org: OrgId,
    /// The API key, when it came with one.
    pub key: Option<KeyId>,
    pub user: Option<UserId>,
    pub scopes: Scopes,
    pub request_id: Arc<str>,
}

impl Caller {
    pub fn user(&self) -> Result<&UserId, Problem> {
        self.user.as_ref().ok_or_else(|| {
            Problem::new(
                &code::USER_REQUIRED,
                "name the user in the Rowlock-User field, or come with that user's token",
            )
        })
    }

    pub fn is_admin(&self) -> bool {
        self.scopes.has(Scope::Admin)
    }

    /// The user where there is one: a backend that acts for a user and that user are one to the journal.
    pub fn actor(&self) -> Actor {
        match (&self.user, self.key) {
            (Some(user), _) => Actor::User(user.clone()),
            (None, Some(key)) => Actor::Key(key),
            (None, None) => Actor::System,
        }
    }

    pub fn request(&self, command: Command, idempotency: Option<IdempotencyKey>) -> Box<Request> {
        Box::new(Request {
            org: self.org,
            actor: self.actor(),
            request_id: Arc::clone(&self.request_id),
            idempotency,
            command,
        })
    }
}

/// Finds out who is calling.
pub async fn authenticate(
    app: &Shared,
    headers: &HeaderMap,
    request_id: Arc<str>,
) -> Result<Caller, Problem> {
    let text = bearer(headers)?;
    let mut caller = if text.starts_with(credential::KEY_PREFIX) {
        by_key(app, text, request_id).await?
    } else {
        let token = app.verifier.verify(text, app.engine.now())?;
        Caller { org: token.org, key: None, user: Some(token.user.clone()), scopes: token.scopes, request_id }
    };
    if let Some(named) = headers.get(ROWLOCK_USER) {
        if headers.get_all(ROWLOCK_USER).iter().nth(1).is_some() {
            return Err(Problem::invalid("Rowlock-User", "must be sent once"));
        }
        if caller.key.is_none() || !caller.scopes.has(Scope::ActAs) {
            let detail = "only an API key with the scope act_as may send the field Rowlock-User";
            return Err(Problem::new(&code::ACT_AS_REFUSED, detail));
        }
        caller.user = Some(named_user(named.as_bytes())?);
    }
    Ok(caller)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    const MISSING: &str = "send an API key or a token as «Authorization: Bearer …»";
    const TOO_LONG: &str = "a credential may have at most 8192 bytes";
    let value = headers.get(header::AUTHORIZATION).ok_or_else(|| Problem::unauthenticated(MISSING))?;
    if headers.get_all(header::AUTHORIZATION).iter().nth(1).is_some() {
        return Err(Problem::unauthenticated("send one credential, not several"));
    }
    let text = value.to_str().map_err(|_| Problem::unauthenticated(MISSING))?;
    match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
            if rest.len() > MAX_CREDENTIAL_BYTES {
                return Err(Problem::unauthenticated(TOO_LONG));
            }
            Ok(rest.trim())
        }
        _ => Err(Problem::unauthenticated(MISSING)),
    }
}

async fn by_key(app: &Shared, text: &str, request_id: Arc<str>) -> Result<Caller, Problem> {
    // One answer for all that can be wrong with a key, so that it tells nothing about which part was right.
    let refused = || Problem::unauthenticated("the API key is not valid, or was revoked");
    let (id, secret) = credential::parse_key(text).ok_or_else(refused)?;
    let hash = credential::hash(secret);
    let key = app.engine.api_key(id).await?.ok_or_else(refused)?;
    if !credential::same(&hash, &key.secret_hash) || key.revoked_at.is_some() {
        return Err(refused());
    }
    Ok(Caller { org: key.org, key: Some(id), user: None, scopes: key.scopes, request_id })
}

fn named_user(value: &[u8]) -> Result<UserId, Problem> {
    let text = std::str::from_utf8(value).map_err(|_| Problem::invalid("Rowlock-User", "must be UTF-8"))?;
    <UserId as FromText>::read(text).map_err(|rule| Problem::invalid("Rowlock-User", rule))
}
