//! Sections for a terminal.

use super::page::{Section, Table};

/// In place of a number that there is not.
pub const NONE: &str = "–";

pub fn print(sections: &[Section]) {
    for section in sections {
        println!("\n{}\n", section.title.to_uppercase());
        for table in &section.tables {
            if !table.caption.is_empty() && !table.rows.is_empty() {
                println!("{}", table.caption);
            }
            print!("{}", draw(table));
        }
    }
}

/// Columns as wide as what is in them.
pub fn draw(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let headings: Vec<String> = table.headings.iter().map(|heading| (*heading).to_owned()).collect();
    let all = || std::iter::once(&headings).chain(&table.rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    for row in all().skip(usize::from(headings.iter().all(String::is_empty))) {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let space = " ".repeat(width - cell.chars().count());
            if is_of_numbers(table, column) { format!("{space}{cell}") } else { format!("{cell}{space}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A column in which all cells are numbers is easier to read when they end below one another.
pub fn is_of_numbers(table: &Table, column: usize) -> bool {
    table.rows.iter().all(|row| row.get(column).is_some_and(|cell| is_number(cell)))
}

/// A version is none. What stands for a missing number is one.
fn is_number(cell: &str) -> bool {
    cell == NONE || cell.replace(',', "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1,000".to_owned()], vec!["longer".to_owned(), "7".to_owned()]];
        let table = Table::new("", &["peer", "rate"], rows);
        assert_eq!(draw(&table), "peer     rate\na       1,000\nlonger      7\n\n");
        assert_eq!(draw(&Table::default()), "");
        assert!(
            is_number("1,000.5")
                && is_number(NONE)
                && !is_number("7.0.15")
                && !is_number("5 s")
                && !is_number("")
        );
    }
}
