//! `GET /api/events/{event_id}/seats`: the map with live statuses.
//!
//! Three forms: full (an object a seat), compact (columns, and one letter a seat for the status) and status (the
//! letters alone, for polling). All carry a strong ETag made of the journal sequence.

mod compact;
mod drawing;
mod full;
mod gzip;

pub use compact::MapCache;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use rowlock_core::seat::SeatStatus;
use rowlock_core::{BlockId, EventId, Refusal, SeatId};

use crate::app::App;
use crate::chunks::Chunks;
use crate::error::Problem;
use crate::extract::{Allowed, NoQuery, Query, READ, Segment, Segments};
use crate::json;
use crate::wire::{FromText, Timestamp};
use full::SeatView;

/// How much of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Full,
    Compact,
    Status,
}

impl FromText for Form {
    const NAME: &'static str = "Form";

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "compact" => Ok(Self::Compact),
            "status" => Ok(Self::Status),
            _ => Err("must be one of full, compact, status".to_owned()),
        }
    }

    fn describe() -> utoipa::openapi::Object {
        utoipa::openapi::Object::new()
    }
}

/// One letter a seat: what the compact forms are made of.
const fn letter(status: SeatStatus) -> u8 {
    match status {
        SeatStatus::Available => b'a',
        SeatStatus::Held => b'h',
        SeatStatus::Sold => b's',
        SeatStatus::Blocked => b'b',
    }
}

/// The seats of an event with their status.
///
/// `form=full` has an object a seat. `form=compact` has columns by ordinal, and `status` with one letter a seat: `a`
/// available, `h` held, `s` sold, `b` blocked; a seat's id is `seat_id_prefix` and its ordinal as eight hex digits.
/// `form=status` has those letters alone, for polling. Ask again with `If-None-Match` and get 304 when nothing
/// has happened in the event since.
#[utoipa::path(
    get,
    path = "/api/events/{event_id}/seats",
    tag = "events",
    params(
        ("event_id" = Uuid, Path, description = "The id of the event."),
        ("form" = Option<String>, Query, description = "`full` (which is the default), `compact` or `status`."),
        ("block_id" = Option<Uuid>, Query, description = "Only the seats of this block, in the full form."),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of the map that the client has."),
    ),
    responses(
        (
            status = 200, description = "The map in the form that was asked for.", body = full::SeatMap,
            headers(
                ("ETag" = String, description = "Strong. Send it back in If-None-Match."),
                ("Cache-Control" = String, description = "«private, no-cache»: keep it, and ask before using it again."),
                ("Vary" = String, description = "«Accept-Encoding»."),
                ("Content-Encoding" = String, description = "«gzip» for clients that accept it, else absent."),
            )
        ),
        (
            status = 304, description = "The map has not changed.",
            headers(
                ("ETag" = String, description = "The same as that of the map."),
                ("Cache-Control" = String, description = "As with the map."),
                ("Vary" = String, description = "As with the map."),
            )
        ),
    ),
    extensions(("x-scopes" = json!(["read"])), ("x-problems" = json!(["unknown_event", "unknown_block", "busy"]))),
)]
pub async fn get_seats(
    State(app): State<App>,
    Allowed(caller): Allowed<READ>,
    Segment(id): Segment<EventId>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = query.only(&["form", "block_id"])?;
    let form = query.one::<Form>("form")?.unwrap_or(Form::Full);
    let block: Option<BlockId> = query.one("block_id")?;
    if block.is_some() && form != Form::Full {
        return Err(Problem::invalid("block_id", "goes with the full form only"));
    }
    let live = app.engine.event(caller.org, id).await?;
    let zipped = gzip::accepted(&headers);
    if let Some(block) = block
        && !live.read().layout().blocks.iter().any(|known| known.id == block)
    {
        return Err(Refusal::UnknownBlock { block }.into());
    }
    let history = app.engine.history();
    let tag = etag(history, live.read().sequence(), form, zipped);
    if matches_tag(&headers, &tag) {
        return Ok(with_caching(Response::new(Body::empty()), StatusCode::NOT_MODIFIED, &tag, false));
    }
    let (sequence, chunks) = match form {
        Form::Full => full::draw(live, block, zipped).await?,
        Form::Compact => app.maps.draw(&live, zipped).await?,
        Form::Status => compact::statuses(&live, zipped),
    };
    // The map may be newer than the tag that was compared: its own sequence is what counts.
    let tag = etag(history, sequence, form, zipped);
    let mut response = Response::new(Body::new(Chunks::new(chunks)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(with_caching(response, StatusCode::OK, &tag, zipped))
}

/// A sequence says which map it is only within one history of the store.
fn etag(history: u64, sequence: u64, form: Form, zipped: bool) -> String {
    let form = match form {
        Form::Full => "full",
        Form::Compact => "compact",
        Form::Status => "status",
    };
    format!("\"{history:x}-{sequence}-{form}{}\"", if zipped { "-gzip" } else { "" })
}

/// Whether the client has this very thing. `If-None-Match` compares weakly, so that a proxy's `W/` does no harm.
fn matches_tag(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

fn with_caching(mut response: Response, status: StatusCode, tag: &str, zipped: bool) -> Response {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(tag).expect("a tag is plain text"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if zipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// One seat.
#[utoipa::path(
    get,
    path = "/api/events/{event_id}/seats/{seat_id}",
    tag = "events",
    params(
        ("event_id" = Uuid, Path, description = "The id of the event."),
        ("seat_id" = Uuid, Path, description = "The id of the seat."),
    ),
    responses((status = 200, description = "The seat.", body = SeatView)),
    extensions(("x-scopes" = json!(["read"])), ("x-problems" = json!(["unknown_event", "unknown_seats"]))),
)]
pub async fn get_seat(
    State(app): State<App>,
    Allowed(caller): Allowed<READ>,
    Segments(event, seat): Segments<EventId, SeatId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let live = app.engine.event(caller.org, event).await?;
    let hot = live.read();
    let ordinal = hot.ordinal(seat).ok_or(Refusal::UnknownSeats { seats: vec![seat] })?;
    let now = hot.seat(ordinal);
    let mut view = SeatView::new(hot.event(), hot.layout(), ordinal, now.status);
    view.held_until = now.held_until.map(Timestamp);
    Ok(json::respond(StatusCode::OK, &view))
}

/// A drawn map: the sequence it is of, and its bytes.
type Drawn = (u64, Vec<Bytes>);

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(given: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in given {
            headers.append(IF_NONE_MATCH, HeaderValue::from_static(value));
        }
        matches_tag(&headers, "\"7-full\"")
    }

    #[test]
    fn a_tag_is_found_in_any_form() {
        assert!(matches(&["\"7-full\""]) && matches(&["*"]) && matches(&["W/\"7-full\""]));
        assert!(matches(&["\"6-full\", \"7-full\""]) && matches(&["\"1\"", "\"7-full\""]));
        assert!(!matches(&[]) && !matches(&["\"7-full-gzip\""]) && !matches(&["7-full"]));
    }
}
