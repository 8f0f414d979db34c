//! Orgs: creating and listing them is for whoever runs the installation; everybody sees their own.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::org::{Org, Scope, Scopes};
use rowlock_core::{Command, Name, OrgId, Outcome, Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::keys::KeyView;
use super::{page, page_limit};
use crate::app::{App, unexpected};
use crate::bookings::view::mark_replayed;
use crate::credential;
use crate::error::Problem;
use crate::extract::{ADMIN, Allowed, KEYS, NoQuery, OPERATOR, Posted, Query};
use crate::json;
use crate::limits::MAX_PAGE;
use crate::wire::{NameText, Timestamp};

const ADMIN_OR_KEYS: u8 = ADMIN | KEYS;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateOrg {
    #[schema(inline)]
    name: NameText,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Org)]
pub struct OrgView<'a> {
    org_id: Uuid,
    name: &'a str,
    created_at: Timestamp,
}

impl<'a> OrgView<'a> {
    fn new(org: &'a Org) -> Self {
        Self { org_id: org.id.uuid(), name: org.name.as_str(), created_at: Timestamp(org.created_at) }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = OrgCreated)]
pub struct OrgCreatedView<'a> {
    org: OrgView<'a>,
    /// Its first API key, with every scope but operator.
    admin_key: KeyView<'a>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = OrgPage)]
pub struct OrgPageView<'a> {
    orgs: Vec<OrgView<'a>>,
}

/// Creates an org and its first API key.
///
/// The key's text is shown in this answer and never again. When the request is repeated with the same
/// `Idempotency-Key` the answer is the same but without that text.
#[utoipa::path(
    post,
    path = "/api/admin/orgs",
    tag = "admin",
    request_body = CreateOrg,
    responses((status = 201, description = "Created.", body = OrgCreatedView)),
    extensions(("x-scopes" = json!(["operator"])), ("x-problems" = json!([]))),
)]
pub async fn create_org(
    State(app): State<App>,
    Allowed(caller): Allowed<OPERATOR>,
    posted: Posted<CreateOrg>,
) -> Result<Response, Problem> {
    let command = Command::CreateOrg { name: posted.body.name.0 };
    let created = app.execute(&caller, command, posted.idempotency.clone()).await?;
    let Outcome::Org(org) = &created.outcome else { return Err(unexpected(&created.outcome)) };
    let (secret, secret_hash) = credential::new_secret();
    let name = Name::new("admin").expect("a good name");
    let scopes: Scopes = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Operator).collect();
    // The key is the new org's, so the second command is too. Its idempotency record is of that org: a client that
    // repeats after a crash between the two gets the same org and, the first time, its key.
    let command = Command::CreateApiKey { name, scopes, secret_hash };
    let request = Request { org: org.id, ..*caller.request(command, posted.idempotency) };
    let keyed = app.engine.execute(request).await.map_err(|failure| {
        tracing::warn!(org = %org.id, %failure, "an org was created and its first key was not");
        let detail = "the org was created, its key was not: with the same Idempotency-Key the next try makes the key, \
                      without one it makes another org";
        Problem::new(Problem::from(failure).code(), detail)
    })?;
    let Outcome::ApiKey(key) = &keyed.outcome else { return Err(unexpected(&keyed.outcome)) };
    let text = (!keyed.replayed).then(|| credential::key_text(key.id, &secret));
    let view = OrgCreatedView { org: OrgView::new(org), admin_key: KeyView::new(key, text) };
    Ok(mark_replayed(json::respond(StatusCode::CREATED, &view), created.replayed))
}

/// All orgs.
#[utoipa::path(
    get,
    path = "/api/admin/orgs",
    tag = "admin",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Items of the page; 100 if absent."),
        ("after" = Option<Uuid>, Query, description = "The last id of the page before."),
    ),
    responses((status = 200, description = "A page of orgs.", body = OrgPageView)),
    extensions(("x-scopes" = json!(["operator"])), ("x-problems" = json!([]))),
)]
pub async fn list_orgs(
    State(app): State<App>,
    Allowed(_): Allowed<OPERATOR>,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["limit", "after"])?;
    let limit = page_limit(&query, MAX_PAGE)?;
    let orgs = app.engine.orgs(query.one::<OrgId>("after")?, limit).await?;
    let view = OrgPageView { orgs: orgs.iter().map(OrgView::new).collect() };
    Ok(page(&view, "/api/admin/orgs", limit, orgs.len() == limit, orgs.last().map(|org| org.id.to_string())))
}

/// The org that the credential belongs to.
#[utoipa::path(
    get,
    path = "/api/admin/org",
    tag = "admin",
    responses((status = 200, description = "The org.", body = OrgView)),
    extensions(("x-scopes" = json!(["admin", "keys"])), ("x-problems" = json!(["unknown_org"]))),
)]
pub async fn get_org(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN_OR_KEYS>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let org = app.engine.org(caller.org).await?;
    Ok(json::respond(StatusCode::OK, &OrgView::new(&org)))
}
