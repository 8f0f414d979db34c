//! What no story of holds and bookings shows by itself: words, bounds, and what a slice tells the store. Most of these
//! were found by changing the kernel and seeing that nobody noticed.

mod bounds;
mod slices;
mod words;
