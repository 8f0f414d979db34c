//! Query strings, on every route that has one.

use axum::http::{Method, Uri};

use crate::office::{knock, request};
use crate::venue::Venue;

/// Every route that reads its query, or refuses one.
pub(crate) fn routes(venue: &Venue) -> Vec<(Method, String)> {
    let Venue { event, hold, booking, .. } = venue;
    let get = |path: String| (Method::GET, path);
    let seat = venue.seat(1);
    vec![
        get(format!("/api/events/{event}/seats")),
        get("/api/admin/events".into()),
        get("/api/admin/orgs".into()),
        get(format!("/api/admin/events/{event}/journal")),
        get("/api/admin/users/ann/holds".into()),
        (Method::DELETE, format!("/api/bookings/hold/{hold}")),
        get("/readyz".into()),
        get(format!("/api/events/{event}")),
        get(format!("/api/events/{event}/seats/{seat}")),
        get(format!("/api/bookings/{booking}")),
        (Method::POST, format!("/api/bookings/hold/{hold}/checkout")),
    ]
}

thread_local! {
    static ROUTES: Vec<(Method, String)> = routes(&Venue::new());
}

pub fn run(data: &[u8]) {
    let Some((route, query)) = data.split_first() else { return };
    let Ok(query) = std::str::from_utf8(query) else { return };
    ROUTES.with(|routes| {
        let (method, path) = &routes[usize::from(*route) % routes.len()];
        ask(method, path, query);
    });
}

fn ask(method: &Method, path: &str, query: &str) {
    // What is no URI never gets here: hyper refuses it.
    let Ok(uri) = format!("{path}?{query}").parse::<Uri>() else { return };
    let Some(sent) = request(method.clone(), &uri.to_string(), b"") else { return };
    let status = knock(sent).status;
    // The same parameters, written in the plainest way.
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let plain = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let again = request(method.clone(), &format!("{path}?{plain}"), b"").expect("a plain query");
    assert_eq!(knock(again).status, status, "{method} {path}: {query} is {plain}");
}
