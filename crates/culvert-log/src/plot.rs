//! The summary as a picture: operations by the second, and for each operation how long it took.

use crate::summary::Summary;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
/// Of the picture that shows the seconds.
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
const ROW: f64 = 22.0;
const BARS: usize = 200;

/// A picture of `summary` (SVG): operations by the second, latencies by operation.
pub fn plot(summary: &Summary) -> String {
    let rows = summary.operations.len() as f64;
    let height = HEIGHT + 90.0 + rows * ROW + 50.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    seconds(summary, &mut out);
    latencies(summary, HEIGHT + 60.0, &mut out);
    out.push_str("</svg>\n");
    out
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{what}</text>"
    );
}

/// How many operations began in each second, in at most [`BARS`] bars.
fn seconds(summary: &Summary, out: &mut String) {
    let (Some((&first, _)), Some((&last, _))) = (
        summary.seconds.first_key_value(),
        summary.seconds.last_key_value(),
    ) else {
        return;
    };
    let each = ((last - first) as usize / BARS + 1) as u64;
    let mut bars = vec![0; ((last - first) / each + 1) as usize];
    for (second, count) in &summary.seconds {
        bars[((second - first) / each) as usize] += count;
    }
    let most = bars.iter().copied().max().unwrap_or(1).max(1) as f64;
    let wide = (WIDTH - LEFT - RIGHT) / bars.len() as f64;
    text(
        out,
        LEFT,
        20.0,
        "start",
        &format!("operations in {each} s each"),
    );
    text(out, LEFT - 8.0, 42.0, "end", &format!("{most}"));
    text(out, LEFT - 8.0, HEIGHT, "end", "0");
    for (at, count) in bars.iter().enumerate() {
        let high = *count as f64 / most * (HEIGHT - 32.0);
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" fill=\"#4477aa\"/>",
            LEFT + at as f64 * wide,
            HEIGHT - high,
            (wide - 0.5).max(0.5)
        );
    }
    let seconds = last - first + 1;
    text(
        out,
        WIDTH - RIGHT,
        HEIGHT + 16.0,
        "end",
        &format!("{seconds} s"),
    );
}

/// For each operation a line from its median to its 99th percentile, on a scale of powers of ten.
fn latencies(summary: &Summary, top: f64, out: &mut String) {
    let longest = summary
        .operations
        .values()
        .map(|one| one.quantile(0.99))
        .max()
        .unwrap_or(1000);
    // From 100 ns on.
    let powers = (longest.max(1000) as f64 / 100.0).log10().ceil();
    let place = |nanos: u64| {
        let part = (nanos.max(100) as f64 / 100.0).log10() / powers;
        LEFT + part.min(1.0) * (WIDTH - LEFT - RIGHT)
    };
    text(
        out,
        LEFT,
        top - 12.0,
        "start",
        "how long: median (dot) to 99 % of them",
    );
    let bottom = top + summary.operations.len() as f64 * ROW + 6.0;
    for power in 0..=powers as u32 {
        let nanos = 100 * 10_u64.pow(power);
        let x = place(nanos);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>"
        );
        let label = match nanos {
            ..1000 => format!("{nanos} ns"),
            1000..1_000_000 => format!("{} us", nanos / 1000),
            1_000_000..1_000_000_000 => format!("{} ms", nanos / 1_000_000),
            _ => format!("{} s", nanos / 1_000_000_000),
        };
        text(out, x, bottom + 16.0, "middle", &label);
    }
    for (row, (name, one)) in summary.operations.iter().enumerate() {
        let y = top + row as f64 * ROW + 14.0;
        text(
            out,
            LEFT - 8.0,
            y + 4.0,
            "end",
            &format!("{name} ({})", one.count),
        );
        let (from, to) = (place(one.quantile(0.5)), place(one.quantile(0.99)));
        let _ = writeln!(
            out,
            "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#4477aa\" \
            stroke-width=\"3\"/>\n\
             <circle cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"#aa3377\"/>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_whole() {
        let line = br#"{"time":"2026-11-23T20:01:42.4Z","op":"open","path":"a<","us":1.5}"#;
        let drawn = plot(&Summary::read(&line[..]).unwrap());
        assert!(
            drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"),
            "{drawn}"
        );
        assert!(drawn.contains(">open (1)<"), "{drawn}");
        assert!(plot(&Summary::default()).ends_with("</svg>\n"));
    }
}
