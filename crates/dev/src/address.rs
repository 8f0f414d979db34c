//! Addresses that two tests can't both take.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::DevError;

/// A loopback address that belongs to this process alone, so that a port found free here stays free: the only others
/// that bind to it are the servers that this process starts.
pub fn own_ip() -> Ipv4Addr {
    // Process ids have at most 22 bits. The last two bits keep clear of .0 and .255.
    Ipv4Addr::from_bits(0x7f00_0000 | ((std::process::id() & 0x3f_ffff) << 2) | 1)
}

/// An address of this process with a port that nobody listens on, and that nobody was given before: a server may need
/// several, and listens on the first only after it has the last.
pub fn free() -> Result<SocketAddr, DevError> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let listener = TcpListener::bind((IpAddr::V4(own_ip()), 0));
        let address = listener.and_then(|listener| listener.local_addr());
        let address = address.map_err(DevError::io("no free port could be found"))?;
        if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(address.port()) {
            return Ok(address);
        }
    }
}
