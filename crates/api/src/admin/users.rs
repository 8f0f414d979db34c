//! What a user holds.

use std::collections::hash_map::Entry;

use axum::extract::State;
use axum::response::Response;
use rowlock_core::{EventId, HoldId, UserId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use utoipa::ToSchema;

use super::{page, page_limit};
use crate::app::App;
use crate::bookings::view::{HoldView, Names};
use crate::error::Problem;
use crate::extract::{ADMIN, Allowed, Query, Segment};
use crate::limits::MAX_HOLDS_PAGE;

#[derive(Serialize, ToSchema)]
#[schema(as = HoldPage)]
pub struct HoldPageView<'a> {
    holds: Vec<HoldView<'a>>,
}

/// The active holds of a user in all events.
#[utoipa::path(
    get,
    path = "/api/admin/users/{user_id}/holds",
    tag = "admin",
    params(
        ("user_id" = String, Path, min_length = 1, max_length = 128, description = "The opaque id of the user."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Items of the page; 100 if absent."),
        ("after" = Option<Uuid>, Query, description = "The last hold token of the page before."),
    ),
    responses((status = 200, description = "A page of holds.", body = HoldPageView)),
    extensions(("x-scopes" = json!(["admin"])), ("x-problems" = json!([]))),
)]
pub async fn holds_of_user(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(user): Segment<UserId>,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["limit", "after"])?;
    let limit = page_limit(&query, MAX_HOLDS_PAGE)?;
    let after: Option<HoldId> = query.one("after")?;
    let path = format!("/api/admin/users/{}/holds", encode(user.as_str()));
    let holds = app.engine.holds_of_user(caller.org, user, after, limit).await?;
    let mut names: FxHashMap<EventId, Names> = FxHashMap::default();
    for hold in &holds {
        if let Entry::Vacant(vacant) = names.entry(hold.event) {
            vacant.insert(Names::known(&app, caller.org, hold.event, true).await?);
        }
    }
    let views = holds.iter().map(|hold| HoldView::new(hold, &names[&hold.event], &[]));
    let view = HoldPageView { holds: views.collect() };
    Ok(page(&view, &path, limit, holds.len() == limit, holds.last().map(|hold| hold.id.to_string())))
}

/// A user id as a path segment.
fn encode(user: &str) -> String {
    // In a form a blank is a plus, which means itself in a path.
    form_urlencoded::byte_serialize(user.as_bytes()).collect::<String>().replace('+', "%20")
}
