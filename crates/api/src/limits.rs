//! The limits that only exist over HTTP. Those of the product itself are in `rowlock_core::limits`.

use std::time::Duration;

/// The body of one request, unless configured otherwise.
pub const DEFAULT_BODY_BYTES: usize = 256 * 1024;
/// How long one request may take, its body included, unless configured otherwise.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects and lists inside one another in a body, unless configured otherwise.
pub const DEFAULT_JSON_DEPTH: usize = 16;

/// Requests a second, unless configured otherwise. A burst may be twice that.
pub const DEFAULT_PER_USER: u32 = 1_000;
pub const DEFAULT_PER_KEY: u32 = 100_000;
pub const DEFAULT_PER_ADDRESS: u32 = 100_000;
/// A burst, in seconds of the rate.
pub const BURST_SECONDS: u32 = 2;
/// Callers that a rate limiter remembers before it forgets the idle ones.
pub const MAX_RATE_ENTRIES: usize = 100_000;

/// Items of a page when the client does not say, and at most.
pub const DEFAULT_PAGE: usize = 100;
pub const MAX_PAGE: usize = 1_000;
/// Holds of a user in a page: each may be of another event that has to be loaded.
pub const MAX_HOLDS_PAGE: usize = 100;

/// A page of the journal ends when it has more data than this.
pub const MAX_JOURNAL_BYTES: usize = 4 << 20;
/// How much of what a client sent is read out in an error.
pub const MAX_SAID_CHARS: usize = 200;

pub const MAX_REQUEST_ID_CHARS: usize = 64;
/// A bearer credential.
pub const MAX_CREDENTIAL_BYTES: usize = 8 * 1024;
/// Verified tokens that are remembered, so that a busy user's signature is not checked every time.
pub const MAX_CACHED_TOKENS: usize = 10_000;
/// How far the clock of whoever issues tokens may be off.
pub const TOKEN_LEEWAY_SECONDS: u64 = 5;
/// The shortest secret for HS256: as long as its digest.
pub const MIN_SECRET_BYTES: usize = 32;

/// Numbers printed on seats.
pub const MAX_SEAT_NUMBER: i64 = 999_999;
/// Drawn maps that are kept, the static part of the compact form.
pub const MAX_CACHED_MAPS: usize = 64;
/// What a client that is told to come back later should wait, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;

const _: () = assert!(DEFAULT_PAGE <= MAX_PAGE && MAX_HOLDS_PAGE <= MAX_PAGE);

/// Large seat maps that are drawn at once, each on a thread of its own.
pub const MAX_DRAWINGS: usize = 2;
/// What full seat maps take together from when they are drawn until they are sent.
pub const MAX_MAPS_KIB: usize = 512 * 1024;
/// The same of one org.
pub const MAX_MAPS_KIB_OF_ORG: usize = MAX_MAPS_KIB / 4;
/// Requests that may wait for their turn to draw one.
pub const MAX_WAITING_DRAWINGS: usize = 64;
