//! The body of every route that takes one: read, checked, decided on real rows, and answered.

use axum::http::Method;
use serde_json::Value;

use crate::office::{knock, request};
use crate::venue::Venue;

/// Every route with a body, in the order that the first byte of an input counts.
pub(crate) fn routes(venue: &Venue) -> Vec<String> {
    let Venue { event, hold, booking, .. } = venue;
    vec![
        "/api/bookings/hold-seats".into(),
        "/api/bookings/hold-any".into(),
        "/api/bookings".into(),
        format!("/api/bookings/{hold}/confirm"),
        format!("/api/bookings/hold/{hold}/checkout"),
        format!("/api/bookings/hold/{hold}/heartbeat"),
        format!("/api/bookings/{booking}/cancel"),
        "/api/admin/orgs".into(),
        "/api/admin/keys".into(),
        "/api/admin/events".into(),
        format!("/api/admin/events/{event}/blocks"),
        format!("/api/admin/events/{event}/seats"),
        format!("/api/admin/events/{event}/seats/block"),
        format!("/api/admin/events/{event}/seats/unblock"),
        format!("/api/admin/events/{event}/areas"),
        format!("/api/admin/events/{event}/registry/reconcile"),
    ]
}

thread_local! {
    static ROUTES: Vec<String> = routes(&Venue::new());
}

pub fn run(data: &[u8]) {
    let Some((route, body)) = data.split_first() else { return };
    ROUTES.with(|routes| {
        let route = &routes[usize::from(*route) % routes.len()];
        post(route, body);
    });
}

fn post(route: &str, body: &[u8]) {
    let Some(sent) = request(Method::POST, route, body) else { return };
    let status = knock(sent).status;
    let read: Result<Value, _> = serde_json::from_slice(body);
    let accepted = (200..300).contains(&status);
    let Ok(value) = read else {
        // An absent body may stand for an empty one. Nothing else that is no JSON is taken for something.
        assert!(!accepted || body.is_empty(), "{route} took what is no JSON");
        return;
    };
    if accepted {
        assert!(value.is_object(), "{route} took {value}");
        // The same said in other words.
        let again =
            request(Method::POST, route, value.to_string().as_bytes()).expect("the route is the same");
        assert_eq!(
            knock(again).status,
            status,
            "{route} took a body, but not the same one written anew: {value}"
        );
    }
}
