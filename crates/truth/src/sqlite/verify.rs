use super::codec::Stored;
use crate::verify::Report;
use rusqlite::Connection;
pub(super) fn verify(
    _db: &Connection,
    _progress: &(dyn Fn(&'static str, usize, usize) + Send + Sync),
) -> Stored<Report> {
    Ok(Report::default())
}
