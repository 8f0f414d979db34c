//! Seats in bulk, and taking them off sale.

mod rows;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::command::NewSection;
use rowlock_core::limits::{MAX_SEATS_PER_CREATE, MAX_SEATS_PER_REQUEST, MAX_SECTIONS_PER_CREATE};
use rowlock_core::seat::Section;
use rowlock_core::{BlockId, Command, EventId, IdempotencyKey, Outcome, SeatId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::{App, unexpected};
use crate::auth::Caller;
use crate::bookings::view::mark_replayed;
use crate::error::Problem;
use crate::events::BlockView;
use crate::extract::{ADMIN, Allowed, Posted, Segment};
use crate::json;
use crate::list::{List, Object};
use crate::wire::{Coordinate, IdText, NameText, SeatNumber};
use rows::Rows;

/// The numbers of each row, both ends included.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    #[schema(inline)]
    from: SeatNumber,
    #[schema(inline)]
    to: SeatNumber,
}

/// A rectangle of seats: each row has each number.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SectionInput {
    /// The name of its block, which is made if it does not exist.
    #[schema(inline)]
    block: NameText,
    /// Each once, or from one to another: at most 1000, `from` not behind `to`.
    #[schema(inline)]
    rows: Rows,
    /// `from` not above `to`.
    #[schema(inline, value_type = Numbers)]
    numbers: Object<Numbers>,
    /// The code of one of the event's tiers.
    #[schema(inline)]
    tier: NameText,
    /// Map position of the first seat of the first row; 0 unless given.
    #[schema(inline)]
    x: Option<Coordinate>,
    #[schema(inline)]
    y: Option<Coordinate>,
    /// From seat to seat along x; 1 unless given.
    #[schema(inline)]
    seat_pitch: Option<Coordinate>,
    /// From row to row along y; 1 unless given.
    #[schema(inline)]
    row_pitch: Option<Coordinate>,
}

pub type Sections = List<Object<SectionInput>, 1, MAX_SECTIONS_PER_CREATE>;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSeats {
    /// Together at most 100,000 seats.
    #[schema(inline)]
    sections: Sections,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SeatsCreated)]
pub struct SeatsCreatedView<'a> {
    event_id: Uuid,
    count: u32,
    /// The new seats are those from here on, in the order of sections, rows and numbers.
    first_seat_id: Uuid,
    last_seat_id: Uuid,
    /// The blocks that got seats.
    blocks: Vec<BlockView<'a>>,
}

pub type SomeSeatIds = List<IdText<SeatId>, 1, MAX_SEATS_PER_REQUEST>;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SeatList {
    #[schema(inline)]
    seat_ids: SomeSeatIds,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SeatsChanged)]
pub struct SeatsChangedView {
    event_id: Uuid,
    /// Those that changed. The others were so already.
    changed: Vec<Uuid>,
}

impl SectionInput {
    fn section(self) -> NewSection {
        let place = |given: Option<Coordinate>, default| given.map_or(default, |place| place.0);
        NewSection {
            block: self.block.0,
            tier: self.tier.0,
            section: Section {
                // Filled in by the kernel, which knows the block and tier of these names.
                block: BlockId::from_uuid(Uuid::nil()),
                tier: 0,
                rows: self.rows.0,
                first_number: self.numbers.0.from.0,
                last_number: self.numbers.0.to.0,
                x: place(self.x, 0.0),
                y: place(self.y, 0.0),
                seat_pitch: place(self.seat_pitch, 1.0),
                row_pitch: place(self.row_pitch, 1.0),
            },
        }
    }
}

/// Creates seats in bulk: blocks × rows × numbers.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/seats",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body = CreateSeats,
    responses((status = 201, description = "Created.", body = SeatsCreatedView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event", "unknown_tier", "place_taken", "event_full"])),
    ),
)]
pub async fn create_seats(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    posted: Posted<CreateSeats>,
) -> Result<Response, Problem> {
    let sections: Vec<NewSection> =
        posted.body.sections.0.into_iter().map(|section| section.0.section()).collect();
    let mut count = 0;
    for (i, new) in sections.iter().enumerate() {
        count += new.section.check().map_err(|rule| Problem::invalid(format!("sections[{i}]"), rule))?;
    }
    // The kernel says so as well, but what is too much need not wait in a queue for that.
    if count > MAX_SEATS_PER_CREATE {
        let rule = format_args!("must have at most {MAX_SEATS_PER_CREATE} seats together");
        return Err(Problem::invalid("sections", rule));
    }
    let reply = app.execute(&caller, Command::CreateSeats { event, sections }, posted.idempotency).await?;
    let Outcome::Seats(created) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let blocks = created.blocks.iter();
    let view = SeatsCreatedView {
        event_id: event.uuid(),
        count: created.count,
        first_seat_id: SeatId::of(event, created.first_ordinal).uuid(),
        last_seat_id: SeatId::of(event, created.first_ordinal + created.count.saturating_sub(1)).uuid(),
        blocks: blocks
            .map(|block| BlockView { block_id: block.id.uuid(), name: block.name.as_str() })
            .collect(),
    };
    Ok(mark_replayed(json::respond(StatusCode::CREATED, &view), reply.replayed))
}

/// Takes seats off sale. Those that are held or sold refuse the whole request.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/seats/block",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body = SeatList,
    responses((status = 200, description = "Off sale.", body = SeatsChangedView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event", "unknown_seats", "seats_taken"])),
    ),
)]
pub async fn block_seats(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    posted: Posted<SeatList>,
) -> Result<Response, Problem> {
    let seats = different(posted.body)?;
    mark(&app, &caller, Command::BlockSeats { event, seats }, posted.idempotency).await
}

/// Puts blocked seats back on sale. Those that are not blocked stay as they are.
#[utoipa::path(
    post,
    path = "/api/admin/events/{event_id}/seats/unblock",
    tag = "admin",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    request_body = SeatList,
    responses((status = 200, description = "On sale.", body = SeatsChangedView)),
    extensions(
        ("x-scopes" = json!(["admin"])),
        ("x-problems" = json!(["unknown_event", "unknown_seats"])),
    ),
)]
pub async fn unblock_seats(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    posted: Posted<SeatList>,
) -> Result<Response, Problem> {
    let seats = different(posted.body)?;
    mark(&app, &caller, Command::UnblockSeats { event, seats }, posted.idempotency).await
}

fn different(list: SeatList) -> Result<Vec<SeatId>, Problem> {
    let seats: Vec<SeatId> = list.seat_ids.0.into_iter().map(|seat| seat.0).collect();
    let mut sorted = seats.clone();
    sorted.sort_unstable();
    match sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(Problem::invalid("seat_ids", "must not name a seat twice")),
        false => Ok(seats),
    }
}

async fn mark(
    app: &App,
    caller: &Caller,
    command: Command,
    idempotency: Option<IdempotencyKey>,
) -> Result<Response, Problem> {
    let reply = app.execute(caller, command, idempotency).await?;
    let Outcome::Blocking(marked) = &reply.outcome else { return Err(unexpected(&reply.outcome)) };
    let changed = marked.seats.iter().map(|seat| seat.uuid()).collect();
    let view = SeatsChangedView { event_id: marked.event.uuid(), changed };
    Ok(mark_replayed(json::respond(StatusCode::OK, &view), reply.replayed))
}
