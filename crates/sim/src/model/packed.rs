//! A state as a few words: quick to hash, and an order that says which of several alike states stands for all.

use super::state::{Claim, Client, Difference, Entry, Hold, Node, Request, Seat, State};

pub type Packed = [u64; 6];

/// Fills words from their low end. A value never needs more bits than it is given.
struct Packer {
    words: Packed,
    word: usize,
    used: u32,
}

impl Packer {
    fn put(&mut self, value: u8, bits: u32) {
        debug_assert!(u32::from(value) < 1 << bits, "{value} needs more than {bits} bits");
        if self.used + bits > 64 {
            self.word += 1;
            self.used = 0;
        }
        self.words[self.word] |= u64::from(value) << self.used;
        self.used += bits;
    }

    fn flag(&mut self, value: bool) {
        self.put(u8::from(value), 1);
    }

    fn seat(&mut self, seat: Seat) {
        self.put(
            match seat {
                Seat::Free => 0,
                Seat::Held(client) => 1 + client,
                Seat::Sold(client) => 4 + client,
            },
            3,
        );
    }

    fn claim(&mut self, claim: Claim) {
        self.put(
            match claim {
                Claim::None => 0,
                Claim::Pending(client) => 1 + client,
                Claim::Promoted(client, nth) => 4 + client * 4 + nth,
            },
            4,
        );
    }

    fn hold(&mut self, hold: &Hold) {
        self.put(hold.status as u8, 3);
        self.put(hold.nth, 2);
        self.put(hold.left, 2);
        self.flag(hold.extended);
    }

    fn entry(&mut self, entry: &Entry) {
        self.put(entry.fact as u8, 2);
        self.put(entry.client, 2);
        self.put(entry.nth, 2);
        self.flag(entry.lost);
    }

    fn node(&mut self, node: &Node) {
        self.put(node.forgotten, 3);
        match &node.reaper {
            None => self.put(3, 2),
            Some(reaping) => {
                self.put(reaping.client, 2);
                self.flag(reaping.stale);
            }
        }
    }

    fn request(&mut self, request: Option<&Request>) {
        let Some(request) = request else { return self.put(0, 3) };
        self.put(1 + request.phase as u8, 3);
        self.put(request.verb as u8, 2);
        self.put(request.target, 2);
        self.put(request.nth, 2);
        self.put(request.node, 1);
        self.put(request.claimed, 2);
        self.put(request.left, 2);
        self.flag(request.writes);
        self.put(request.ends, 3);
        self.flag(request.stale);
        self.put(request.number, 4);
    }

    fn client(&mut self, client: &Client) {
        self.put(client.stage as u8, 3);
        self.put(client.nth, 2);
        self.put(client.left, 2);
        self.flag(client.asked_extension);
        self.put(client.sends, 3);
        client.requests.iter().for_each(|request| self.request(request.as_ref()));
    }

    fn difference(&mut self, difference: Option<&Difference>) {
        self.flag(difference.is_some());
        let Some(found) = difference else { return };
        self.put(found.seat, 1);
        self.claim(found.claim);
        let (client, nth) = found.held.unwrap_or((3, 0));
        self.put(client, 2);
        self.put(nth, 2);
    }
}

impl State {
    pub fn packed(&self) -> Packed {
        let mut packer = Packer { words: [0; 6], word: 0, used: 0 };
        self.seats.iter().for_each(|seat| packer.seat(*seat));
        self.holds.iter().for_each(|hold| packer.hold(hold));
        packer.put(self.records, 3);
        packer.put(self.journal.len, 3);
        packer.put(self.journal.reserved, 4);
        self.journal.entries().iter().for_each(|entry| packer.entry(entry));
        self.claims.iter().for_each(|claim| packer.claim(*claim));
        self.nodes.iter().for_each(|node| packer.node(node));
        self.follower.iter().for_each(|seat| packer.seat(*seat));
        self.clients.iter().for_each(|client| packer.client(client));
        packer.difference(self.reconcile.as_ref());
        packer.put(self.faults, 3);
        packer.put(self.wrongs.0, 6);
        packer.words
    }

    /// The first of the states that are alike: it does not matter which request of a client is in which slot.
    pub fn with_sorted_requests(mut self) -> Self {
        for client in &mut self.clients {
            let key = |request: &Option<Request>| {
                let mut packer = Packer { words: [0; 6], word: 0, used: 0 };
                packer.request(request.as_ref());
                packer.words[0]
            };
            client.requests.sort_unstable_by_key(|request| std::cmp::Reverse(key(request)));
        }
        self
    }

    /// The same with the second and the third client called the other way round, and the seats as well when each of
    /// them wants another one.
    pub fn with_sides_swapped(mut self, seats: bool) -> Self {
        let other = |client: u8| match client {
            1 => 2,
            2 => 1,
            same => same,
        };
        let swap_set = |set: u8| set & 1 | (set & 2) << 1 | (set & 4) >> 1;
        let claim = |claim: Claim| match claim {
            Claim::None => Claim::None,
            Claim::Pending(client) => Claim::Pending(other(client)),
            Claim::Promoted(client, nth) => Claim::Promoted(other(client), nth),
        };
        let seat = |seat: Seat| match seat {
            Seat::Free => Seat::Free,
            Seat::Held(client) => Seat::Held(other(client)),
            Seat::Sold(client) => Seat::Sold(other(client)),
        };
        self.seats = self.seats.map(seat);
        self.follower = self.follower.map(seat);
        self.claims = self.claims.map(claim);
        self.holds.swap(1, 2);
        self.clients.swap(1, 2);
        self.records = swap_set(self.records);
        for entry in &mut self.journal.entries[..usize::from(self.journal.len)] {
            entry.client = other(entry.client);
        }
        for node in &mut self.nodes {
            node.forgotten = swap_set(node.forgotten);
            if let Some(reaping) = &mut node.reaper {
                reaping.client = other(reaping.client);
            }
        }
        if let Some(found) = &mut self.reconcile {
            found.claim = claim(found.claim);
            found.held = found.held.map(|(client, nth)| (other(client), nth));
            found.seat ^= u8::from(seats);
        }
        for request in self.requests_mut() {
            request.target = other(request.target);
            request.ends = swap_set(request.ends);
            if seats {
                request.claimed = (request.claimed & 1) << 1 | request.claimed >> 1;
            }
        }
        if seats {
            self.seats.swap(0, 1);
            self.claims.swap(0, 1);
            self.follower.swap(0, 1);
        }
        self
    }
}
