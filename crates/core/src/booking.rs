//! What a confirmed hold becomes: a booking with one ticket for each seat or place.

use serde::{Deserialize, Serialize};

use crate::hold::Source;
use crate::ids::{AreaId, BookingId, EventId, HoldId, OrgId, TicketId};
use crate::money::Currency;
use crate::text::{PaymentReference, UserId};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum BookingStatus {
    Confirmed = 0,
    Cancelled = 1,
}

impl BookingStatus {
    pub const ALL: [BookingStatus; 2] = [BookingStatus::Confirmed, BookingStatus::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            BookingStatus::Confirmed => "confirmed",
            BookingStatus::Cancelled => "cancelled",
        }
    }
}

/// What a ticket lets its bearer into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admits {
    Seat(u32),
    Area(AreaId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub id: TicketId,
    pub admits: Admits,
    pub price: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    pub id: BookingId,
    pub org: OrgId,
    pub event: EventId,
    pub hold: HoldId,
    pub user: UserId,
    pub status: BookingStatus,
    pub source: Source,
    pub currency: Currency,
    pub tickets: Vec<Ticket>,
    pub payment_reference: Option<PaymentReference>,
    pub created_at: Time,
    pub cancelled_at: Option<Time>,
}

impl Booking {
    pub fn total(&self) -> i64 {
        self.tickets.iter().map(|ticket| ticket.price).sum()
    }

    /// Ten letters and digits for people to read out, taken from the random end of the id. Nothing looks bookings
    /// up by it, so two that are alike do no harm.
    pub fn reference(&self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let bits = self.id.uuid().as_u128();
        let letter = |i: u32| char::from(LETTERS[(bits >> (5 * i)) as usize & 31]);
        (0..5).map(letter).chain(['-']).chain((5..10).map(letter)).collect()
    }
}
