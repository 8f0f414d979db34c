//! Whole requests: a line with method and target, fields, an empty line, a body.

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use std::net::SocketAddr;

use crate::feed::Feed;
use crate::office::{KEY, knock};

/// More fields than a client sends. hyper has a limit of its own.
const MAX_FIELDS: usize = 64;

pub fn run(data: &[u8]) {
    if let Some(request) = read(data) {
        knock(request);
    }
}

/// `None` for what hyper would not let through.
fn read(data: &[u8]) -> Option<Request<Body>> {
    let mut feed = Feed::new(data);
    let line = std::str::from_utf8(feed.until(b'\n')).ok()?;
    let (method, target) = line.trim().split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let uri: Uri = target.parse().ok()?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    for _ in 0..MAX_FIELDS {
        let line = feed.until(b'\n').trim_ascii();
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().append(name, value);
    }
    if !request.headers().contains_key(header::AUTHORIZATION) {
        let key = HeaderValue::from_str(&format!("Bearer {KEY}")).expect("a key is plain text");
        request.headers_mut().insert(header::AUTHORIZATION, key);
    }
    let peer: SocketAddr = ([10, 0, 0, 1], 40_000).into();
    request.extensions_mut().insert(ConnectInfo(peer));
    *request.body_mut() = Body::from(feed.rest().to_vec());
    Some(request)
}
