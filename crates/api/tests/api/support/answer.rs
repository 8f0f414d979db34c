//! A request and its answer.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::schema;

pub struct Call<'a> {
    builder: reqwest::RequestBuilder,
    method: String,
    path: String,
    _client: &'a reqwest::Client,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
    what: String,
}

impl<'a> Call<'a> {
    pub fn new(client: &'a reqwest::Client, url: &str, method: &str, path: &str) -> Self {
        let verb = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let builder = client.request(verb, format!("{url}{path}"));
        Self { builder, method: method.to_owned(), path: path.to_owned(), _client: client }
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.body(body);
        self
    }

    pub fn with(self, credential: &str) -> Self {
        let value = format!("Bearer {credential}");
        self.header("authorization", &value)
    }

    pub fn acting_for(self, user: &str) -> Self {
        self.header("rowlock-user", user)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.builder = self.builder.header(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    pub async fn send(self) -> Answer {
        let response = self.builder.send().await.unwrap();
        let answer = Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            what: format!("{} {}", self.method, self.path),
            bytes: response.bytes().await.unwrap().to_vec(),
        };
        assert!(answer.headers.contains_key("x-request-id"), "{answer:?} has no request id");
        if answer.status >= 400 {
            answer.check_problem();
        }
        schema::check_answer(&self.method, &self.path, &answer);
        answer
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.bytes);
        assert_eq!(self.status, status, "{}: {text}", self.what);
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The answer is this problem.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(problem["code"], code, "{}: {problem}", self.what);
        problem
    }

    fn check_problem(&self) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.what);
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{problem}");
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["type"], format!("/docs/errors/{code}"));
        assert!(
            !problem["detail"].as_str().unwrap().is_empty() && !problem["title"].as_str().unwrap().is_empty()
        );
        match self.status {
            401 => assert!(self.headers.contains_key("www-authenticate")),
            405 => assert!(self.headers.contains_key("allow")),
            429 | 503 => assert!(self.header("retry-after").parse::<u32>().unwrap() > 0),
            _ => {}
        }
    }
}
