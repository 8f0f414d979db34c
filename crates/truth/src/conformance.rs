//! What every truth must do, written once.
//!
//! A store implements [`Backend`] in its tests and expands [`conformance!`](crate::conformance) there: one test a
//! case. A case panics when the truth is wrong.

pub mod any;
pub mod batches;
pub mod concurrency;
pub mod creation;
pub mod holds;
pub mod idempotency;
pub mod reads;
pub mod replica;
pub mod restart;
pub mod stage;
pub mod takeover;

use std::sync::Arc;

use crate::{Answer, Truth};

/// A store under test, with data of its own that lives as long as this does.
pub trait Backend: Send + Sync + 'static {
    /// Opens the truth. After [`Truth::close`] it is opened again on the same data, as after a restart.
    fn open(&self) -> Answer<'_, Arc<dyn Truth>>;

    /// Makes the storage itself fail whenever a hold of this user is inserted.
    fn poison<'a>(&'a self, user: &'a str) -> Answer<'a, ()>;

    /// Moves the end of all idempotency records this much closer, as if they were older.
    fn age_records(&self, millis: i64) -> Answer<'_, ()>;
}

/// Expands to one test for each case. `$backend` makes a fresh [`Backend`] each time it is evaluated.
#[macro_export]
macro_rules! conformance {
    ($backend:expr) => {
        $crate::conformance_cases! { $backend;
            holds::lifecycle,
            holds::cancelled_booking_returns_its_seats_once,
            holds::all_or_nothing,
            holds::part_of_a_hold_can_be_released,
            holds::one_cart_is_one_hold,
            holds::blocked_seats_are_not_for_sale,
            holds::areas_never_exceed_their_capacity,
            batches::conflicts_inside_one_batch,
            batches::later_commands_see_earlier_ones,
            batches::usage_limit_inside_one_batch,
            batches::poisonous_command_hurts_nobody_else,
            batches::sequences_have_no_gaps,
            concurrency::thousand_holders_of_one_seat,
            concurrency::area_is_sold_to_its_last_place,
            any::any_seats_are_side_by_side,
            any::any_seats_asked_for_again_are_the_same,
            any::full_block_says_what_is_left,
            any::expired_seats_of_a_block_are_taken_over,
            any::who_gave_a_seat_back_does_not_stand_in_its_way,
            any::choosing_and_naming_in_one_batch,
            any::a_batch_that_wants_very_many_seats,
            any::block_is_allocated_to_its_last_seat,
            creation::one_batch_over_many_events,
            creation::one_place_is_one_seat,
            creation::seats_beyond_an_event_are_nobodys,
            creation::another_orgs_things_do_not_exist,
            creation::names_and_limits_are_kept,
            takeover::expired_seat_is_taken_over,
            takeover::expired_area_places_are_taken_over,
            takeover::expired_cart_makes_room_for_a_new_one,
            takeover::due_holds_are_listed_and_end_once,
            idempotency::replay_survives_a_restart,
            idempotency::other_body_is_refused,
            idempotency::same_key_twice_in_one_batch,
            idempotency::refusal_is_not_recorded,
            idempotency::keys_of_others_are_other_keys,
            idempotency::old_records_are_swept,
            restart::everything_is_kept,
            reads::snapshot_equals_replayed_facts,
            reads::holds_of_a_user_come_in_pages,
            reads::journal_comes_in_pages,
            reads::events_come_in_pages,
            reads::orgs_come_in_pages,
            reads::api_keys_are_read_back,
            reads::what_does_not_exist_is_none,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($backend:expr; $($module:ident::$case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$module::$case(&$backend).await;
            }
        )*
    };
}
