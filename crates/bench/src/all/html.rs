//! The page: one file that needs nothing else.

use std::fmt::Write as _;

use super::page::{Section, Table};
use super::plot::escape;
use super::report::Report;
use super::text::is_of_numbers;

const STYLE: &str = include_str!("html/style.css");

pub fn page(report: &Report, sections: &[Section]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Rowlock benchmark</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>Rowlock benchmark</h1>\n<p>{} · {} cores · {}</p></header>\n",
        escape(&report.began_at),
        report.machine.cores,
        escape(&report.size),
    );
    html.push_str("<nav>");
    for section in sections {
        let _ = write!(html, "<a href=\"#{}\">{}</a>", id(section.title), escape(section.title));
    }
    html.push_str("</nav>\n<main>\n");
    for section in sections {
        draw(&mut html, section);
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn id(title: &str) -> String {
    title.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn draw(html: &mut String, section: &Section) {
    let _ = write!(html, "<section id=\"{}\">\n<h2>{}</h2>\n", id(section.title), escape(section.title));
    let _ = writeln!(html, "<p>{}</p>", escape(&section.text));
    let plots: Vec<_> = section.plots.iter().filter(|(_, svg)| !svg.is_empty()).collect();
    if !plots.is_empty() {
        html.push_str("<div class=\"plots\">\n");
        for (caption, svg) in plots {
            let _ = writeln!(html, "<figure><figcaption>{}</figcaption>{svg}</figure>", escape(caption));
        }
        html.push_str("</div>\n");
    }
    for table in section.tables.iter().filter(|table| !table.rows.is_empty()) {
        rows(html, table);
    }
    html.push_str("</section>\n");
}

fn rows(html: &mut String, table: &Table) {
    html.push_str("<div class=\"scroll\"><table>");
    if !table.caption.is_empty() {
        let _ = write!(html, "<caption>{}</caption>", escape(&table.caption));
    }
    if table.headings.iter().any(|heading| !heading.is_empty()) {
        html.push_str("<thead><tr>");
        for (column, heading) in table.headings.iter().enumerate() {
            let class = if is_of_numbers(table, column) { " class=\"n\"" } else { "" };
            let _ = write!(html, "<th{class}>{}</th>", escape(heading));
        }
        html.push_str("</tr></thead>");
    }
    html.push_str("<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = match cell.as_str() {
                "ok" => " class=\"ok\"",
                "SHORT" | "MISSING" => " class=\"short\"",
                _ if is_of_numbers(table, column) => " class=\"n\"",
                _ => "",
            };
            let _ = write!(html, "<td{class}>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use crate::all::{page::sections, sample};

    #[test]
    fn the_page_has_every_section_and_needs_nothing_else() {
        let report = sample::report();
        let sections = sections(&report);
        let html = super::page(&report, &sections);
        for section in &sections {
            assert!(html.contains(&format!("<h2>{}</h2>", section.title)), "{}", section.title);
        }
        for outside in ["http://", "https://", "<script", "<link", "src="] {
            assert!(!html.contains(outside), "the page has {outside}");
        }
        assert_eq!(html.matches("<table>").count(), html.matches("</table>").count());
        assert!(html.contains("prefers-color-scheme: dark"));
    }
}
