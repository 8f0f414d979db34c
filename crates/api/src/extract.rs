//! How handlers get at a request: the caller with a scope, path segments, query parameters, bodies.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rowlock_core::IdempotencyKey;
use rowlock_core::limits::MAX_IDEMPOTENCY_KEY_CHARS;
use rowlock_core::org::Scope;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Problem, code};
use crate::json;
use crate::wire::FromText;

pub const READ: u8 = Scope::Read.bit();
pub const HOLD: u8 = Scope::Hold.bit();
pub const BOOK: u8 = Scope::Book.bit();
pub const CANCEL: u8 = Scope::Cancel.bit();
pub const ADMIN: u8 = Scope::Admin.bit();
pub const KEYS: u8 = Scope::Keys.bit();
pub const OPERATOR: u8 = Scope::Operator.bit();
pub const HOLD_OR_ADMIN: u8 = HOLD | ADMIN;
/// Who may sell a booking or cancel it may look at it.
pub const BOOKING: u8 = HOLD | BOOK | CANCEL | ADMIN;

/// A caller with at least one of these scopes. Checked before anything else of the request is looked at.
pub struct Allowed<const SCOPES: u8>(pub Caller);

impl<const SCOPES: u8> FromRequestParts<App> for Allowed<SCOPES> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let caller = parts.extensions.remove::<Caller>();
        let caller = caller.ok_or_else(|| Problem::unauthenticated("this needs a credential"))?;
        if caller.scopes.bits() & SCOPES != 0 {
            return Ok(Self(caller));
        }
        let wanted = Scope::ALL.into_iter().find(|scope| SCOPES & scope.bit() != 0);
        Err(Problem::missing_scope(wanted.expect("a route wants a scope")))
    }
}

/// The one parameter of a path.
pub struct Segment<T>(pub T);

impl<T: FromText> FromRequestParts<App> for Segment<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let params = path_params(parts, app).await?;
        segment(&params, 0).map(Self)
    }
}

/// The two parameters of a path.
pub struct Segments<A, B>(pub A, pub B);

impl<A: FromText, B: FromText> FromRequestParts<App> for Segments<A, B> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let params = path_params(parts, app).await?;
        Ok(Self(segment(&params, 0)?, segment(&params, 1)?))
    }
}

async fn path_params(parts: &mut Parts, app: &App) -> Result<RawPathParams, Problem> {
    let params = RawPathParams::from_request_parts(parts, app).await;
    params.map_err(|_| Problem::invalid("", "the path must be UTF-8"))
}

fn segment<T: FromText>(params: &RawPathParams, index: usize) -> Result<T, Problem> {
    let (name, value) = params.iter().nth(index).expect("the route has this parameter");
    T::read(value).map_err(|rule| Problem::invalid(name.to_owned(), rule))
}

/// The query. Handlers take what they know out of it; [`Query::only`] refuses the rest first.
pub struct Query(Vec<(String, String)>);

impl FromRequestParts<App> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Ok(query(parts))
    }
}

fn query(head: &Parts) -> Query {
    let Some(query) = head.uri.query() else { return Query(Vec::new()) };
    let pairs = form_urlencoded::parse(query.as_bytes());
    Query(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

impl Query {
    pub fn only(self, known: &[&str]) -> Result<Self, Problem> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let rule = if known.is_empty() {
                    "is not a parameter of this; it has none".to_owned()
                } else {
                    format!("is not a parameter of this; those are {}", known.join(", "))
                };
                Err(Problem::invalid(name.chars().take(64).collect::<String>(), rule))
            }
            None => Ok(self),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    pub fn all<T: FromText>(&self, name: &'static str, max: usize) -> Result<Vec<T>, Problem> {
        let given: Vec<&str> =
            self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect();
        if given.len() > max {
            return Err(Problem::invalid(name, format_args!("must be given at most {max} times")));
        }
        given.iter().map(|value| T::read(value).map_err(|rule| Problem::invalid(name, rule))).collect()
    }

    pub fn one<T: FromText>(&self, name: &'static str) -> Result<Option<T>, Problem> {
        Ok(self.all(name, 1)?.pop())
    }

    /// A whole number between `min` and `max`.
    pub fn number(&self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.one::<Digits>(name)? else { return Ok(None) };
        let number = text.0.filter(|number| (min..=max).contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::invalid(name, format_args!("must be between {min} and {max}"))),
        }
    }
}

/// Digits and nothing else: no sign, no blanks. `None`: more than fit.
struct Digits(Option<u64>);

impl FromText for Digits {
    const NAME: &'static str = "Digits";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("must be a whole number".to_owned());
        }
        Ok(Self(text.parse().ok()))
    }

    fn describe() -> utoipa::openapi::Object {
        utoipa::openapi::Object::new()
    }
}

/// For requests that have no query parameters.
pub struct NoQuery;

impl FromRequestParts<App> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        query(parts).only(&[])?;
        Ok(Self)
    }
}

/// For requests that have no body. Who sends one means something by it, and would get something else.
pub struct NoBody;

impl FromRequest<App> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &App) -> Result<Self, Problem> {
        match request.body().is_end_stream() {
            true => Ok(Self),
            false => Err(Problem::invalid("", "this has no body; its parameters are in the address")),
        }
    }
}

/// A body that has nothing to say: absent, or `{}`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// What was posted, and the idempotency key that came with it. POSTs have no query.
pub struct Posted<T> {
    pub body: T,
    pub idempotency: Option<IdempotencyKey>,
}

impl<T: DeserializeOwned> FromRequest<App> for Posted<T> {
    type Rejection = Problem;

    /// The head is looked at before there is a future: a request that waits, for its body and then for its answer, need not carry it.
    fn from_request(request: Request, app: &App) -> impl Future<Output = Result<Self, Problem>> {
        let (head, body) = request.into_parts();
        let head = Head::read(&head);
        let (limit, max_depth) = (app.limits.body_bytes, app.limits.json_depth);
        async move {
            let Head { key, is_json } = head?;
            if body.size_hint().lower() > limit as u64 {
                return Err(too_large(limit));
            }
            let bytes = whole(body, limit).await?;
            let idempotency = key.map(|key| key.with_body(&bytes));
            let body = if bytes.is_empty() {
                // What has only optional fields may be left out altogether.
                let absent = serde_json::from_slice(b"{}");
                absent.map_err(|_| Problem::new(&code::MALFORMED_JSON, "a JSON body is needed"))?
            } else if is_json {
                json::read(&bytes, max_depth)?
            } else {
                let detail = "the body must be application/json in UTF-8, without a Content-Encoding";
                return Err(Problem::new(&code::UNSUPPORTED_MEDIA_TYPE, detail));
            };
            Ok(Self { body, idempotency })
        }
    }
}

/// What the head of a POST says.
struct Head {
    key: Option<Box<BegunKey>>,
    is_json: bool,
}

impl Head {
    fn read(head: &Parts) -> Result<Self, Problem> {
        query(head).only(&[])?;
        let fields = Fields::find(&head.headers);
        let key = fields.idempotency_key()?;
        let key = key.map(|key| Box::new(BegunKey { key, fingerprint: begin_fingerprint(head) }));
        Ok(Self { key, is_json: fields.is_json() })
    }
}

/// The fields of a POST's head that matter here. Requests have few fields, so looking at each costs less than looking these up.
#[derive(Default)]
struct Fields<'h> {
    content_type: Option<&'h HeaderValue>,
    content_encoding: Option<&'h HeaderValue>,
    key: Option<&'h HeaderValue>,
    has_two_keys: bool,
}

impl<'h> Fields<'h> {
    fn find(headers: &'h HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            // Of what is given twice, the first counts.
            match name.as_str() {
                "content-type" => fields.content_type = fields.content_type.or(Some(value)),
                "content-encoding" => fields.content_encoding = fields.content_encoding.or(Some(value)),
                "idempotency-key" => fields.has_two_keys = fields.key.replace(value).is_some(),
                _ => {}
            }
        }
        fields
    }

    fn is_json(&self) -> bool {
        let is_plain = self.content_encoding.is_none_or(|coding| coding == "identity");
        // As nearly everybody writes it.
        if is_plain && self.content_type.is_some_and(|given| given == "application/json") {
            return true;
        }
        let given = self.content_type.and_then(|value| value.to_str().ok()).unwrap_or("");
        let mut parts = given.split(';').map(str::trim);
        let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
        let is_utf8 = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        };
        is_json && is_plain && parts.all(is_utf8)
    }

    /// The key as the IETF draft writes it, a quoted string, or bare.
    fn idempotency_key(&self) -> Result<Option<Arc<str>>, Problem> {
        const RULE: &str =
            "must have between 1 and 128 visible ASCII characters, with quotes around all of them or without";
        let Some(value) = self.key else { return Ok(None) };
        if self.has_two_keys {
            return Err(Problem::invalid("Idempotency-Key", "must not be given twice"));
        }
        let invalid = || Problem::invalid("Idempotency-Key", RULE);
        let text = value.to_str().map_err(|_| invalid())?.trim();
        let key: Cow<'_, str> = match text.strip_prefix('"') {
            Some(rest) => unescape(rest.strip_suffix('"').ok_or_else(invalid)?).ok_or_else(invalid)?.into(),
            None => text.into(),
        };
        let fits = (1..=MAX_IDEMPOTENCY_KEY_CHARS).contains(&key.len());
        if !fits || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid());
        }
        Ok(Some(Arc::from(key)))
    }
}

/// An idempotency key whose request has not been read to its end.
struct BegunKey {
    key: Arc<str>,
    fingerprint: Sha256,
}

impl BegunKey {
    fn with_body(self, body: &[u8]) -> IdempotencyKey {
        let digest = self.fingerprint.chain_update(body).finalize();
        let fingerprint = *digest.first_chunk().expect("a digest has 32 bytes");
        IdempotencyKey { key: self.key, fingerprint }
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(&code::BODY_TOO_LARGE, format!("a body may have at most {limit} bytes"))
}

/// A body to its end. Most come in one piece, which is taken as it is.
async fn whole(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let first = body.frame().await.transpose().map_err(|error| unreadable(&error, limit))?;
    let Some(first) = first else { return Ok(Bytes::new()) };
    let first = first.into_data().unwrap_or_default();
    let left = limit.checked_sub(first.len()).ok_or_else(|| too_large(limit))?;
    if body.is_end_stream() {
        return Ok(first);
    }
    let rest = Limited::new(body, left).collect().await.map_err(|error| unreadable(&*error, limit))?;
    Ok([first, rest.to_bytes()].concat().into())
}

fn unreadable(error: &(dyn Error + 'static), limit: usize) -> Problem {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    if causes.any(|error| error.is::<LengthLimitError>()) {
        return too_large(limit);
    }
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    let kind = causes.find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    let detail = match kind {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            "the body is not sent as HTTP says, such as a chunk with a wrong length"
        }
        _ => "the connection ended before the body did",
    };
    Problem::new(&code::BODY_UNREADABLE, detail)
}

/// The inside of a structured field's string, where `\` stands before `"` and `\`.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next().filter(|next| matches!(next, '"' | '\\'))?),
            '"' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Tells whether a repeated key comes with the same request. The body follows.
fn begin_fingerprint(head: &Parts) -> Sha256 {
    Sha256::new()
        .chain_update(head.method.as_str())
        .chain_update([0])
        .chain_update(head.uri.path())
        .chain_update([0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_TYPE;

    fn key(text: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_str(text).unwrap());
        Fields::find(&headers).idempotency_key().ok().flatten().map(|key| key.to_string())
    }

    #[test]
    fn a_key_may_be_quoted() {
        assert_eq!(key("abc-1").as_deref(), Some("abc-1"));
        assert_eq!(key("\"abc-1\"").as_deref(), Some("abc-1"));
        assert_eq!(key(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
        assert_eq!(key(&"k".repeat(128)).map(|key| key.len()), Some(128));
        for bad in ["", "\"\"", "\"abc", r#""a"b""#, r#""a\b""#, "a b", &"k".repeat(129)] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }

    fn media(text: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(text));
        Fields::find(&headers).is_json()
    }

    #[test]
    fn only_json_in_utf8_is_read() {
        assert!(media("application/json") && media("Application/JSON; charset=UTF-8"));
        assert!(media("application/json; charset=\"utf-8\""));
        for bad in ["", "text/plain", "application/json; charset=latin1", "application/jsonp"] {
            assert!(!media(bad), "{bad}");
        }
    }
}
