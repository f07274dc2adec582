//! 06: pictures of a ring, a tree, an alltoall and a PXN relay, as SVG files in light and dark.
//!
//! `cargo build --examples`, then `mpirun -np 8 target/debug/examples/06_pictures FOLDER`

use std::{env, f64::consts::TAU, fmt::Write, fs, path::PathBuf, process::ExitCode};

use pxnbench::job::{self, Job};

/// The start of each picture. Viewers that do not know these names of colours take the attributes.
const HEAD: &str = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 640 420' font-family='sans-serif'>
<style>
svg { color-scheme: light dark; background: Canvas } text { fill: CanvasText; text-anchor: middle }
rect { fill: Canvas; stroke: CanvasText } polyline, path { stroke: #c85a00; fill: none; stroke-width: 3 }
.detour { stroke: #767676; stroke-dasharray: 5 4 } .way { marker-mid: url(#tip) }
</style>
<marker id='tip' viewBox='0 0 9 10' refX='7' refY='5' markerWidth='5' orient='auto'><path d='M1 1 7 5 1 9'/></marker>";

/// Devices with their names and places, and the arrows between them by their numbers.
type Drawing = (Vec<(String, f64, f64)>, Vec<(usize, usize, &'static str)>);

fn main() -> ExitCode {
    job::run(|job| if job.rank() == 0 { draw(job) } else { Ok(()) })
}

fn draw(job: &Job) -> anyhow::Result<()> {
    let folder = match env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => tempfile::tempdir()?.keep(),
    };
    fs::create_dir_all(&folder)?;
    let ranks = if job.ranks() == 1 {
        4
    } else {
        job.ranks().min(15)
    };
    let drawings = [
        ("ring", "Ring: two connections per rank", ring(ranks)),
        ("tree", "Tree: sums go up, results come down", tree(ranks)),
        ("alltoall", "Alltoall: each sends to each", alltoall(ranks)),
        ("pxn", "PXN: through the NIC on the receiver's rail", pxn()),
    ];
    for (name, title, drawing) in drawings {
        let path = folder.join(name).with_extension("svg");
        fs::write(&path, svg(title, &drawing)?)?;
        job.print(path.display())?;
    }
    job.print(
        "
What you see. A ring keeps two connections per rank busy all the time: right for large buffers. A tree takes log2(n)
steps up and as many down: right for small ones. An alltoall has a connection per pair of ranks. With PXN, GPUs of a node
that send to the same rail share its NIC, and nothing crosses the spine, as it would on the dashed way.

What to try. Open the files in a browser, in dark mode too. Start 8 ranks. Draw a broadcast down the tree.",
    )
}

fn ring(ranks: usize) -> Drawing {
    let arrows = (0..ranks).map(|rank| (rank, (rank + 1) % ranks, "way"));
    (circle(ranks), arrows.collect())
}

fn alltoall(ranks: usize) -> Drawing {
    let pairs = (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks, "way"));
    let arrows = pairs.filter(|(from, to, _)| from != to);
    (circle(ranks), arrows.collect())
}

fn circle(ranks: usize) -> Vec<(String, f64, f64)> {
    let place = |rank: usize| {
        let (y, x) = (TAU * (rank as f64 / ranks as f64 - 0.25)).sin_cos();
        (rank.to_string(), 320.0 + 150.0 * x, 235.0 + 150.0 * y)
    };
    (0..ranks).map(place).collect()
}

/// Puts rank r below rank (r - 1) / 2. NCCL has two trees, with different ranks as leaves.
fn tree(ranks: usize) -> Drawing {
    let place = |rank: usize| {
        let level = (rank + 1).ilog2();
        let nth = (rank + 1 - (1 << level)) as f64 + 0.5;
        let (x, y) = (nth / f64::from(1 << level), f64::from(level));
        (rank.to_string(), 640.0 * x, 90.0 + 80.0 * y)
    };
    let arrows = (1..ranks).map(|rank| (rank, (rank - 1) / 2, "way"));
    ((0..ranks).map(place).collect(), arrows.collect())
}

/// Two nodes, A and B, with two GPUs each. GPU A0 sends to GPU B1.
fn pxn() -> Drawing {
    let mut devices = Vec::new();
    for (node, x) in [("A", 80.0), ("B", 430.0)] {
        for (name, y) in [("GPU", 110.0), ("NIC", 200.0)] {
            devices.push((format!("{name} {node}0"), x, y));
            devices.push((format!("{name} {node}1"), x + 130.0, y));
        }
    }
    devices.push(("rail 0".to_owned(), 240.0, 290.0));
    devices.push(("rail 1".to_owned(), 400.0, 290.0));
    devices.push(("spine".to_owned(), 320.0, 370.0));
    let detour = [(0, 2), (2, 8), (8, 10), (10, 9)].map(|(from, to)| (from, to, "detour"));
    let ways = [(0, 1), (1, 3), (3, 9), (9, 7), (7, 5)].map(|(from, to)| (from, to, "way"));
    (devices, [&detour[..], &ways[..]].concat())
}

fn svg(title: &str, (devices, arrows): &Drawing) -> anyhow::Result<String> {
    let mut svg = format!("{HEAD}<title>{title}</title>\n<text x='320' y='40'>{title}</text>\n");
    for &(from, to, class) in arrows {
        let ((_, x, y), (_, u, v)) = (&devices[from], &devices[to]);
        let tip = format!("{},{}", 0.4 * x + 0.6 * u, 0.4 * y + 0.6 * v);
        let points = format!("{x},{y} {tip} {u},{v}");
        writeln!(svg, "<polyline class='{class}' points='{points}'/>")?;
    }
    for (name, x, y) in devices {
        let (left, top, base) = (x - 30.0, y - 16.0, y + 5.0);
        let size = "width='60' height='32' rx='6' fill='white'";
        writeln!(svg, "<rect x='{left}' y='{top}' {size}/>")?;
        writeln!(svg, "<text x='{x}' y='{base}'>{name}</text>")?;
    }
    Ok(svg + "</svg>\n")
}
