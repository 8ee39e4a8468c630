//! A picture of a container's writes over time and offset.

use crate::scan::{Progress, Scan};
use crate::wrong;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 30.0;
/// Cells of the picture in each direction: what falls into one is one mark.
const CELLS: f64 = 450.0;
/// Colours of writers, in turn.
const COLOURS: [&str; 8] = [
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f",
];

/// The picture as SVG: time to the right, offset upwards, a colour for each writer.
pub fn plot(container: &Path, progress: Progress<'_>) -> io::Result<String> {
    let scan = Scan::new(container)?;
    let (mut first, mut last, mut reach) = (f64::MAX, f64::MIN, 0);
    let each = |wanted: &mut dyn FnMut(usize, culvert_drivers::plfs::layout::Record)| {
        for (writer, dropping) in scan.droppings.iter().enumerate() {
            dropping.records(&mut |_, record| {
                if let Some(record) = record.filter(|record| record.length > 0) {
                    wanted(writer, record);
                }
                Ok(())
            })?;
        }
        Ok::<_, io::Error>(())
    };
    each(&mut |_, record| {
        first = first.min(record.end);
        last = last.max(record.end);
        reach = reach.max(record.reach());
    })?;
    if reach == 0 {
        return Err(wrong("nothing was written"));
    }
    progress(scan.count() / 2, scan.count());
    let span = (last - first).max(1e-6);
    // By column and row: from which to which row, and by whom.
    let mut cells: BTreeMap<(u32, u32), (u32, usize)> = BTreeMap::new();
    each(&mut |writer, record| {
        let column = ((record.end - first) / span * (CELLS - 1.0)) as u32;
        let row = |offset: u64| (offset as f64 / reach as f64 * CELLS) as u32;
        let (from, to) = (row(record.logical), row(record.reach()));
        let cell = cells.entry((column, from)).or_insert((to, writer));
        *cell = (cell.0.max(to), writer);
    })?;
    progress(scan.count(), scan.count());
    let (step, rise) = (WIDTH / CELLS, HEIGHT / CELLS);
    let (all, tall) = (LEFT + WIDTH + 20.0, TOP + HEIGHT + 50.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"{tall}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{all}\" height=\"{tall}\" fill=\"white\"/>\n\
         <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
         stroke=\"#999\"/>\n"
    );
    for ((column, from), (to, writer)) in cells {
        let x = LEFT + f64::from(column) * step;
        let height = (f64::from(to.saturating_sub(from)) * rise).max(1.0);
        let y = TOP + HEIGHT - f64::from(from) * rise - height;
        let colour = COLOURS[writer % COLOURS.len()];
        // Writing into a string never fails.
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{step:.1}\" height=\"{height:.1}\" \
            fill=\"{colour}\"/>"
        );
    }
    let middle = LEFT + WIDTH / 2.0;
    let bottom = TOP + HEIGHT;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\">0 s</text>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{span:.3} s</text>\n\
         <text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\">{} writers, {} records: \
         time</text>\n\
         <text x=\"{:.0}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{reach}</text>\n</svg>\n",
        bottom + 18.0,
        LEFT + WIDTH,
        bottom + 18.0,
        bottom + 38.0,
        scan.droppings.len(),
        scan.count(),
        LEFT - 6.0,
        LEFT - 6.0,
        TOP + 10.0,
    );
    Ok(svg)
}
