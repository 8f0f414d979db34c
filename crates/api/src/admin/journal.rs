//! The journal of an event: everything that ever happened to it, in order.

use axum::extract::State;
use axum::response::Response;
use rowlock_core::EventId;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{page, page_limit};
use crate::app::App;
use crate::error::Problem;
use crate::extract::{ADMIN, Allowed, Query, Segment};
use crate::limits::{MAX_JOURNAL_BYTES, MAX_PAGE};
use crate::wire::Timestamp;

/// A row can have a quarter of a megabyte, so not all that are asked for are read at once.
const ROWS_AT_ONCE: usize = 100;
/// Sequences are counted in SQL integers.
const MAX_SEQUENCE: u64 = i64::MAX as u64;

/// Something that happened.
#[derive(Serialize, ToSchema)]
#[schema(as = JournalEntry)]
pub struct EntryView<'a> {
    /// Without gaps, from 1.
    sequence: u64,
    id: Uuid,
    /// `EVENT-CREATED`, `BLOCK-CREATED`, `SEATS-CREATED`, `AREA-CREATED`, `SEAT-BLOCKED`, `SEAT-UNBLOCKED`, `SEAT-HOLD-CREATED`,
    /// `SEAT-HOLD-EXTENDED`, `SEAT-HOLD-CONFIRMED`, `SEAT-HOLD-CANCELLED`, `SEAT-HOLD-EXPIRED`, `BOOKING-CONFIRMED` or
    /// `BOOKING-CANCELLED`. There may be others later.
    #[serde(rename = "type")]
    kind: &'a str,
    at: Timestamp,
    /// Who did it: `user:…`, `key:…` or `system`.
    actor: &'a str,
    request_id: &'a str,
    /// What happened, as it was recorded. Its fields depend on the type; docs/journal.md of the source has them. Times are milliseconds
    /// since 1970, the seats of a hold their ordinals.
    #[schema(value_type = Object)]
    data: &'a RawValue,
}

#[derive(Serialize, ToSchema)]
#[schema(as = JournalPage)]
pub struct JournalView<'a> {
    event_id: Uuid,
    entries: Vec<EntryView<'a>>,
}

/// The journal of an event, oldest first.
///
/// A page ends early when it has become large. As long as there is a link to the next one, there may be more.
#[utoipa::path(
    get,
    path = "/api/admin/events/{event_id}/journal",
    tag = "admin",
    params(
        ("event_id" = Uuid, Path, description = "The id of the event."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Items of the page; 100 if absent."),
        ("after" = Option<i64>, Query, minimum = 0, description = "The last sequence of the page before."),
    ),
    responses((status = 200, description = "A page of the journal.", body = JournalView)),
    extensions(("x-scopes" = json!(["admin"])), ("x-problems" = json!(["unknown_event"]))),
)]
pub async fn get_journal(
    State(app): State<App>,
    Allowed(caller): Allowed<ADMIN>,
    Segment(event): Segment<EventId>,
    query: Query,
) -> Result<Response, Problem> {
    let query = query.only(&["limit", "after"])?;
    let limit = page_limit(&query, MAX_PAGE)?;
    let after = query.number("after", 0, MAX_SEQUENCE)?.unwrap_or(0);
    let (mut rows, mut bytes, mut last) = (Vec::new(), 0, after);
    let is_full = loop {
        let wanted = (limit - rows.len()).min(ROWS_AT_ONCE);
        let more = app.engine.journal(caller.org, event, last, wanted).await?;
        last = more.last().map_or(last, |row| row.sequence);
        let is_last = more.len() < wanted;
        bytes += more.iter().map(|row| row.data.len()).sum::<usize>();
        rows.extend(more);
        if is_last {
            break false;
        }
        if rows.len() == limit || bytes >= MAX_JOURNAL_BYTES {
            break true;
        }
    };
    let entries = rows.iter().map(|row| EntryView {
        sequence: row.sequence,
        id: row.id.uuid(),
        kind: &row.kind,
        at: Timestamp(row.at),
        actor: &row.actor,
        request_id: &row.request_id,
        data: serde_json::from_str(&row.data).unwrap_or(RawValue::NULL),
    });
    let view = JournalView { event_id: event.uuid(), entries: entries.collect() };
    let path = format!("/api/admin/events/{event}/journal");
    Ok(page(&view, &path, limit, is_full, Some(last.to_string())))
}
