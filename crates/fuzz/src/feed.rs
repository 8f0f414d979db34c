//! Bytes read as small decisions. Where they end there are zeros, so that every input means something.

pub struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u8) -> u8 {
        self.byte() % end.max(1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.below(times) == times - 1
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number that is small, at an end of its type, or anything.
    pub fn number(&mut self) -> u32 {
        match self.below(8) {
            0..5 => u32::from(self.byte()),
            5 => u32::MAX - u32::from(self.byte()),
            _ => self.u32(),
        }
    }

    /// Up to `most` bytes, as many as the first of them says.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let wanted = usize::from(self.byte()).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(wanted);
        self.0 = rest;
        taken
    }

    /// Everything up to a byte, which is taken too.
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let at = self.0.iter().position(|byte| *byte == end).unwrap_or(self.0.len());
        let taken = &self.0[..at];
        self.0 = self.0.get(at + 1..).unwrap_or_default();
        taken
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
