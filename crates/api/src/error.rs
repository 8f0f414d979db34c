//! Every error that a client can see: one table of codes, and the one way from a failure to a code.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use rowlock_core::limits::MAX_SEATS_PER_REQUEST;
use rowlock_core::org::Scope;
use rowlock_core::{Refusal, SeatId};
use rowlock_registry::Failure;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::json;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::wire::Timestamp;

/// A kind of error. Its page is `docs/errors/<name>.md`.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    /// Where it is explained.
    page: &'static str,
    pub status: u16,
    pub title: &'static str,
    /// How its JSON begins, up to the detail.
    begin: &'static str,
    /// How it goes on behind the detail, up to the request id.
    middle: &'static str,
}

impl Code {
    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("the table has real statuses")
    }
}

macro_rules! codes {
    ($($id:ident $name:literal $status:literal $title:literal;)*) => {
        pub mod code {
            use super::Code;
            $(pub static $id: Code = Code {
                name: $name,
                page: concat!("/docs/errors/", $name),
                status: $status,
                title: $title,
                begin: concat!(
                    r#"{"type":"/docs/errors/"#, $name, r#"","title":""#, $title, r#"","status":"#, $status, r#","detail":"#
                ),
                middle: concat!(r#","code":""#, $name, r#"","request_id":"#),
            };)*
            /// All of them, in the order of the table.
            pub static ALL: &[&Code] = &[$(&$id),*];
        }
    };
}

codes! {
    // About the request itself.
    MALFORMED_JSON "malformed_json" 400 "The body is not JSON";
    JSON_TOO_DEEP "json_too_deep" 400 "The body is nested too deeply";
    BODY_UNREADABLE "body_unreadable" 400 "The body could not be read";
    UNAUTHENTICATED "unauthenticated" 401 "The credential is missing or not valid";
    MISSING_SCOPE "missing_scope" 403 "The credential lacks a scope";
    USER_REQUIRED "user_required" 403 "The request needs a user";
    ACT_AS_REFUSED "act_as_refused" 403 "The credential may not name a user";
    UNKNOWN_ROUTE "unknown_route" 404 "There is nothing at this address";
    METHOD_NOT_ALLOWED "method_not_allowed" 405 "The address does not have this method";
    BODY_TOO_LARGE "body_too_large" 413 "The body is too large";
    UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" 415 "The body must be JSON";
    INVALID "invalid" 422 "A value is not valid";
    IDEMPOTENCY_KEY_REUSED "idempotency_key_reused" 422 "The idempotency key belongs to another request";
    RATE_LIMITED "rate_limited" 429 "Too many requests";
    // About what it asks for.
    UNKNOWN_ORG "unknown_org" 404 "There is no such org";
    UNKNOWN_KEY "unknown_key" 404 "There is no such API key";
    UNKNOWN_EVENT "unknown_event" 404 "There is no such event";
    UNKNOWN_BLOCK "unknown_block" 404 "There is no such block";
    UNKNOWN_SEATS "unknown_seats" 404 "There are no such seats";
    UNKNOWN_AREA "unknown_area" 404 "There is no such area";
    UNKNOWN_HOLD "unknown_hold" 404 "There is no such hold";
    UNKNOWN_BOOKING "unknown_booking" 404 "There is no such booking";
    UNKNOWN_TIER "unknown_tier" 422 "There is no such price tier";
    NOT_OWNER "not_owner" 403 "It belongs to another user";
    SEATS_TAKEN "seats_taken" 409 "Seats are taken";
    SEATS_BLOCKED "seats_blocked" 409 "Seats are not for sale";
    BLOCK_FULL "block_full" 409 "The block has too few free seats left";
    AREA_FULL "area_full" 409 "The area has too few places left";
    TOO_MANY_SEATS "too_many_seats" 409 "Too many places for one user or cart";
    SALES_NOT_OPEN "sales_not_open" 409 "The event is not on sale";
    HOLD_CONFIRMED "hold_confirmed" 409 "The hold is confirmed already";
    EXTENSION_EXHAUSTED "extension_exhausted" 409 "The hold can't be extended any further";
    ALREADY_CANCELLED "already_cancelled" 409 "The booking is cancelled";
    NAME_TAKEN "name_taken" 409 "The name is in use";
    PLACE_TAKEN "place_taken" 409 "A seat stands there already";
    HOLD_EXPIRED "hold_expired" 410 "The hold has expired";
    HOLD_RELEASED "hold_released" 410 "The hold was released";
    EVENT_FULL "event_full" 422 "The event can't have more of these";
    // About the server.
    INTERNAL "internal" 500 "Something went wrong here";
    BUSY "busy" 503 "Too many requests are waiting";
    UNAVAILABLE "unavailable" 503 "The store can't be reached";
    STOPPING "stopping" 503 "The server is stopping";
    TIMEOUT "timeout" 503 "The request took too long";
}

#[derive(Clone, Debug)]
pub struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: &'static Code,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    scope: Option<&'static str>,
    conflicts: Conflicts,
    retry_after: Option<u32>,
}

#[derive(Clone, Debug)]
enum Conflicts {
    None,
    /// By far the most: they are kept as they come.
    Seats(Vec<SeatId>),
    One(Box<Conflict>),
}

/// One of the things that stand in the way.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Conflict {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub seat_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub block_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub area_id: Option<Uuid>,
    /// Places that were asked for, of the area or the block if one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub requested: Option<u32>,
    /// Places of the area, or seats of the block, that are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub left: Option<u32>,
    /// The booking that the hold became.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub booking_id: Option<Uuid>,
    /// Places that the user or the cart may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u32>,
    /// Places that they have already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub current: Option<u32>,
    /// When sales open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub opens_at: Option<Timestamp>,
    /// When sales close, or closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub closes_at: Option<Timestamp>,
    /// The end that no extension passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_expires_at: Option<Timestamp>,
    /// The name that is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// The place that would be two seats: its block, and its row and number as they are printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "Stalls A-1")]
    pub place: Option<String>,
}

/// An error, as RFC 9457 writes it.
// For the OpenAPI and for a test. `Problem::json` writes it.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView<'a> {
    /// Where the code is explained.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", value_type = String)]
    kind: &'static str,
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    detail: &'a str,
    /// Stable. Programs should look at this and at nothing else.
    #[schema(value_type = String)]
    code: &'static str,
    request_id: &'a str,
    /// The field, parameter or header that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<&'a str>,
    /// The scope that the credential lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "<[Conflict]>::is_empty")]
    #[schema(required = false)]
    conflicts: &'a [Conflict],
}

impl Problem {
    pub fn new(code: &'static Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let retry_after = (code.status == 503).then_some(RETRY_AFTER_SECONDS);
        let detail = detail.into();
        Self(Box::new(Parts {
            code,
            detail,
            field: None,
            scope: None,
            conflicts: Conflicts::None,
            retry_after,
        }))
    }

    /// A value that breaks a rule. `field` is where it is, as a client would write it.
    pub fn invalid(field: impl Into<Cow<'static, str>>, rule: impl std::fmt::Display) -> Self {
        let field = field.into();
        let detail = if field.is_empty() { rule.to_string() } else { format!("{field} {rule}") };
        let mut problem = Self::new(&code::INVALID, detail);
        problem.0.field = Some(field).filter(|field| !field.is_empty());
        problem
    }

    pub fn unauthenticated(detail: &'static str) -> Self {
        Self::new(&code::UNAUTHENTICATED, detail)
    }

    pub fn missing_scope(scope: Scope) -> Self {
        let mut problem =
            Self::new(&code::MISSING_SCOPE, format!("this needs a credential with the scope {scope}"));
        problem.0.scope = Some(scope.as_str());
        problem
    }

    pub fn rate_limited(seconds: u32) -> Self {
        let mut problem = Self::new(&code::RATE_LIMITED, "the rate limit is used up for now");
        problem.0.retry_after = Some(seconds);
        problem
    }

    pub fn code(&self) -> &'static Code {
        self.0.code
    }

    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    fn about_seats(mut self, seats: Vec<SeatId>) -> Self {
        self.0.conflicts = Conflicts::Seats(seats);
        self
    }

    fn about(mut self, conflict: Conflict) -> Self {
        self.0.conflicts = Conflicts::One(Box::new(conflict));
        self
    }

    /// The answer.
    pub fn render(&self, request_id: &str) -> Response {
        let mut response = Response::new(Body::empty());
        self.write(&mut response, request_id);
        response
    }

    /// Makes a response the answer. Only the middleware does this: it knows the request id.
    pub fn write(&self, response: &mut Response, request_id: &str) {
        let Parts { code, retry_after, .. } = &*self.0;
        *response.body_mut() = json::body(self.json(request_id));
        *response.status_mut() = code.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
        }
        if code.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"rowlock\""));
        }
    }

    /// A [`ProblemView`], put together by hand: when a sale is nearly over, most answers are problems, and most of each is the same.
    fn json(&self, request_id: &str) -> String {
        fn quote(before: &str, text: &str, json: &mut String) {
            json.push_str(before);
            rowlock_json::append(text, json).expect("a text is JSON");
        }
        let Parts { code, detail, field, scope, conflicts, retry_after: _ } = &*self.0;
        let mut json = String::with_capacity(384);
        quote(code.begin, detail, &mut json);
        quote(code.middle, request_id, &mut json);
        if let Some(field) = field {
            quote(r#","field":"#, field, &mut json);
        }
        if let Some(scope) = scope {
            quote(r#","scope":"#, scope, &mut json);
        }
        match conflicts {
            Conflicts::Seats(seats) if !seats.is_empty() => {
                let mut before = r#","conflicts":[{"seat_id":""#;
                for seat in seats {
                    json.push_str(before);
                    json.push_str(seat.uuid().hyphenated().encode_lower(&mut Uuid::encode_buffer()));
                    before = r#""},{"seat_id":""#;
                }
                json.push_str(r#""}]"#);
            }
            Conflicts::One(conflict) => {
                json.push_str(r#","conflicts":["#);
                rowlock_json::append(conflict, &mut json).expect("a conflict is JSON");
                json.push(']');
            }
            Conflicts::None | Conflicts::Seats(_) => {}
        }
        json.push('}');
        json
    }

    /// The answer to a method that the route does not have. The router adds the `Allow` field on the way out.
    pub fn method_not_allowed() -> Self {
        Self::new(&code::METHOD_NOT_ALLOWED, "see the Allow field for what is possible")
    }
}

/// Travels inside the response until the middleware renders it.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.code.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Busy => Self::new(&code::BUSY, "the lane is full; nothing was done"),
            Failure::Stopping => Self::new(&code::STOPPING, "the server is stopping; ask another one"),
            // Why is for the log: it may name files and hosts.
            Failure::Unavailable(why) => {
                tracing::error!(%why, "the store is unavailable");
                Self::new(&code::UNAVAILABLE, "the store can't be reached; try again")
            }
            Failure::Broken(why) => {
                tracing::error!(%why, "a command failed");
                Self::new(&code::INTERNAL, "the command failed and nothing was done; the log says why")
            }
        }
    }
}

/// What the kernel says of so many taken seats. Nothing is said more often, so it is not formatted each time.
static SEATS_TAKEN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let taken = |count| Refusal::SeatsTaken { seats: vec![SeatId::from_uuid(Uuid::nil()); count] };
    (0..=MAX_SEATS_PER_REQUEST).map(|count| taken(count).to_string()).collect()
});

fn detail(refusal: &Refusal) -> Cow<'static, str> {
    if let Refusal::SeatsTaken { seats } = refusal
        && let Some(known) = SEATS_TAKEN.get(seats.len())
    {
        return known.as_str().into();
    }
    // Room for nearly all of them, so that it does not grow word by word.
    let mut detail = String::with_capacity(96);
    let _ = write!(detail, "{refusal}");
    detail.into()
}

/// The one table from refusals to codes. It matches all of them, so a new refusal does not compile without a line.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        use code::*;
        let detail = detail(&refusal);
        let new = |code: &'static Code| Self::new(code, detail);
        match refusal {
            Refusal::UnknownOrg { .. } => new(&UNKNOWN_ORG),
            Refusal::UnknownKey { .. } => new(&UNKNOWN_KEY),
            Refusal::UnknownEvent { .. } => new(&UNKNOWN_EVENT),
            Refusal::UnknownBlock { block } => {
                new(&UNKNOWN_BLOCK).about(Conflict { block_id: Some(block.uuid()), ..Conflict::default() })
            }
            Refusal::UnknownTier { .. } => new(&UNKNOWN_TIER),
            Refusal::UnknownSeats { seats } => new(&UNKNOWN_SEATS).about_seats(seats),
            Refusal::UnknownArea { area } => {
                new(&UNKNOWN_AREA).about(Conflict { area_id: Some(area.uuid()), ..Conflict::default() })
            }
            Refusal::UnknownHold { .. } => new(&UNKNOWN_HOLD),
            Refusal::UnknownBooking { .. } => new(&UNKNOWN_BOOKING),
            Refusal::SeatsTaken { seats } => new(&SEATS_TAKEN).about_seats(seats),
            Refusal::SeatsBlocked { seats } => new(&SEATS_BLOCKED).about_seats(seats),
            Refusal::BlockFull { block, requested, left } => new(&BLOCK_FULL).about(Conflict {
                block_id: Some(block.uuid()),
                requested: Some(requested),
                left: Some(left),
                ..Conflict::default()
            }),
            Refusal::AreaFull { area, requested, left } => new(&AREA_FULL).about(Conflict {
                area_id: Some(area.uuid()),
                requested: Some(requested),
                left: Some(left),
                ..Conflict::default()
            }),
            Refusal::NotOwner => new(&NOT_OWNER),
            Refusal::HoldExpired { .. } => new(&HOLD_EXPIRED),
            Refusal::HoldConfirmed { booking, .. } => new(&HOLD_CONFIRMED)
                .about(Conflict { booking_id: Some(booking.uuid()), ..Conflict::default() }),
            Refusal::HoldReleased { .. } => new(&HOLD_RELEASED),
            Refusal::ExtensionExhausted { max_expires_at, .. } => new(&EXTENSION_EXHAUSTED)
                .about(Conflict { max_expires_at: Some(Timestamp(max_expires_at)), ..Conflict::default() }),
            Refusal::TooManySeats { limit, current, requested } => new(&TOO_MANY_SEATS).about(Conflict {
                limit: Some(limit),
                current: Some(current),
                requested: Some(requested),
                ..Conflict::default()
            }),
            Refusal::SalesNotOpen { opens_at, closes_at } => new(&SALES_NOT_OPEN).about(Conflict {
                opens_at: opens_at.map(Timestamp),
                closes_at: closes_at.map(Timestamp),
                ..Conflict::default()
            }),
            Refusal::AlreadyCancelled { booking } => new(&ALREADY_CANCELLED)
                .about(Conflict { booking_id: Some(booking.uuid()), ..Conflict::default() }),
            Refusal::NameTaken { name } => {
                new(&NAME_TAKEN).about(Conflict { name: Some(name.to_string()), ..Conflict::default() })
            }
            Refusal::PlaceTaken { place } => {
                new(&PLACE_TAKEN).about(Conflict { place: Some(place), ..Conflict::default() })
            }
            Refusal::EventFull { .. } => new(&EVENT_FULL),
            Refusal::Invalid { field, rule } => Self::invalid(field, rule),
            Refusal::KeyReused => new(&IDEMPOTENCY_KEY_REUSED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowlock_core::{AreaId, BlockId, BookingId, EventId, HoldId, Name, Time};

    fn seat(ordinal: u32) -> SeatId {
        SeatId::of(EventId::from_uuid(Uuid::from_u128(7)), ordinal)
    }

    /// As serde writes it.
    fn view(problem: &Problem, request_id: &str) -> String {
        let Parts { code, detail, field, scope, conflicts, retry_after: _ } = &*problem.0;
        let conflicts = match conflicts {
            Conflicts::None => Vec::new(),
            Conflicts::Seats(seats) => {
                let conflict = |seat: &SeatId| Conflict { seat_id: Some(seat.uuid()), ..Conflict::default() };
                seats.iter().map(conflict).collect()
            }
            Conflicts::One(conflict) => vec![(**conflict).clone()],
        };
        let view = ProblemView {
            kind: code.page,
            title: code.title,
            status: code.status,
            detail,
            code: code.name,
            request_id,
            field: field.as_deref(),
            scope: *scope,
            conflicts: &conflicts,
        };
        serde_json::to_string(&view).unwrap()
    }

    #[test]
    fn a_problem_is_written_as_it_is_described() {
        let of_each_code = code::ALL.iter().map(|code| Problem::new(code, "it \"says\" why"));
        let seats = |count| Refusal::SeatsTaken { seats: (0..count).map(seat).collect() };
        let others = [
            seats(0).into(),
            seats(1).into(),
            seats(100).into(),
            Refusal::UnknownSeats { seats: vec![seat(1)] }.into(),
            Refusal::TooManySeats { limit: 6, current: 4, requested: 3 }.into(),
            Refusal::NameTaken { name: Name::new("the \"Box\"").unwrap() }.into(),
            Refusal::NotOwner.into(),
            Problem::invalid("seat_ids[\"0\"]", "must be something else"),
            Problem::missing_scope(Scope::Hold),
            Problem::rate_limited(3),
        ];
        for problem in of_each_code.chain(others) {
            let id = "the-\"request\"\\";
            assert_eq!(problem.json(id), view(&problem, id));
        }
    }

    #[test]
    fn every_conflict_says_what_it_is_about() {
        let (booking, hold) = (BookingId::from_uuid(Uuid::max()), HoldId::from_uuid(Uuid::max()));
        let (block, area) = (BlockId::from_uuid(Uuid::max()), AreaId::from_uuid(Uuid::max()));
        let seats = || vec![seat(1)];
        let (requested, left, at) = (2, 1, Some(Time::from_millis(0)));
        let conflicts: Vec<Problem> = [
            Refusal::SeatsTaken { seats: seats() },
            Refusal::SeatsBlocked { seats: seats() },
            Refusal::BlockFull { block, requested, left },
            Refusal::AreaFull { area, requested, left },
            Refusal::TooManySeats { limit: 6, current: 4, requested },
            Refusal::SalesNotOpen { opens_at: at, closes_at: at },
            Refusal::HoldConfirmed { hold, booking },
            Refusal::ExtensionExhausted { hold, max_expires_at: Time::from_millis(0) },
            Refusal::AlreadyCancelled { booking },
            Refusal::NameTaken { name: Name::new("Stalls").unwrap() },
            Refusal::PlaceTaken { place: "Stalls A-1".to_owned() },
        ]
        .map(Problem::from)
        .into();
        for code in code::ALL.iter().filter(|code| code.status == 409) {
            let problem = conflicts.iter().find(|problem| problem.code() == *code);
            let text = problem.unwrap_or_else(|| panic!("{} is not tried here", code.name)).json("id");
            assert!(text.contains(r#""conflicts":[{"#) && !text.contains("[{}]"), "{text}");
        }
        for unknown in [Refusal::UnknownSeats { seats: seats() }, Refusal::UnknownBlock { block }] {
            assert!(Problem::from(unknown).json("id").contains(r#""conflicts":[{"#));
        }
    }

    #[test]
    fn what_is_said_of_taken_seats_is_what_the_kernel_says() {
        for count in [0, 1, 2, 100, 101] {
            let refusal = Refusal::SeatsTaken { seats: (0..count).map(seat).collect() };
            assert_eq!(detail(&refusal), refusal.to_string());
        }
    }
}
