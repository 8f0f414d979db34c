//! Where the seats of an event are: the part of a map that does not change when seats are sold.

use rowlock_core::BlockId;
use rowlock_core::event::Block;
use rowlock_core::seat::SeatPlace;
use rowlock_core::text::Row;
use rustc_hash::FxHashMap;

/// Columns by seat ordinal. Rows and blocks are few and are kept once.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub blocks: Vec<Block>,
    pub rows: Vec<Row>,
    pub block_of: Vec<u16>,
    pub row_of: Vec<u32>,
    pub number_of: Vec<u32>,
    pub tier_of: Vec<u8>,
    pub x_of: Vec<f32>,
    pub y_of: Vec<f32>,
    row_index: FxHashMap<Row, u32>,
    block_index: FxHashMap<BlockId, u16>,
}

impl Layout {
    pub fn new(blocks: Vec<Block>, seats: usize) -> Self {
        let block_index = blocks.iter().enumerate().map(|(i, block)| (block.id, i as u16)).collect();
        Self {
            blocks,
            block_index,
            block_of: Vec::with_capacity(seats),
            row_of: Vec::with_capacity(seats),
            number_of: Vec::with_capacity(seats),
            tier_of: Vec::with_capacity(seats),
            x_of: Vec::with_capacity(seats),
            y_of: Vec::with_capacity(seats),
            ..Self::default()
        }
    }

    pub fn len(&self) -> usize {
        self.block_of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.block_of.is_empty()
    }

    /// Makes room for exactly so many more seats.
    pub fn reserve(&mut self, more: usize) {
        self.block_of.reserve_exact(more);
        self.row_of.reserve_exact(more);
        self.number_of.reserve_exact(more);
        self.tier_of.reserve_exact(more);
        self.x_of.reserve_exact(more);
        self.y_of.reserve_exact(more);
    }

    pub fn add_block(&mut self, block: Block) {
        self.block_index.insert(block.id, self.blocks.len() as u16);
        self.blocks.push(block);
    }

    pub fn push(&mut self, place: &SeatPlace) {
        let row = match self.row_index.get(&place.row) {
            Some(row) => *row,
            None => {
                let row = self.rows.len() as u32;
                self.rows.push(place.row.clone());
                self.row_index.insert(place.row.clone(), row);
                row
            }
        };
        self.block_of.push(self.block_index[&place.block]);
        self.row_of.push(row);
        self.number_of.push(place.number);
        self.tier_of.push(place.tier);
        self.x_of.push(place.x);
        self.y_of.push(place.y);
    }

    pub fn block(&self, ordinal: u32) -> &Block {
        &self.blocks[usize::from(self.block_of[ordinal as usize])]
    }

    pub fn row(&self, ordinal: u32) -> &str {
        self.rows[self.row_of[ordinal as usize] as usize].as_str()
    }

    pub fn number(&self, ordinal: u32) -> u32 {
        self.number_of[ordinal as usize]
    }

    pub fn tier(&self, ordinal: u32) -> u8 {
        self.tier_of[ordinal as usize]
    }

    pub fn label(&self, ordinal: u32) -> String {
        rowlock_core::seat::label(self.row(ordinal), self.number(ordinal))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.block_of.capacity() * 2
            + self.row_of.capacity() * 4
            + self.number_of.capacity() * 4
            + self.tier_of.capacity()
            + (self.x_of.capacity() + self.y_of.capacity()) * 4
    }
}
