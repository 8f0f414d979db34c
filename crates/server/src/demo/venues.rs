//! The venues of the demo: a theatre, a stadium and a field.
//!
//! Map positions are in seat widths. A section is a rectangle of rows and numbers, so every stand is made of those.

use rowlock_core::command::NewSection;
use rowlock_core::event::Tier;
use rowlock_core::money::Currency;
use rowlock_core::policy::Policy;
use rowlock_core::seat::Section;
use rowlock_core::text::Row;
use rowlock_core::{BlockId, Name};

pub struct Venue {
    pub name: &'static str,
    pub tiers: Vec<Tier>,
    pub policy: Policy,
    pub sections: Vec<NewSection>,
    pub areas: Vec<NewArea>,
}

pub struct NewArea {
    pub name: &'static str,
    pub tier: &'static str,
    pub capacity: u32,
}

pub fn all() -> [Venue; 3] {
    [theatre(), stadium(), festival()]
}

pub fn currency() -> Currency {
    "EUR".parse().expect("EUR is a currency")
}

fn tiers(prices: &[(&str, i64)]) -> Vec<Tier> {
    prices.iter().map(|(code, price)| Tier { code: name(code), price: *price }).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).expect("the names in the demo are valid")
}

/// Rows A, B, C and so on, from the `first`th on.
fn letters(first: u8, count: u8) -> Vec<Row> {
    let row = |i: u8| Row::new(&char::from(b'A' + i).to_string()).expect("a letter is a row");
    (first..first + count).map(row).collect()
}

fn numbers(count: u32) -> Vec<Row> {
    (1..=count).map(|i| Row::new(&i.to_string()).expect("a number is a row")).collect()
}

struct Rectangle {
    rows: Vec<Row>,
    first: u32,
    last: u32,
    x: f32,
    y: f32,
    row_pitch: f32,
}

fn section(block: &str, tier: &str, rectangle: Rectangle) -> NewSection {
    let Rectangle { rows, first, last, x, y, row_pitch } = rectangle;
    let section = Section {
        // Block and tier are filled in by the kernel, which knows them by these names.
        block: BlockId::from_uuid(uuid::Uuid::nil()),
        tier: 0,
        rows,
        first_number: first,
        last_number: last,
        x,
        y,
        seat_pitch: 1.0,
        row_pitch,
    };
    NewSection { block: name(block), tier: name(tier), section }
}

/// 2,000 seats: stalls, circle and balcony, one behind the other, each with an aisle in the middle.
fn theatre() -> Venue {
    const HALF: u32 = 25;
    const AISLE: f32 = 3.0;
    const ROW_PITCH: f32 = 1.5;
    let mut sections = Vec::new();
    let mut parts = |block: &str, tier: &str, first_row: u8, rows: u8, y: f32| {
        let y = y + f32::from(first_row) * ROW_PITCH;
        for (first, x) in [(1, 0.0), (HALF + 1, HALF as f32 + AISLE)] {
            let rows = letters(first_row, rows);
            let last = first + HALF - 1;
            sections.push(section(block, tier, Rectangle { rows, first, last, x, y, row_pitch: ROW_PITCH }));
        }
    };
    parts("Stalls", "premium", 0, 12, 10.0);
    parts("Stalls", "standard", 12, 8, 10.0);
    parts("Circle", "premium", 0, 4, 46.0);
    parts("Circle", "standard", 4, 8, 46.0);
    parts("Balcony", "standard", 0, 8, 70.0);
    Venue {
        name: "The Rowlock Theatre",
        tiers: tiers(&[("premium", 9_500), ("standard", 6_000)]),
        policy: Policy::default(),
        sections,
        areas: Vec::new(),
    }
}

/// 100,000 seats: 80 blocks of 25 rows with 50 seats, in a lower and an upper ring around the pitch.
fn stadium() -> Venue {
    const ROWS: u32 = 25;
    const SEATS: u32 = 50;
    const A_SIDE: u32 = 10;
    const GAP: f32 = 4.0;
    const WIDTH: f32 = SEATS as f32 + GAP;
    const DEPTH: f32 = ROWS as f32 + GAP;
    // The space inside the lower ring.
    const INNER_WIDTH: f32 = A_SIDE as f32 * WIDTH;
    const INNER_DEPTH: f32 = A_SIDE as f32 * DEPTH;

    let mut sections = Vec::new();
    for (ring, tier) in [(0, "lower"), (1, "upper")] {
        let out = ring as f32;
        for side in 0..4 {
            for i in 0..A_SIDE {
                let along = i as f32;
                // Row 1 is the one next to the pitch, so in the north rows grow upwards on the map.
                let (x, y, row_pitch) = match side {
                    0 => (along * WIDTH, -GAP - out * DEPTH, -1.0),
                    1 => (INNER_WIDTH + GAP + out * WIDTH, along * DEPTH, 1.0),
                    2 => (along * WIDTH, INNER_DEPTH + GAP + out * DEPTH, 1.0),
                    _ => (-(out + 1.0) * WIDTH, along * DEPTH, 1.0),
                };
                let block = (ring + 1) * 100 + side * A_SIDE + i + 1;
                let rows = numbers(ROWS);
                let rectangle = Rectangle { rows, first: 1, last: SEATS, x, y, row_pitch };
                sections.push(section(&format!("Block {block}"), tier, rectangle));
            }
        }
    }
    Venue {
        name: "Rowlock Stadium",
        tiers: tiers(&[("lower", 8_000), ("upper", 4_500)]),
        policy: Policy::default(),
        sections,
        areas: Vec::new(),
    }
}

/// No seats at all: two areas for general admission.
fn festival() -> Venue {
    Venue {
        name: "Rowlock Festival",
        tiers: tiers(&[("front", 12_000), ("field", 7_500)]),
        policy: Policy::default(),
        sections: Vec::new(),
        areas: vec![
            NewArea { name: "Front of stage", tier: "front", capacity: 2_000 },
            NewArea { name: "Field", tier: "field", capacity: 20_000 },
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rowlock_core::limits::MAX_SECTIONS_PER_CREATE;
    use rowlock_core::seat::SeatPlace;

    use super::*;

    fn places(venue: &Venue) -> Vec<(&Name, SeatPlace)> {
        venue.sections.iter().flat_map(|new| new.section.places().map(|place| (&new.block, place))).collect()
    }

    #[test]
    fn the_venues_have_the_seats_they_say() {
        let counts = all().map(|venue| places(&venue).len());
        assert_eq!(counts, [2_000, 100_000, 0]);
        for venue in all() {
            assert!(venue.sections.len() <= MAX_SECTIONS_PER_CREATE);
            assert!(venue.sections.iter().all(|new| new.section.check().is_ok()));
        }
    }

    #[test]
    fn no_two_seats_of_a_venue_have_one_name_or_one_place() {
        for venue in all() {
            let places = places(&venue);
            let labels: HashSet<_> = places.iter().map(|(block, place)| (*block, place.label())).collect();
            assert_eq!(labels.len(), places.len(), "{}", venue.name);
            let positions: HashSet<_> =
                places.iter().map(|(_, place)| (place.x.to_bits(), place.y.to_bits())).collect();
            assert_eq!(positions.len(), places.len(), "{}", venue.name);
        }
    }
}
