//! Every limit of the product has a name here. Relations between limits are checked when this compiles.

/// Seats that one event can have. A seat map of this size stays within a few megabytes of memory.
pub const MAX_SEATS_PER_EVENT: u32 = 250_000;
/// Seats that one bulk request may create.
pub const MAX_SEATS_PER_CREATE: u32 = 100_000;
/// Sections in one bulk request.
pub const MAX_SECTIONS_PER_CREATE: usize = 500;
/// Rows in one section of a bulk request.
pub const MAX_ROWS_PER_SECTION: usize = 1_000;
/// Seats that one hold, release, block or unblock request may name.
pub const MAX_SEATS_PER_REQUEST: usize = 100;
/// Area lines that one hold request may name.
pub const MAX_AREAS_PER_REQUEST: usize = 20;
/// Places of one area that one request may ask for.
pub const MAX_AREA_QUANTITY: u32 = 1_000;
/// Seats that a cart can collect over several requests.
pub const MAX_SEATS_PER_HOLD: usize = 500;
/// Places, seats and area quantities together, that a cart can collect.
pub const MAX_PLACES_PER_HOLD: u32 = 2_000;
/// Capacity of one area.
pub const MAX_AREA_CAPACITY: u32 = 1_000_000;
pub const MAX_AREAS_PER_EVENT: usize = 200;
pub const MAX_BLOCKS_PER_EVENT: usize = 500;
pub const MAX_TIERS_PER_EVENT: usize = 32;
/// Price of one place in minor units: ten billion in a currency of two decimals.
pub const MAX_PRICE_MINOR: i64 = 1_000_000_000_000;
/// The longest any hold policy can be, in seconds: a day.
pub const MAX_POLICY_SECONDS: u32 = 86_400;
pub const MAX_SEATS_PER_USER: u32 = 10_000;
/// Map coordinates, either way.
pub const MAX_COORDINATE: f32 = 1_000_000.0;

pub const MAX_NAME_CHARS: usize = 120;
pub const MAX_USER_CHARS: usize = 128;
pub const MAX_CART_CHARS: usize = 128;
pub const MAX_PAYMENT_REFERENCE_CHARS: usize = 200;
pub const MAX_ROW_CHARS: usize = 16;
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 128;

/// How long the answer to an `Idempotency-Key` is kept.
pub const IDEMPOTENCY_TTL_MILLIS: i64 = 24 * 60 * 60 * 1000;

const _: () = assert!(MAX_SEATS_PER_CREATE <= MAX_SEATS_PER_EVENT);
const _: () = assert!(MAX_SEATS_PER_REQUEST <= MAX_SEATS_PER_HOLD);
const _: () = assert!(MAX_SEATS_PER_HOLD <= MAX_PLACES_PER_HOLD as usize);
const _: () = assert!(MAX_AREA_QUANTITY <= MAX_PLACES_PER_HOLD);
const _: () = assert!(MAX_TIERS_PER_EVENT <= u8::MAX as usize);
const _: () = assert!(MAX_BLOCKS_PER_EVENT <= u16::MAX as usize);
// The total of the largest hold at the highest price is a number that both i64 and JSON can carry exactly.
const _: () = assert!((MAX_PLACES_PER_HOLD as i64) * MAX_PRICE_MINOR < (1 << 53));
