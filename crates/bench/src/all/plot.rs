//! Plots as SVG, drawn by hand: bars and lines are all that is needed, and a file that needs nothing else.
//!
//! Colours are classes, so that the page decides them for light and dark.

use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;

/// From values to places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, log: false }
    }

    /// Only what is above nothing has a place.
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(1e-6);
        let high = if high > low { high } else { low * 10.0 };
        Self { low, high, from, to, log: true }
    }

    pub fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }

    /// Round values, about so many.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        if self.log {
            let first = self.low.log10().floor() as i32;
            let last = self.high.log10().ceil() as i32;
            let decades = (last - first).max(1) as usize;
            let steps: &[f64] = if decades * 3 <= about.max(4) { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            return all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect();
        }
        let rough = (self.high - self.low) / about.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough);
        let step = step.unwrap_or(power * 10.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// A number as short as it can be read: 1.2k, 35 µ is never needed.
pub fn short(value: f64) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1e6 => trimmed(value / 1e6, "M"),
        size if size >= 1e4 => trimmed(value / 1e3, "k"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => trimmed(value, ""),
        size if size >= 0.01 => format!("{value:.2}").trim_end_matches('0').into(),
        _ => format!("{value:.4}").trim_end_matches('0').into(),
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// How far apart the rounds were.
    pub spread: Option<(f64, f64)>,
    /// Which of the colours.
    pub colour: usize,
}

/// A bar a line, with its name above it: names are longer than a phone is wide.
pub fn bars(bars: &[Bar], unit: &str) -> String {
    const STEP: f64 = 38.0;
    const THICK: f64 = 15.0;
    let height = TOP + STEP * bars.len() as f64 + 6.0;
    let most = bars.iter().map(|bar| bar.spread.map_or(bar.value, |spread| spread.1)).fold(0.0, f64::max);
    let scale = Scale::linear(0.0, most, 0.0, WIDTH - 80.0);
    let mut svg = open(height, unit);
    for (i, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * i as f64;
        let width = scale.place(bar.value).max(1.0);
        let mut end = width;
        let _ = write!(svg, r#"<text x="0" y="{:.1}">{}</text>"#, y + 8.0, escape(&bar.name));
        let _ = write!(
            svg,
            r#"<rect class="f{}" x="0" y="{:.1}" width="{width:.1}" height="{THICK}" rx="2"/>"#,
            bar.colour,
            y + 13.0
        );
        if let Some((least, most)) = bar.spread {
            let (from, to, middle) = (scale.place(least), scale.place(most), y + 13.0 + THICK / 2.0);
            let _ = write!(
                svg,
                r#"<path class="whisker" d="M{from:.1} {middle:.1}H{to:.1}M{from:.1} {0:.1}v8M{to:.1} {0:.1}v8"/>"#,
                middle - 4.0
            );
            end = end.max(to);
        }
        let _ = write!(
            svg,
            r#"<text class="value" x="{:.1}" y="{:.1}">{} {}</text>"#,
            end + 6.0,
            y + 25.0,
            short(bar.value),
            escape(unit)
        );
    }
    svg + "</svg>"
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub colour: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Axes<'a> {
    pub x: &'a str,
    pub y: &'a str,
    pub log_x: bool,
    pub log_y: bool,
    /// The points are few and each is a measurement: mark them.
    pub dots: bool,
}

pub fn lines(lines: &[Line], axes: Axes<'_>) -> String {
    const LEFT: f64 = 52.0;
    const PLOT: f64 = 210.0;
    const LEGEND: f64 = 20.0;
    let bottom = TOP + 16.0 + PLOT;
    let height = bottom + 42.0 + LEGEND * lines.len() as f64;
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (low_x, high_x) = bounds(&mut points().map(|point| point.0));
    let (low_y, high_y) = bounds(&mut points().map(|point| point.1));
    if !low_x.is_finite() {
        return String::new();
    }
    let x = if axes.log_x {
        Scale::log(low_x, high_x, LEFT, WIDTH - RIGHT)
    } else {
        Scale::linear(low_x.min(0.0), high_x, LEFT, WIDTH - RIGHT)
    };
    let y = if axes.log_y {
        Scale::log(low_y * 0.8, high_y * 1.25, bottom, bottom - PLOT)
    } else {
        Scale::linear(0.0, high_y * 1.08, bottom, bottom - PLOT)
    };
    let mut svg = open(height, axes.y);
    let _ = write!(svg, r#"<text class="axis" x="0" y="{:.1}">{}</text>"#, TOP, escape(axes.y));
    for tick in y.ticks(5) {
        let at = y.place(tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{LEFT} {at:.1}H{:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(tick)
        );
    }
    for tick in x.ticks(6) {
        let at = x.place(tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{at:.1} {:.1}V{bottom:.1}"/><text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            bottom - PLOT,
            bottom + 16.0,
            short(tick)
        );
    }
    let _ = write!(
        svg,
        r#"<text class="axis" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
        WIDTH - RIGHT,
        bottom + 34.0,
        escape(axes.x)
    );
    for (i, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (n, point) in line.points.iter().enumerate() {
            let _ = write!(
                path,
                "{}{:.1} {:.1}",
                if n == 0 { 'M' } else { 'L' },
                x.place(point.0),
                y.place(point.1)
            );
        }
        let _ = write!(svg, r#"<path class="s{}" d="{path}"/>"#, line.colour);
        if axes.dots {
            for point in &line.points {
                let (cx, cy) = (x.place(point.0), y.place(point.1));
                let _ =
                    write!(svg, r#"<circle class="f{}" cx="{cx:.1}" cy="{cy:.1}" r="3.5"/>"#, line.colour);
            }
        }
        let at = bottom + 54.0 + LEGEND * i as f64;
        let _ = write!(
            svg,
            r#"<path class="s{}" d="M{LEFT} {:.1}h22"/><text x="{:.1}" y="{:.1}">{}</text>"#,
            line.colour,
            at - 4.0,
            LEFT + 30.0,
            at,
            escape(&line.name)
        );
    }
    svg + "</svg>"
}

fn open(height: f64, label: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{}">"#, escape(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_go_from_end_to_end() {
        let linear = Scale::linear(0.0, 10.0, 100.0, 200.0);
        assert_eq!([0.0, 5.0, 10.0, 99.0].map(|value| linear.place(value)), [100.0, 150.0, 200.0, 200.0]);
        let log = Scale::log(1.0, 100.0, 0.0, 200.0);
        assert!((log.place(10.0) - 100.0).abs() < 1e-9);
        assert_eq!((log.place(0.0), log.place(100.0)), (0.0, 200.0));
        // Upside down, as SVG has it.
        assert_eq!(Scale::linear(0.0, 4.0, 200.0, 0.0).place(1.0), 150.0);
        // One value is a scale too.
        assert!(Scale::linear(3.0, 3.0, 0.0, 1.0).place(3.0).is_finite());
        assert!(Scale::log(0.0, 0.0, 0.0, 1.0).place(0.0).is_finite());
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Scale::linear(0.0, 93.0, 0.0, 1.0).ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(Scale::linear(0.0, 0.9, 0.0, 1.0).ticks(4).len(), 2);
        assert_eq!(Scale::log(1_000.0, 1_000_000.0, 0.0, 1.0).ticks(5), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(Scale::log(0.5, 9.0, 0.0, 1.0).ticks(6), [0.5, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.004, 0.25, 3.0, 3.12, 150.4, 9_999.0, 25_300.0, 2e6].map(short);
        assert_eq!(texts, ["0", "0.004", "0.25", "3", "3.1", "150", "9999", "25.3k", "2M"]);
    }

    #[test]
    fn a_plot_is_closed_and_escaped() {
        let bar = Bar { name: "a < b & c".into(), value: 2.0, spread: Some((1.0, 3.0)), colour: 0 };
        let svg = bars(&[bar], "per second");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && svg.contains("a &lt; b &amp; c"));
        let line = Line { name: "x".into(), points: vec![(1.0, 2.0), (10.0, 4.0)], colour: 1 };
        let svg = lines(&[line], Axes { x: "seats", y: "ms", log_x: true, ..Axes::default() });
        assert!(svg.contains("<path class=\"s1\" d=\"M52.0") && svg.ends_with("</svg>"));
        assert_eq!(lines(&[], Axes::default()), "");
    }
}
