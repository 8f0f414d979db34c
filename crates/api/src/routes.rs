//! Every route of the API, in one list. The router and the OpenAPI are both made from it.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::{admin, bookings, events, health, occupancy, seats};

/// Routes that want a credential.
pub fn guarded() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(bookings::hold_seats::hold_seats))
        .routes(routes!(bookings::hold_any::hold_any))
        .routes(routes!(bookings::hold::get_hold, bookings::hold::release))
        .routes(routes!(bookings::hold::start_checkout))
        .routes(routes!(bookings::hold::heartbeat))
        .routes(routes!(bookings::booking::confirm))
        .routes(routes!(bookings::booking::book))
        .routes(routes!(bookings::booking::get_booking))
        .routes(routes!(bookings::booking::cancel))
        .routes(routes!(events::get_event))
        .routes(routes!(seats::get_seats))
        .routes(routes!(seats::get_seat))
        .routes(routes!(occupancy::get_occupancy))
        .routes(routes!(admin::orgs::create_org, admin::orgs::list_orgs))
        .routes(routes!(admin::orgs::get_org))
        .routes(routes!(admin::keys::create_key, admin::keys::list_keys))
        .routes(routes!(admin::keys::revoke_key))
        .routes(routes!(admin::events::create_event, admin::events::list_events))
        .routes(routes!(admin::blocks::create_block))
        .routes(routes!(admin::seats::create_seats))
        .routes(routes!(admin::seats::block_seats))
        .routes(routes!(admin::seats::unblock_seats))
        .routes(routes!(admin::areas::create_area))
        .routes(routes!(admin::journal::get_journal))
        .routes(routes!(admin::registry::get_registry))
        .routes(routes!(admin::registry::reconcile))
        .routes(routes!(admin::users::holds_of_user))
}

/// Probes and metrics.
pub fn probes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
}
