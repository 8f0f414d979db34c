//! The auditor. It keeps its own books, from what clients asked and what they were told, and from nothing else; at the end
//! it compares them with the rows and the journal.
//!
//! [`books`] are the requests and their answers. [`owners`] works out of them who certainly had a seat when, and how many. [`ledger`] folds
//! the journal anew, with rules of its own. [`effects`] looks for answers without an effect, and effects without an answer.

pub mod books;
mod effects;
mod ledger;
mod owners;

use super::history::History;
use super::store::tables::Tables;
use books::Books;

/// Compares everything, when all faults are over and every hold has ended.
pub fn audit(books: &Books, tables: &Tables, history: &History) {
    owners::one_owner(books, tables, history);
    owners::no_more_than_allowed(books, tables, history);
    effects::kept(books, tables, history);
    effects::once(books, tables, history);
    effects::strangers(books, history);
    ledger::replay(tables, history);
    ledger::tails(books, tables, history);
    for violation in super::store::verify(tables).violations {
        history.violation('S', format_args!("the rows: {violation}"));
    }
}
