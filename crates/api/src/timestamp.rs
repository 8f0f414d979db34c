//! RFC 3339, both ways. Writing is by hand because every hold carries several moments and nothing may be allocated.

use std::ops::Range;

use jiff::civil::DateTime;
use rowlock_core::Time;

/// The first millisecond of the year 0.
const FIRST: i64 = -62_167_219_200_000;
/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;

/// `2026-01-31T23:59:59.123Z`.
pub struct Written([u8; 24]);

impl Written {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are text")
    }
}

pub fn write(time: Time) -> Written {
    // Deadlines saturate in the kernel, so what can't be written as a date is written as the last one.
    let millis = time.millis().clamp(FIRST, LAST);
    let (days, in_day) = (millis.div_euclid(86_400_000) as i32, millis.rem_euclid(86_400_000) as u32);
    let (year, month, day) = civil(days);
    let (seconds, thousandths) = (in_day / 1000, in_day % 1000);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    two_digits(&mut text, 0, year / 100);
    two_digits(&mut text, 2, year % 100);
    two_digits(&mut text, 5, month);
    two_digits(&mut text, 8, day);
    two_digits(&mut text, 11, seconds / 3600);
    two_digits(&mut text, 14, seconds / 60 % 60);
    two_digits(&mut text, 17, seconds % 60);
    two_digits(&mut text, 20, thousandths / 10);
    text[22] = b'0' + (thousandths % 10) as u8;
    Written(text)
}

/// `00` to `99`: looking them up is quicker than dividing.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[inline(always)]
fn two_digits(text: &mut [u8; 24], at: usize, number: u32) {
    [text[at], text[at + 1]] = PAIRS[number as usize];
}

/// Days since 1970-01-01 as a date of the Gregorian calendar, counting years from March so that leap days come last, and from
/// 400 years before the first that can be written, so that nothing is negative.
fn civil(days: i32) -> (u32, u32, u32) {
    let shifted = (days + 719_468 + 146_097) as u32;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u32::from(month <= 2) - 400;
    (year, month, day)
}

/// Reads RFC 3339 with any offset; finer than a millisecond is cut off.
pub fn read(text: &str) -> Result<Time, &'static str> {
    const RULE: &str = "must be a time such as 2026-01-31T19:30:00Z";
    let (seconds, fraction, offset) = split(text).ok_or(RULE)?;
    // Not as a moment in one go: to the library those end a day before the year 9999 does.
    let seconds: DateTime = seconds.parse().map_err(|_| RULE)?;
    let seconds = seconds.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs()
        - east(offset).ok_or(RULE)?;
    let millis: i64 = (0..3).fold(0, |millis, i| {
        millis * 10 + fraction.as_bytes().get(i).map_or(0, |digit| i64::from(digit - b'0'))
    });
    let millis = seconds * 1000 + millis;
    if (FIRST..=LAST).contains(&millis) { Ok(Time::from_millis(millis)) } else { Err(RULE) }
}

/// The seconds that clocks with this offset are ahead.
fn east(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let number = |range: Range<usize>| offset.get(range)?.parse::<i64>().ok();
    let (hours, minutes) = (number(1..3)?, number(4..6)?);
    let ahead = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some(if offset.starts_with('-') { -ahead } else { ahead })
}

/// Up to the seconds, the digits of the fraction, and the offset. The parser knows more forms than RFC 3339 does, so
/// the form is looked at here.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let fits = |text: &str, shape: &[u8]| {
        text.len() == shape.len()
            && text.bytes().zip(shape).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't'),
                other => byte == *other,
            })
    };
    let (seconds, rest) = text.split_at_checked(19)?;
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).filter(|end| *end > 0)?;
            rest.split_at(end)
        }
        None => ("", rest),
    };
    let has_offset = matches!(offset, "Z" | "z") || fits(offset, b"+00:00") || fits(offset, b"-00:00");
    (fits(seconds, b"0000-00-00T00:00:00") && has_offset).then_some((seconds, fraction, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_jiff_writes() {
        for millis in [
            0,
            1,
            951_782_399_999,
            951_782_400_000,
            1_709_164_800_000,
            4_107_542_399_999,
            253_402_207_199_999,
        ] {
            let expected = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(write(Time::from_millis(millis)).as_str(), format!("{expected:.3}"));
        }
        // A day of every month over two centuries.
        for day in (0..73_000).step_by(13) {
            let millis = day * 86_400_000 + 45_296_789;
            let expected = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(write(Time::from_millis(millis)).as_str(), format!("{expected:.3}"));
        }
        assert_eq!(write(Time::from_millis(-1)).as_str(), "1969-12-31T23:59:59.999Z");
        assert_eq!(write(Time::from_millis(i64::MIN)).as_str(), "0000-01-01T00:00:00.000Z");
        assert_eq!(write(Time::from_millis(i64::MAX)).as_str(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_rfc_3339_and_nothing_else() {
        assert_eq!(read("1970-01-01T00:00:01Z"), Ok(Time::from_millis(1000)));
        assert_eq!(read("1970-01-01T02:00:00.0015+02:00"), Ok(Time::from_millis(1)));
        assert_eq!(read("1970-01-01t00:00:00.12345678901234567890z"), Ok(Time::from_millis(123)));
        assert_eq!(read("0000-01-01T00:00:00Z"), Ok(Time::from_millis(FIRST)));
        assert_eq!(read("1969-12-31T23:59:59.900Z"), Ok(Time::from_millis(-100)));
        for bad in [
            "",
            "1970-01-01",
            "2026-01-01T00:00:00.1",
            "2026-01-01T00:00:00é",
            "2026-02-30T00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00Z[UTC]",
            "2026-01-01T00:00:00.Z",
            "12026-01-01T00:00:00Z",
            "2026-01-01T25:00:00Z",
            "2026-01-01T00:00:00+99:99",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_to_the_last_millisecond_and_no_further() {
        assert_eq!(read("9999-12-31T23:59:59.999Z"), Ok(Time::from_millis(LAST)));
        assert_eq!(read("9999-12-31T23:59:59+01:30"), Ok(Time::from_millis(LAST - 999 - 5_400_000)));
        assert_eq!(read("0000-01-01T00:00:00Z"), Ok(Time::from_millis(FIRST)));
        for outside in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"] {
            assert!(read(outside).is_err(), "{outside}");
        }
        for wrong in ["2026-02-30T00:00:00Z", "2026-01-31T19:30:00+24:00", "2026-01-31T19:30:00+01:60"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
