//! Ids and the other short texts: what is read is printed the same, and means one thing.

use axum::http::Method;
use rowlock_core::text::Row;
use rowlock_core::{
    AreaId, BlockId, BookingId, CartToken, EventId, HoldId, KeyId, Name, OrgId, PaymentReference, SeatId,
    UserId,
};
use uuid::Uuid;

use crate::office::{knock, request};

pub fn run(data: &[u8]) {
    packed(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let uuid = parsed(text);
    texts(text);
    // A segment of a path is an id or an error, and never anything else.
    let segment: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for path in [format!("/api/events/{segment}"), format!("/api/bookings/hold/{segment}")] {
        let Some(sent) = request(Method::GET, &path, b"") else { continue };
        let status = knock(sent).status;
        match uuid {
            Some(_) => assert!([200, 403, 404].contains(&status), "{text:?} is an id: {status}"),
            None if text.is_empty() => assert!([404, 405].contains(&status), "{status}"),
            None => assert_eq!(status, 422, "{text:?} is none"),
        }
    }
}

/// All kinds of ids are read and printed alike.
fn parsed(text: &str) -> Option<Uuid> {
    macro_rules! each {
        ($($id:ident)*) => {
            [$(text.parse::<$id>().ok().map(|id| (id.uuid(), id.to_string()))),*]
        };
    }
    let read = each!(OrgId KeyId EventId BlockId AreaId SeatId HoldId BookingId);
    assert!(read.windows(2).all(|two| two[0] == two[1]), "{text:?} is not the same for all");
    let (uuid, printed) = read[0].clone()?;
    assert_eq!(printed, text.to_ascii_lowercase(), "an id has one form");
    Some(uuid)
}

/// An event's id and an ordinal, packed into one and taken apart again.
fn packed(data: &[u8]) {
    let Some((event, rest)) = data.split_first_chunk::<16>() else { return };
    let Some((ordinal, rest)) = rest.split_first_chunk::<4>() else { return };
    let (event, ordinal) = (EventId::from_uuid(Uuid::from_bytes(*event)), u32::from_le_bytes(*ordinal));
    let seat = SeatId::of(event, ordinal);
    assert_eq!(seat.ordinal_in(event), Some(ordinal));
    assert_eq!(seat.to_string(), format!("{}{ordinal:08x}", SeatId::prefix(event)));
    assert_eq!(seat.to_string().parse::<SeatId>(), Ok(seat));
    if let Some((other, _)) = rest.split_first_chunk::<16>() {
        let other = EventId::from_uuid(Uuid::from_bytes(*other));
        let same = SeatId::prefix(other) == SeatId::prefix(event);
        assert_eq!(seat.ordinal_in(other).is_some(), same, "{event} and {other}");
    }
}

/// Whatever is a text is short, printable and kept as it is.
fn texts(text: &str) {
    macro_rules! each {
        ($($kind:ident $most:literal)*) => {
            [$($kind::new(text).ok().map(|kept| {
                assert_eq!(kept.as_str(), text);
                assert!(text.chars().count() <= $most && !text.contains(char::is_control));
            }).is_some()),*]
        };
    }
    let taken = each!(Row 16 Name 120 UserId 128 CartToken 128 PaymentReference 200);
    assert!(taken.windows(2).all(|two| two[0] <= two[1]), "the limits grow from one to the next: {text:?}");
}
