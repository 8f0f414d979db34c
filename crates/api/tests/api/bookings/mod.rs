//! `/api/bookings`.

mod booking;
mod hold;
mod hold_seats;
