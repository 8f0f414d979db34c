//! The pages about errors, from `docs/errors`, inside the binary.

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(($code, include_str!(concat!("../../../docs/errors/", $code, ".md")))),*]
    };
}

/// By code. A test compares this with the table of codes and with the folder.
pub static ERRORS: &[(&str, &str)] = pages! {
    "malformed_json" "json_too_deep" "body_unreadable" "unauthenticated" "missing_scope"
    "user_required" "act_as_refused" "unknown_route" "method_not_allowed" "body_too_large"
    "unsupported_media_type" "invalid" "idempotency_key_reused" "rate_limited" "unknown_org"
    "unknown_key" "unknown_event" "unknown_block" "unknown_seats" "unknown_area" "unknown_hold"
    "unknown_booking" "unknown_tier" "not_owner" "seats_taken" "seats_blocked" "block_full"
    "area_full"
    "too_many_seats" "sales_not_open" "hold_confirmed" "extension_exhausted" "already_cancelled"
    "name_taken" "place_taken" "hold_expired" "hold_released" "event_full" "internal" "busy" "unavailable"
    "stopping" "timeout"
};

pub fn error(code: &str) -> Option<&'static str> {
    ERRORS.iter().find(|(name, _)| *name == code).map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code;

    #[test]
    fn every_code_has_its_page_and_every_page_its_code() {
        let mut codes: Vec<&str> = code::ALL.iter().map(|code| code.name).collect();
        let mut pages: Vec<&str> = ERRORS.iter().map(|(name, _)| *name).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
            .filter(|name| name != "README")
            .collect();
        codes.sort_unstable();
        pages.sort_unstable();
        files.sort_unstable();
        assert_eq!(codes, pages);
        assert_eq!(codes, files);
    }

    #[test]
    fn a_page_says_what_it_means_shows_an_example_and_a_remedy() {
        for code in code::ALL {
            let page = error(code.name).unwrap();
            assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", code.name);
            assert!(page.contains(&format!("Status {}", code.status)), "{}", code.name);
            for part in ["## Example", "## Remedy", "```json"] {
                assert!(page.contains(part), "{} has no {part}", code.name);
            }
            assert!(page.contains(&format!("\"code\": \"{}\"", code.name)), "{}", code.name);
            assert!(page.contains(&format!("\"title\": \"{}\"", code.title)), "{}", code.name);
        }
    }
}
