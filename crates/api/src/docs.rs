//! The documentation that the server carries with it. None of it needs the internet.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Uri};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::app::App;
use crate::error::Problem;
use crate::middleware::unknown_route;
use crate::pages;

static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| crate::openapi_json().into());

static SWAGGER: LazyLock<Arc<utoipa_swagger_ui::Config<'static>>> = LazyLock::new(|| {
    // The validator would be somebody's server on the internet.
    let config = utoipa_swagger_ui::Config::from("/openapi.json").validator_url("none");
    Arc::new(config.try_it_out_enabled(true).persist_authorization(false).deep_linking(true))
});

/// Routes that are pages and not API, and therefore not in the OpenAPI.
pub fn router() -> Router<App> {
    Router::new()
        .route("/openapi.json", get(openapi))
        .route("/docs", get(|| async { Redirect::to("/docs/") }))
        .route("/docs/", get(|| async { swagger("index.html") }))
        .route("/docs/{file}", get(|uri: Uri| async move { swagger(last(&uri)) }))
        .route("/docs/errors/{code}", get(|uri: Uri| async move { error_page(last(&uri)).await }))
}

/// The last part of the path as it was sent. No page has a name that must be escaped, and the framework's extractors
/// would answer an escape that is not text by themselves.
fn last(uri: &Uri) -> &str {
    uri.path().rsplit('/').next().unwrap_or_default()
}

async fn openapi() -> Response {
    text("application/json", OPENAPI.clone())
}

/// The bytes of a page, copied once and not for every client that asks.
fn shared(name: &str, bytes: &[u8]) -> Bytes {
    static COPIES: LazyLock<Mutex<FxHashMap<String, Bytes>>> = LazyLock::new(Mutex::default);
    COPIES.lock().entry(name.to_owned()).or_insert_with(|| Bytes::copy_from_slice(bytes)).clone()
}

fn swagger(name: &str) -> Response {
    match utoipa_swagger_ui::serve(name, Arc::clone(&SWAGGER)) {
        Ok(Some(file)) => {
            let mut response = Response::new(Body::from(shared(name, &file.bytes)));
            if let Ok(kind) = HeaderValue::from_str(&file.content_type) {
                response.headers_mut().insert(CONTENT_TYPE, kind);
            }
            response
        }
        _ => not_here(),
    }
}

async fn error_page(code: &str) -> Result<Response, Problem> {
    match pages::error(code.trim_end_matches(".md")) {
        Some(page) => Ok(text("text/markdown; charset=utf-8", Bytes::from_static(page.as_bytes()))),
        None => Err(unknown_route().await),
    }
}

fn not_here() -> Response {
    Problem::new(&crate::error::code::UNKNOWN_ROUTE, "there is no such page").into_response()
}

fn text(kind: &'static str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
