//! The figures as a drawing: each result as a part of its target.

use crate::figure::{Figure, Judged};
use std::fmt::Write;

/// Bars of all figures with a target; the line is the target, shorter is better.
pub fn svg(figures: &[Figure]) -> String {
    let bars: Vec<(&Figure, f64)> = figures
        .iter()
        .filter_map(|figure| {
            let native = figure.native.unwrap_or(0.0);
            let part = match figure.judged {
                Judged::Added(most) => (figure.culvert - native) / most,
                Judged::Ratio(most) => figure.culvert / native / most,
                Judged::Speed(least) => figure.culvert * least / native,
                Judged::Figure(most) => figure.culvert / most,
                Judged::Ahead => {
                    figure.culvert
                        / figure
                            .beside
                            .iter()
                            .map(|(_, other)| *other)
                            .fold(f64::INFINITY, f64::min)
                }
                Judged::Stated | Judged::SpeedStated | Judged::AddedStated => return None,
            };
            Some((figure, part.max(0.0)))
        })
        .collect();
    const LEFT: f64 = 430.0;
    const WIDE: f64 = 250.0;
    const HIGH: f64 = 24.0;
    let height = HIGH * bars.len() as f64 + 60.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 {height}\" \
        font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"900\" height=\"{height}\" fill=\"white\"/>\n<text x=\"20\" y=\"22\" \
         font-weight=\"bold\">Results as a part of their targets (the line is the target, shorter \
         is better)</text>\n"
    );
    for (row, (figure, part)) in bars.iter().enumerate() {
        let y = 40.0 + HIGH * row as f64;
        let (width, colour) = (
            (part * WIDE).clamp(1.0, 1.5 * WIDE),
            if *part <= 1.0 { "#2a7" } else { "#c52" },
        );
        let what = format!("{} {}", figure.what, figure.column)
            .replace('`', "")
            .replace('&', "&amp;")
            .replace('<', "&lt;");
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{what}</text><rect x=\"{LEFT}\" \
            y=\"{y}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/><text x=\"{:.1}\" \
            y=\"{}\">{}</text>",
            LEFT - 8.0,
            y + 13.0,
            LEFT + width + 6.0,
            y + 13.0,
            figure.result()
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{x}\" y1=\"34\" x2=\"{x}\" y2=\"{}\" stroke=\"black\" stroke-dasharray=\"4 \
        3\"/>\n</svg>",
        height - 16.0,
        x = LEFT + WIDE
    );
    text
}
