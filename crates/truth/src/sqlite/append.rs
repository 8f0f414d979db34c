//! Adding many rows with one statement.
//!
//! A statement sets itself up, finds the end of its table and of each index, and is taken down again. For one row a time that costs more
//! than the row; for rows in the order of their keys it has to be done once.

use rusqlite::{Connection, Statement, ToSql};

use super::codec::Stored;

/// Rows that one statement adds at most. More would save little, and what is bound would no longer fit in the processor's cache.
const MAX_ROWS: usize = 16;

pub(super) struct Append<'c> {
    /// The nth adds 2ⁿ rows.
    statements: Vec<Statement<'c>>,
}

/// The values of rows, one after another.
pub(super) struct Values<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
}

impl<'c> Append<'c> {
    /// `insert` is everything before the values, `row` the values of one row.
    pub fn prepare(db: &'c Connection, insert: &str, row: &str) -> Stored<Self> {
        let of = |rows: usize| db.prepare(&format!("{insert} VALUES {}", vec![row; rows].join(", ")));
        let sizes = (0..=MAX_ROWS.ilog2()).map(|power| 1 << power);
        Ok(Self { statements: sizes.map(of).collect::<Result<_, _>>()? })
    }

    /// Adds rows. They should be in the order of their keys.
    pub fn add<T>(
        &mut self,
        mut rows: &[T],
        mut bind: impl FnMut(&T, &mut Values<'_, 'c>) -> Stored<()>,
    ) -> Stored<()> {
        while let Some(power) = rows.len().min(MAX_ROWS).checked_ilog2() {
            let (now, later) = rows.split_at(1 << power);
            let statement = &mut self.statements[power as usize];
            let mut values = Values { statement, bound: 0 };
            now.iter().try_for_each(|row| bind(row, &mut values))?;
            statement.raw_execute()?;
            rows = later;
        }
        Ok(())
    }
}

impl Values<'_, '_> {
    /// Binds the next value.
    pub fn push(&mut self, value: impl ToSql) -> Stored<()> {
        self.bound += 1;
        Ok(self.statement.raw_bind_parameter(self.bound, value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE numbers (n INTEGER PRIMARY KEY, twice INTEGER NOT NULL)").unwrap();
        db
    }

    fn stored(db: &Connection) -> Vec<(i64, i64)> {
        let mut statement = db.prepare("SELECT n, twice FROM numbers ORDER BY n").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn add(append: &mut Append<'_>, numbers: &[i64]) -> Stored<()> {
        append.add(numbers, |number, values| {
            values.push(number)?;
            values.push(number * 2)
        })
    }

    #[test]
    fn any_number_of_rows_is_added_once() {
        for count in 0..=3 * MAX_ROWS as i64 + 1 {
            let db = numbers();
            let mut append = Append::prepare(&db, "INSERT INTO numbers (n, twice)", "(?, ?)").unwrap();
            let all: Vec<i64> = (0..count).collect();
            add(&mut append, &all).unwrap();
            assert_eq!(stored(&db), all.iter().map(|n| (*n, n * 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_row_that_is_there_is_not_added_again() {
        let db = numbers();
        let mut append = Append::prepare(&db, "INSERT OR FAIL INTO numbers (n, twice)", "(?, ?)").unwrap();
        add(&mut append, &[3]).unwrap();
        let error = add(&mut append, &[1, 2, 3, 4]).unwrap_err();
        assert!(matches!(error.of_insert("number"), crate::sqlite::codec::StoreError::Stale("number")));
    }
}
