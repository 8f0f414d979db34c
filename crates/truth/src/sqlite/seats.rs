//! What the writer knows of seats without reading their rows.
//!
//! Who holds a seat is not in its row: an active hold names its seats, and the writer remembers them by seat. So a hold is
//! added at the end of its tables, however far apart its seats are, and giving them back touches none of their rows. A
//! row is written when its seat is sold or blocked, and when it comes back from that.

use rowlock_core::seat::{SeatState, SeatStatus};
use rowlock_core::{HoldId, Time};
use rusqlite::Statement;
use rustc_hash::FxHashMap;

use super::codec::{self, StoreError, Stored};

pub(super) struct Seats {
    /// In pieces of neighbours, because who takes one seat of a row is followed by others, and because a map of all of them
    /// would stand still for as long as it takes to move them when it grows.
    pieces: FxHashMap<i64, Piece>,
    /// How many pieces there may be until those that nobody holds a seat of are forgotten.
    max_pieces: usize,
}

struct Piece {
    seats: Box<[Seat; PIECE_SEATS]>,
    /// Whether the rows have been read, all of them at once.
    is_read: bool,
}

#[derive(Clone, Copy, Default)]
struct Seat {
    row: Option<SeatRow>,
    held: Option<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    hold: HoldId,
    until: Time,
}

/// The part of a row that a command is decided with. A ticket is not in it: few ask for seats that are sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatRow {
    /// Available, sold or blocked.
    pub status: SeatStatus,
    pub tier: u8,
    version: u32,
}

const PIECE_SEATS: usize = 64;
const PIECE_BITS: u32 = PIECE_SEATS.trailing_zeros();

/// Pieces that are kept at least, 20 MiB of them.
const USUAL_PIECES: usize = 1 << 13;

/// Reads the rows of a piece: from one key to another.
pub(super) const READ_PIECE: &str =
    "SELECT key, status, version, tier FROM seats WHERE key >= ?1 AND key < ?2";

impl SeatRow {
    pub fn version(self) -> u64 {
        self.version.into()
    }

    /// Whether the row is another one when its seat is in this state. A seat that is sold anew has another ticket.
    fn differs(self, state: SeatState) -> bool {
        let status = stored(state);
        status != self.status || status == SeatStatus::Sold
    }
}

/// What a row says of a seat.
pub(super) fn stored(state: SeatState) -> SeatStatus {
    match state {
        SeatState::Available | SeatState::Held { .. } => SeatStatus::Available,
        SeatState::Sold { .. } => SeatStatus::Sold,
        SeatState::Blocked => SeatStatus::Blocked,
    }
}

impl Default for Seats {
    fn default() -> Self {
        Self { pieces: FxHashMap::default(), max_pieces: USUAL_PIECES }
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self { seats: Box::new([Seat::default(); PIECE_SEATS]), is_read: false }
    }
}

impl Seats {
    /// The row of a seat. `None`: there is no such seat.
    pub fn row(&mut self, read_piece: &mut Statement, key: i64) -> Stored<Option<SeatRow>> {
        let piece = self.pieces.entry(key >> PIECE_BITS).or_default();
        if !piece.is_read {
            piece.read(read_piece, key >> PIECE_BITS)?;
        }
        Ok(piece.seats[place(key)].row)
    }

    /// The state of a seat whose row says that it is available: free, or held.
    pub fn state_of_available(&self, key: i64) -> SeatState {
        match self.known(key).held {
            Some(Held { hold, until }) => SeatState::Held { hold, until },
            None => SeatState::Available,
        }
    }

    /// Whether the row of a seat that was loaded must be written for the seat to be in this state.
    pub fn must_write(&self, key: i64, state: SeatState) -> bool {
        self.known(key).row.is_none_or(|row| row.differs(state))
    }

    /// Follows what was committed.
    pub fn follow(&mut self, key: i64, state: SeatState) {
        let seat = self.seat(key);
        seat.held = match state {
            SeatState::Held { hold, until } => Some(Held { hold, until }),
            SeatState::Available | SeatState::Sold { .. } | SeatState::Blocked => None,
        };
        if let Some(row) = &mut seat.row
            && row.differs(state)
        {
            row.status = stored(state);
            row.version += 1;
        }
    }

    pub fn hold(&mut self, key: i64, hold: HoldId, until: Time) {
        self.seat(key).held = Some(Held { hold, until });
    }

    /// There are more rows now than when they were read.
    pub fn added(&mut self, first: i64, count: u32) {
        for number in first >> PIECE_BITS..=(first + i64::from(count)) >> PIECE_BITS {
            if let Some(piece) = self.pieces.get_mut(&number) {
                piece.is_read = false;
            }
        }
    }

    /// Called between batches: a batch must find to its end the rows that it has loaded.
    pub fn trim(&mut self) {
        if self.pieces.len() > self.max_pieces {
            self.pieces.retain(|_, piece| piece.seats.iter().any(|seat| seat.held.is_some()));
            self.max_pieces = USUAL_PIECES.max(2 * self.pieces.len());
        }
    }

    fn known(&self, key: i64) -> Seat {
        self.pieces.get(&(key >> PIECE_BITS)).map_or(Seat::default(), |piece| piece.seats[place(key)])
    }

    fn seat(&mut self, key: i64) -> &mut Seat {
        &mut self.pieces.entry(key >> PIECE_BITS).or_default().seats[place(key)]
    }
}

impl Piece {
    fn read(&mut self, statement: &mut Statement, number: i64) -> Stored<()> {
        let mut rows = statement.query((number << PIECE_BITS, (number + 1) << PIECE_BITS))?;
        while let Some(row) = rows.next()? {
            let status = codec::stored_status(row, 1)?;
            let version = row.get(2).map_err(|_| StoreError::Corrupt("a seat"))?;
            self.seats[place(row.get(0)?)].row = Some(SeatRow { status, tier: row.get(3)?, version });
        }
        self.is_read = true;
        Ok(())
    }
}

fn place(key: i64) -> usize {
    key as usize % PIECE_SEATS
}
