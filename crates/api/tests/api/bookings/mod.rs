//! `/api/bookings`.

mod booking;
mod hold;
mod hold_any;
mod hold_seats;
