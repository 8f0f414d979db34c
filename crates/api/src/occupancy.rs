//! `GET /api/events/{event_id}/occupancy`: how full it is.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use rowlock_core::EventId;
use rowlock_core::area::Area;
use rowlock_registry::Counts;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::error::Problem;
use crate::extract::{Allowed, NoQuery, READ, Segment};
use crate::json;

/// Places by status, and each as a percentage of the total with one decimal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Places {
    available: u64,
    held: u64,
    sold: u64,
    blocked: u64,
    total: u64,
    percentages: Percentages,
}

/// Of the total, with one decimal. All 0 when the total is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Percentages {
    #[schema(minimum = 0, maximum = 100)]
    available: f64,
    #[schema(minimum = 0, maximum = 100)]
    held: f64,
    #[schema(minimum = 0, maximum = 100)]
    sold: f64,
    #[schema(minimum = 0, maximum = 100)]
    blocked: f64,
}

#[derive(Serialize, ToSchema)]
pub struct BlockOccupancy<'a> {
    block_id: Uuid,
    name: &'a str,
    seats: Places,
}

#[derive(Serialize, ToSchema)]
pub struct AreaOccupancy<'a> {
    area_id: Uuid,
    name: &'a str,
    capacity: u32,
    places: Places,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Occupancy)]
pub struct OccupancyView<'a> {
    event_id: Uuid,
    /// The journal sequence that the counts are of.
    sequence: u64,
    available: u64,
    held: u64,
    sold: u64,
    blocked: u64,
    /// Seats and places of areas together.
    total: u64,
    percentages: Percentages,
    blocks: Vec<BlockOccupancy<'a>>,
    areas: Vec<AreaOccupancy<'a>>,
}

impl Places {
    fn new(available: u64, held: u64, sold: u64, blocked: u64) -> Self {
        let total = available + held + sold + blocked;
        let share = |part: u64| match total {
            0 => 0.0,
            total => (part as f64 * 1000.0 / total as f64).round() / 10.0,
        };
        let percentages = Percentages {
            available: share(available),
            held: share(held),
            sold: share(sold),
            blocked: share(blocked),
        };
        Self { available, held, sold, blocked, total, percentages }
    }

    fn of_seats(counts: Counts) -> Self {
        Self::new(counts.available.into(), counts.held.into(), counts.sold.into(), counts.blocked.into())
    }

    fn of_area(area: &Area) -> Self {
        Self::new(area.available().into(), area.held.into(), area.sold.into(), 0)
    }

    fn plus(self, other: Self) -> Self {
        Self::new(
            self.available + other.available,
            self.held + other.held,
            self.sold + other.sold,
            self.blocked + other.blocked,
        )
    }
}

/// How many places are available, held, sold and blocked.
///
/// Of the whole event, and of each block and area. Percentages are rounded to one digit each, so they need not add up to 100, and
/// few places of many are 0.0: count with the numbers.
#[utoipa::path(
    get,
    path = "/api/events/{event_id}/occupancy",
    tag = "events",
    params(("event_id" = Uuid, Path, description = "The id of the event.")),
    responses((status = 200, description = "The counts.", body = OccupancyView)),
    extensions(("x-scopes" = json!(["read"])), ("x-problems" = json!(["unknown_event"]))),
)]
pub async fn get_occupancy(
    State(app): State<App>,
    Allowed(caller): Allowed<READ>,
    Segment(id): Segment<EventId>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let live = app.engine.event(caller.org, id).await?;
    let hot = live.read();
    let areas = hot.areas();
    let all = areas.iter().map(Places::of_area).fold(Places::of_seats(hot.counts()), Places::plus);
    let view = OccupancyView {
        event_id: id.uuid(),
        sequence: hot.sequence(),
        available: all.available,
        held: all.held,
        sold: all.sold,
        blocked: all.blocked,
        total: all.total,
        percentages: all.percentages,
        blocks: hot
            .block_counts()
            .map(|(block, counts)| BlockOccupancy {
                block_id: block.id.uuid(),
                name: block.name.as_str(),
                seats: Places::of_seats(counts),
            })
            .collect(),
        areas: areas
            .iter()
            .map(|area| AreaOccupancy {
                area_id: area.id.uuid(),
                name: area.name.as_str(),
                capacity: area.capacity,
                places: Places::of_area(area),
            })
            .collect(),
    };
    Ok(json::respond(StatusCode::OK, &view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_one_decimal_and_survive_nothing() {
        let none = Places::new(0, 0, 0, 0);
        assert_eq!((none.total, none.percentages.available), (0, 0.0));
        let thirds = Places::new(2, 1, 0, 0);
        assert_eq!((thirds.percentages.available, thirds.percentages.held), (66.7, 33.3));
    }
}
