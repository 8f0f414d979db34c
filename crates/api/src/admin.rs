//! `/api/admin`: what organizers and whoever runs the installation do.

pub mod areas;
pub mod blocks;
pub mod events;
pub mod journal;
pub mod keys;
pub mod orgs;
pub mod registry;
pub mod seats;
pub mod users;

use axum::response::Response;
use http::header::LINK;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::error::Problem;
use crate::extract::Query;
use crate::json;
use crate::limits::DEFAULT_PAGE;

/// How many items a page shall have.
fn page_limit(query: &Query, max: usize) -> Result<usize, Problem> {
    let limit = query.number("limit", 1, max as u64)?;
    Ok(limit.map_or(DEFAULT_PAGE.min(max), |limit| limit as usize))
}

/// A page; unless it is the last, with a link to the next one.
fn page(view: &impl Serialize, path: &str, limit: usize, is_full: bool, last: Option<String>) -> Response {
    // Not by our own writer: it does not know the raw values of the journal.
    let body = serde_json::to_string(view).expect("a view is JSON");
    let mut response = json::response(StatusCode::OK, body);
    if is_full
        && let Some(last) = last
        && let Ok(link) = HeaderValue::from_str(&format!("<{path}?limit={limit}&after={last}>; rel=\"next\""))
    {
        response.headers_mut().insert(LINK, link);
    }
    response
}
