//! A seat. Its row has room for one owner, so two are impossible by construction.

use serde::{Deserialize, Serialize};

use crate::ids::{BlockId, HoldId, TicketId};
use crate::limits::{MAX_COORDINATE, MAX_ROWS_PER_SECTION, MAX_SEATS_PER_CREATE};
use crate::text::Row;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SeatStatus {
    Available = 0,
    Held = 1,
    Sold = 2,
    Blocked = 3,
}

impl SeatStatus {
    pub const ALL: [SeatStatus; 4] =
        [SeatStatus::Available, SeatStatus::Held, SeatStatus::Sold, SeatStatus::Blocked];

    pub const fn as_str(self) -> &'static str {
        match self {
            SeatStatus::Available => "available",
            SeatStatus::Held => "held",
            SeatStatus::Sold => "sold",
            SeatStatus::Blocked => "blocked",
        }
    }
}

/// The part of a seat that changes. What is printed on it is in [`SeatPlace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    pub state: SeatState,
    /// Index into the event's tiers.
    pub tier: u8,
}

/// Who has the seat. Only one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatState {
    Available,
    Held { hold: HoldId, until: Time },
    Sold { ticket: TicketId },
    Blocked,
}

impl SeatState {
    pub const fn status(&self) -> SeatStatus {
        match self {
            SeatState::Available => SeatStatus::Available,
            SeatState::Held { .. } => SeatStatus::Held,
            SeatState::Sold { .. } => SeatStatus::Sold,
            SeatState::Blocked => SeatStatus::Blocked,
        }
    }

    /// The hold that has the seat, over or not.
    pub const fn hold(&self) -> Option<HoldId> {
        match self {
            SeatState::Held { hold, .. } => Some(*hold),
            _ => None,
        }
    }
}

/// Where a seat is: what a map shows of it besides its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatPlace {
    pub block: BlockId,
    pub row: Row,
    pub number: u32,
    pub tier: u8,
    pub x: f32,
    pub y: f32,
}

impl SeatPlace {
    pub fn label(&self) -> String {
        label(self.row.as_str(), self.number)
    }
}

/// What is printed on a seat.
pub fn label(row: &str, number: u32) -> String {
    format!("{row}-{number}")
}

/// A rectangle of seats: rows × numbers in one block. Bulk creation is made of these, and the journal keeps them
/// instead of a hundred thousand single seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    pub block: BlockId,
    pub rows: Vec<Row>,
    pub first_number: u32,
    pub last_number: u32,
    pub tier: u8,
    /// Map position of the first seat of the first row, and the distance to the next seat and row.
    pub x: f32,
    pub y: f32,
    pub seat_pitch: f32,
    pub row_pitch: f32,
}

impl Section {
    /// The seats in this section, or `None` when that is more than one request may create.
    pub fn count(&self) -> Option<u32> {
        let numbers = self.last_number.checked_sub(self.first_number)?.checked_add(1)?;
        let count = numbers.checked_mul(u32::try_from(self.rows.len()).ok()?)?;
        (1..=MAX_SEATS_PER_CREATE).contains(&count).then_some(count)
    }

    pub fn check(&self) -> Result<u32, &'static str> {
        if self.rows.is_empty() || self.rows.len() > MAX_ROWS_PER_SECTION {
            return Err("must have between 1 and 1000 rows");
        }
        let mut sorted: Vec<&Row> = self.rows.iter().collect();
        sorted.sort();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("must have different rows");
        }
        let positions = [self.x, self.y, self.seat_pitch, self.row_pitch];
        if positions.iter().any(|p| !p.is_finite() || p.abs() > MAX_COORDINATE) {
            return Err("must have map positions between -1000000 and 1000000");
        }
        self.count().ok_or("must have between 1 and 100000 seats, its first number not above its last")
    }

    /// The seats of the section in ordinal order.
    pub fn places(&self) -> impl Iterator<Item = SeatPlace> {
        self.rows.iter().enumerate().flat_map(move |(line, row)| {
            (self.first_number..=self.last_number).enumerate().map(move |(column, number)| SeatPlace {
                block: self.block,
                row: row.clone(),
                number,
                tier: self.tier,
                x: step(self.x, self.seat_pitch, column),
                y: step(self.y, self.row_pitch, line),
            })
        })
    }
}

/// In more digits than are kept: then 1.1 and two steps of 0.1 are 1.3 and not 1.3000001.
fn step(start: f32, pitch: f32, steps: usize) -> f32 {
    (f64::from(start) + f64::from(pitch) * steps as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn section() -> Section {
        Section {
            block: BlockId::from_uuid(Uuid::from_u128(1)),
            rows: ["A", "B"].map(|r| Row::new(r).unwrap()).to_vec(),
            first_number: 1,
            last_number: 3,
            tier: 0,
            x: 10.0,
            y: 20.0,
            seat_pitch: 1.0,
            row_pitch: 2.0,
        }
    }

    #[test]
    fn a_section_is_rows_times_numbers_in_order() {
        let places: Vec<SeatPlace> = section().places().collect();
        let labels: Vec<String> = places.iter().map(SeatPlace::label).collect();
        assert_eq!(labels, ["A-1", "A-2", "A-3", "B-1", "B-2", "B-3"]);
        assert_eq!((places[5].x, places[5].y), (12.0, 22.0));
        assert_eq!(section().check(), Ok(6));
    }

    #[test]
    fn a_section_that_is_empty_huge_or_twisted_is_refused() {
        let broken: [fn(&mut Section); 7] = [
            |s| s.rows.clear(),
            |s| s.last_number = 0,
            |s| s.last_number = u32::MAX,
            |s| s.last_number = MAX_SEATS_PER_CREATE,
            |s| s.rows.push(s.rows[0].clone()),
            |s| s.x = f32::NAN,
            |s| s.row_pitch = f32::INFINITY,
        ];
        for break_it in broken {
            let mut section = section();
            break_it(&mut section);
            assert!(section.check().is_err(), "{section:?}");
        }
        let all = Section { first_number: 0, last_number: u32::MAX, ..section() };
        assert_eq!(all.count(), None);
    }
}
