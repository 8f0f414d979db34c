//! API keys: shown once, stored hashed, revoked at once.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::org::{ApiKey, Scope, Scopes};
use rowlock_core::{Command, KeyId, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{page, page_limit};
use crate::app::{App, unexpected};
use crate::bookings::view::mark_replayed;
use crate::credential;
use crate::error::Problem;
use crate::extract::{Allowed, KEYS, NoBody, NoQuery, Posted, Query, Segment};
use crate::json;
use crate::limits::MAX_PAGE;
use crate::list::List;
use crate::wire::{NameText, ScopeWord, Text, Timestamp};

pub type ScopeList = List<ScopeWord, 1, { Scope::ALL.len() }>;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    #[schema(inline)]
    name: NameText,
    /// Scopes that the caller has too.
    #[schema(inline)]
    scopes: ScopeList,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct KeyView<'a> {
    key_id: Uuid,
    name: &'a str,
    #[schema(value_type = Vec<String>)]
    scopes: Vec<ScopeWord>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    revoked_at: Option<Timestamp>,
    /// The key itself. Only in the answer to its creation, and not when that is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<String>,
}

impl<'a> KeyView<'a> {
    pub fn new(key: &'a ApiKey, text: Option<String>) -> Self {
        Self {
            key_id: key.id.uuid(),
            name: key.name.as_str(),
            scopes: key.scopes.iter().map(Text).collect(),
            created_at: Timestamp(key.created_at),
            revoked_at: key.revoked_at.map(Timestamp),
            key: text,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = ApiKeyPage)]
pub struct KeyPageView<'a> {
    keys: Vec<KeyView<'a>>,
}

/// Creates an API key.
///
/// Its text is shown in this answer and never again. When the request is repeated with the same `Idempotency-Key` the
/// answer is the same but without that text.
#[utoipa::path(
    post,
    path = "/api/admin/keys",
    tag = "admin",
    request_body = CreateKey,
    responses((status = 201, description = "Created.", body = KeyView)),
    extensions(("x-scopes" = json!(["keys"])), ("x-problems" = json!(["unknown_org"]))),
)]
pub async fn create_key(
    State(app): State<App>,
    Allowed(caller): Allowed<KEYS>,
    posted: Posted<CreateKey>,
) -> Result<Response, Problem> {
    let words = &posted.body.scopes.0;
    let scopes: Scopes = words.iter().map(|scope| scope.0).collect();
    if scopes.iter().count() != words.len() {
        return Err(Problem::invalid("scopes", "must not name a scope twice"));
    }
    // Nobody gives away more than they have.
    if let Some(scope) = scopes.iter().find(|scope| !caller.scopes.has(*scope)) {
        return Err(Problem::missing_scope(scope));
    }
    let (secret, secret_hash) = credential::new_secret();
    let command = Command::CreateApiKey { name: posted.body.name.0, scopes, secret_hash };
    let reply = app.execute(&caller, command, posted.idempotency).await?;
    let Outcome::ApiKey(key) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let text = (!reply.replayed).then(|| credential::key_text(key.id, &secret));
    let response = json::respond(StatusCode::CREATED, &KeyView::new(key, text));
    Ok(mark_replayed(response, reply.replayed))
}

/// The org's API keys, revoked ones too.
#[utoipa::path(
    get,
    path = "/api/admin/keys",
    tag = "admin",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Items of the page; 100 if absent."),
        ("after" = Option<Uuid>, Query, description = "The last id of the page before."),
    ),
    responses((status = 200, description = "A page of keys, without their texts.", body = KeyPageView)),
    extensions(("x-scopes" = json!(["keys"])), ("x-problems" = json!([]))),
)]
pub async fn list_keys(
    State(app): State<App>,
    Allowed(caller): Allowed<KEYS>,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["limit", "after"])?;
    let limit = page_limit(&query, MAX_PAGE)?;
    let keys = app.engine.api_keys(caller.org, query.one::<KeyId>("after")?, limit).await?;
    let view = KeyPageView { keys: keys.iter().map(|key| KeyView::new(key, None)).collect() };
    Ok(page(&view, "/api/admin/keys", limit, keys.len() == limit, keys.last().map(|key| key.id.to_string())))
}

/// Revokes an API key, from the next request on. Also one that has scopes which the caller lacks.
#[utoipa::path(
    delete,
    path = "/api/admin/keys/{key_id}",
    tag = "admin",
    params(("key_id" = Uuid, Path, description = "The id of the key.")),
    responses((status = 200, description = "The key, revoked.", body = KeyView)),
    extensions(("x-scopes" = json!(["keys"])), ("x-problems" = json!(["unknown_key"]))),
)]
pub async fn revoke_key(
    State(app): State<App>,
    Allowed(caller): Allowed<KEYS>,
    Segment(key): Segment<KeyId>,
    _: NoQuery,
    _: NoBody,
) -> Result<Response, Problem> {
    let reply = app.execute(&caller, Command::RevokeApiKey { key }, None).await?;
    let Outcome::ApiKey(key) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    Ok(json::respond(StatusCode::OK, &KeyView::new(key, None)))
}
