//! The page: what is shown of the results, in which order, and how much of it.

use std::collections::BTreeSet;

use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use super::{
    comparison::Comparison,
    content::Content,
    curve::Quantity,
    doctor::Findings,
    estimate::Estimate,
    figure::Figure,
    heat_map,
    line_plot::{self, LinePlot, MOST_LINES, PlotLine, PlotPoint, Scale},
    machine::Machine,
    palette,
    picture::Picture,
    ranks::HeatMap,
    replay_section::{self, ReplaySection},
    series::{Counts, Line, Panel, Point, sum_of_known},
    source::Source,
    table::{MOST_ROWS, Table, end_table, figure, interval, is_are, limited, words},
    telemetry::Telemetry,
};
use crate::{
    units::{Bytes, counted},
    visible::visible,
};

/// Bytes of pictures and tables in a page. What comes after is left out, and the page says so.
const MOST_BYTES: usize = 3_500_000;
/// Heat maps of one kind.
const MOST_MAPS: usize = 24;

/// How far the peak of a single size is drawn to both sides, as a factor.
const BESIDE: f64 = 1.25;

const TEMPLATES: [(&str, &str); 3] = [
    ("page.html", include_str!("templates/page.html")),
    ("style.css", include_str!("templates/style.css")),
    ("summary.md", include_str!("templates/summary.md")),
];

/// Everything that the templates show.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    title: String,
    made_at: String,
    version: &'static str,
    dark_rules: String,
    outcome: Vec<String>,
    common: Vec<String>,
    overview: Vec<OverviewRow>,
    /// Whether there are rows of a sweep.
    has_rows: bool,
    figures: Vec<Figure>,
    /// The main numbers of training steps.
    steps: Table,
    replays: Vec<ReplaySection>,
    comparisons: &'a [Comparison],
    /// The remarks of all runs, each once.
    remarks: Vec<String>,
    heat: Vec<Figure>,
    /// Whether somebody looked for stragglers.
    searched: bool,
    late: Table,
    late_sentences: &'a [String],
    late_maps: Vec<Figure>,
    doctor: &'a [Findings],
    /// By run: what NCCL's log shows of PXN.
    verdicts_on_pxn: Vec<(String, String)>,
    /// What is wrong with the files.
    file_notes: &'a [String],
    telemetry: Vec<Figure>,
    throttled: Vec<(String, u64)>,
    proof: Vec<ProofRow>,
    machines: Vec<Machine>,
    notes: Vec<(String, u64)>,
    /// What was left out, as sentences.
    left_out: Vec<String>,
}

/// The best of one line.
#[derive(Serialize)]
struct OverviewRow {
    case: String,
    line: String,
    sizes: String,
    least_time: String,
    best_busbw: String,
    at: String,
    percent_of_peak: String,
    /// Wrong elements; empty if no data were checked.
    wrong: Option<u64>,
}

#[derive(Serialize)]
struct ProofRow {
    case: String,
    line: String,
    pxn: String,
    transports: String,
    algorithms: String,
}

impl<'a> Page<'a> {
    /// Lays out the page.
    ///
    /// # Errors
    ///
    /// Returns an error if a plot cannot be drawn.
    pub(super) fn new(content: &'a Content) -> anyhow::Result<Page<'a>> {
        let results = &content.results;
        let mut left_out = Vec::new();
        let mut budget = FigureBudget {
            bytes: MOST_BYTES,
            left_out: &mut left_out,
        };
        let late_maps = content.stragglers.maps.iter();
        let late_maps = late_maps.map(|map| heat_figure("Lateness by size", map));
        let late_maps = budget.take(MOST_MAPS, late_maps, "lateness map")?;
        let heat = content.heat_maps.iter();
        let heat = heat.map(|map| heat_figure("Ranks by size", map));
        let heat = budget.take(MOST_MAPS, heat, "heat map")?;
        let mut late = content.stragglers.table();
        late.rows = limited(late.rows, "late rank", budget.left_out);
        let quantities = content.telemetry.iter().flat_map(|telemetry| {
            let quantities = telemetry.quantities.iter();
            quantities.map(|quantity| telemetry_figure(telemetry, quantity))
        });
        let telemetry = budget.take(usize::MAX, quantities, "plot over time")?;
        let panels = results.panels.iter().map(panel_figure);
        let figures = budget.take(usize::MAX, panels, "case")?;
        let replays = replay_section::sections(&content.replays, &mut |figures, noun| {
            budget.take(usize::MAX, figures.into_iter().map(Ok), noun)
        })?;
        let steps = replay_section::overview(&content.replays, &mut left_out);
        let overview = limited(overview(&results.panels), "overview row", &mut left_out);
        if content.runs_left_out > 0 {
            left_out.push(format!(
                "{} not described.",
                is_are(content.runs_left_out, "further run")
            ));
        }
        Ok(Page {
            title: title(content),
            made_at: content.made_at.clone(),
            version: env!("CARGO_PKG_VERSION"),
            dark_rules: palette::dark_rules(),
            outcome: outcome(content),
            common: results.common.clone(),
            overview,
            has_rows: results.counts.rows > 0,
            figures,
            steps,
            replays,
            comparisons: &content.comparisons,
            remarks: remarks(&content.machines),
            heat,
            searched: content.stragglers.searches > 0 || !late_maps.is_empty(),
            late,
            late_sentences: &content.stragglers.sentences,
            late_maps,
            doctor: &content.doctor,
            verdicts_on_pxn: verdicts_on_pxn(content),
            file_notes: &content.notes,
            telemetry,
            throttled: content
                .telemetry
                .iter()
                .flat_map(|one| one.throttled.clone())
                .collect(),
            proof: limited(proof(&results.panels), "proof row", &mut left_out),
            machines: content.machines.clone(),
            notes: results.notes.clone(),
            left_out,
        })
    }

    /// Returns all pictures.
    pub(super) fn pictures(&self) -> impl Iterator<Item = &Picture> {
        let ranks = self.late_maps.iter().chain(&self.heat);
        let steps = self.replays.iter();
        let steps = steps.flat_map(|step| step.modes.iter().chain(&step.timelines));
        let figures = self.figures.iter().chain(steps).chain(ranks);
        let figures = figures.chain(&self.telemetry);
        figures.flat_map(|figure| &figure.pictures)
    }

    /// Renders the template of this name. What comes from files is escaped by the engine.
    ///
    /// # Errors
    ///
    /// Returns an error if the template is wrong.
    pub(super) fn render(&self, template: &str) -> anyhow::Result<String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|name| match name.ends_with(".html") {
            true => AutoEscape::Html,
            false => AutoEscape::None,
        });
        environment.add_filter("cell", markdown_cell);
        for (name, text) in TEMPLATES {
            environment.add_template(name, text)?;
        }
        let text = environment.get_template(template)?.render(Serde(self))?;
        Ok(visible(&text).into_owned())
    }
}

/// Returns words as they stand in a table of Markdown: no markup of theirs counts, HTML included.
fn markdown_cell(words: &str) -> String {
    let mut escaped = String::new();
    for letter in words.chars() {
        match letter {
            letter if letter.is_control() => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' | '@' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// The bytes that the figures of a page may still take, and what was left out for lack of them.
struct FigureBudget<'a> {
    bytes: usize,
    left_out: &'a mut Vec<String>,
}

impl FigureBudget<'_> {
    /// Returns at most `most` of `figures`, and no more once the bytes are used up. Notes how many are left out.
    fn take(
        &mut self,
        most: usize,
        figures: impl Iterator<Item = anyhow::Result<Figure>>,
        noun: &str,
    ) -> anyhow::Result<Vec<Figure>> {
        let mut kept = Vec::new();
        let mut more = 0;
        for figure in figures {
            if self.bytes == 0 || kept.len() == most {
                more += 1;
                continue;
            }
            let figure = figure?;
            self.bytes = self.bytes.saturating_sub(figure.bytes());
            kept.push(figure);
        }
        if more > 0 {
            self.left_out.push(format!(
                "{} not drawn, to keep the page small: name fewer runs.",
                is_are(more, noun)
            ));
        }
        Ok(kept)
    }
}

fn title(content: &Content) -> String {
    match &content.names[..] {
        [one] => format!("NCCL benchmark: {one}"),
        names => format!("NCCL benchmark: {}", counted(names.len() as u64, "run")),
    }
}

/// Returns how the rows and the training steps ended, as sentences.
fn outcome(content: &Content) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_sweep = |source: &&Source| !source.is_replay;
    let sweeps = content.sources.iter().filter(is_sweep).count();
    if sweeps > 0 {
        sentences.extend(outcome_of_rows(&content.results.counts, sweeps));
    }
    if !content.replays.is_empty() {
        let steps = counted(content.replays.len() as u64, "training step");
        sentences.push(format!("{steps} replayed."));
    }
    let wrong = content.replays.iter().map(|replay| replay.summary.wrong);
    match wrong.fold(0, u64::saturating_add) {
        0 => {}
        wrong => sentences.push(format!(
            "{} in the collectives of training steps.",
            counted(wrong, "wrong element")
        )),
    }
    sentences
}

fn outcome_of_rows(counts: &Counts, sweeps: usize) -> Vec<String> {
    let runs = counted(sweeps as u64, "run");
    let mut sentences = vec![format!("{} in {runs}.", counted(counts.rows, "row"))];
    let kinds = [
        (counts.ok, "measured, and all data were correct"),
        (counts.unchecked, "measured, data not checked"),
        (counts.computed, "computed by a model, not measured"),
        (counts.waived, "waived: they could not run here"),
    ];
    for (count, what) in kinds {
        if count > 0 {
            sentences.push(format!("{}: {what}.", counted(count, "row")));
        }
    }
    if counts.wrong > 0 {
        sentences.push(format!(
            "{} with wrong data: {}.",
            counted(counts.wrong, "row"),
            counted(counts.wrong_elements, "wrong element")
        ));
    }
    sentences
}

fn overview(panels: &[Panel]) -> Vec<OverviewRow> {
    let mut rows = Vec::new();
    for panel in panels {
        for line in &panel.lines {
            rows.push(overview_row(panel, line));
        }
    }
    rows
}

fn overview_row(panel: &Panel, line: &Line) -> OverviewRow {
    let busbw = |point: &Point| point.busbw.map_or(0.0, |busbw| busbw.value);
    let best = line
        .points
        .iter()
        .max_by(|a, b| busbw(a).total_cmp(&busbw(b)));
    let best = best.filter(|point| point.busbw.is_some());
    let times = line.points.iter().map(|point| point.time.value);
    let (first, last) = (line.points.first(), line.points.last());
    let size = |point: Option<&Point>| {
        point.map_or_else(String::new, |point| Bytes(point.size).to_string())
    };
    OverviewRow {
        case: panel.case.words(),
        line: line.label.clone(),
        sizes: match line.points.len() {
            1 => size(first),
            _ => format!("{} to {}", size(first), size(last)),
        },
        least_time: figure(times.reduce(f64::min)),
        best_busbw: figure(best.map(busbw)),
        at: size(best),
        percent_of_peak: figure(best.and_then(|best| Some(100.0 * busbw(best) / best.peak?))),
        wrong: line
            .points
            .iter()
            .map(|point| point.wrong)
            .fold(None, sum_of_known),
    }
}

/// Which number of a point is drawn, and its name with the unit.
struct Measure {
    name: &'static str,
    unit: &'static str,
    of: fn(&Point) -> Option<Estimate>,
}

const MEASURES: [Measure; 2] = [
    Measure {
        name: "Time",
        unit: "µs",
        of: |point| Some(point.time),
    },
    Measure {
        name: "Bus bandwidth",
        unit: "GB/s",
        of: |point| point.busbw,
    },
];

fn panel_figure(panel: &Panel) -> anyhow::Result<Figure> {
    let case = panel.case.words();
    let mut pictures = Vec::new();
    let drawn = &panel.lines[..panel.lines.len().min(MOST_LINES)];
    for measure in &MEASURES {
        if let Some(picture) = panel_picture(&case, drawn, measure)? {
            pictures.push(picture);
        }
    }
    let mut thinned = Vec::new();
    if drawn.len() < panel.lines.len() {
        thinned.push(format!(
            "{} of {} lines are drawn.",
            drawn.len(),
            panel.lines.len()
        ));
    }
    if drawn
        .iter()
        .any(|line| line.points.len() > line_plot::MOST_POINTS)
    {
        thinned.push(format!(
            "Of each line at most {} sizes are drawn.",
            line_plot::MOST_POINTS
        ));
    }
    let table = panel_table(&case, panel, &mut thinned);
    Ok(Figure {
        name: Picture::file_name(&format!("case {case}")),
        title: case,
        pictures,
        table,
        thinned: thinned.join(" "),
    })
}

fn panel_picture(case: &str, lines: &[Line], measure: &Measure) -> anyhow::Result<Option<Picture>> {
    let mut drawn = Vec::new();
    for line in lines {
        let points = line.points.iter().filter_map(|point| {
            let estimate = (measure.of)(point).filter(|_| point.size > 0)?;
            Some(PlotPoint {
                x: point.size as f64,
                y: estimate.value,
                interval: estimate.interval,
            })
        });
        let line = PlotLine {
            label: line.label.clone(),
            points: points.collect(),
        };
        drawn.push(line.thinned());
    }
    if drawn.iter().all(|line| line.points.is_empty()) {
        return Ok(None);
    }
    let title = format!("{} against size: {case}", measure.name);
    let mut description = format!(
        "{} in {} by size, both axes logarithmic.",
        measure.name, measure.unit
    );
    for line in &drawn {
        description.push(' ');
        description += &spoken(line, measure.unit);
    }
    let plot = LinePlot {
        scale: Scale::SizesAndLogarithm,
        x_name: "size",
        y_name: format!("{} ({})", measure.name.to_lowercase(), measure.unit),
        lines: drawn,
        limit: (measure.unit == "GB/s").then(|| peak_line(lines)).flatten(),
    };
    if plot.limit.is_some() {
        description += " A dashed line is the peak that the links allow.";
    }
    let svg = line_plot::draw(&plot)?;
    Ok(Some(Picture::new(
        &format!("{} {case}", measure.name),
        title,
        description,
        &svg,
    )))
}

/// Says what a line shows, for those who do not see it.
fn spoken(line: &PlotLine, unit: &str) -> String {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
        return format!("{}: nothing.", line.label);
    };
    format!(
        "{}: from {} {unit} at {} to {} {unit} at {}.",
        line.label,
        figure(Some(first.y)),
        Bytes(first.x as u64),
        figure(Some(last.y)),
        Bytes(last.x as u64)
    )
}

/// Returns the peak of the first line that has one.
fn peak_line(lines: &[Line]) -> Option<PlotLine> {
    for line in lines {
        let points = line.points.iter().filter_map(|point| {
            Some(PlotPoint {
                x: point.size as f64,
                y: point.peak.filter(|peak| *peak > 0.0)?,
                interval: None,
            })
        });
        let mut points: Vec<PlotPoint> = points.collect();
        if let [only] = points[..] {
            // A single point is no line.
            let at = |x| PlotPoint { x, ..only };
            points = vec![at(only.x / BESIDE), at(only.x * BESIDE)];
        }
        if !points.is_empty() {
            let label = format!("peak of the links of {}", line.label);
            return Some(PlotLine { label, points }.thinned());
        }
    }
    None
}

fn panel_table(case: &str, panel: &Panel, thinned: &mut Vec<String>) -> Table {
    let mut rows = Vec::new();
    for line in &panel.lines {
        for point in &line.points {
            let busbw = point.busbw;
            rows.push(vec![
                Bytes(point.size).to_string(),
                line.label.clone(),
                figure(Some(point.time.value)),
                interval(point.time.interval),
                figure(busbw.map(|busbw| busbw.value)),
                interval(busbw.and_then(|busbw| busbw.interval)),
                figure(point.peak),
                point.time.count.to_string(),
                point
                    .wrong
                    .map_or_else(String::new, |wrong| wrong.to_string()),
            ]);
            if rows.len() > MOST_ROWS {
                break;
            }
        }
    }
    thinned.extend(end_table(&mut rows));
    Table {
        caption: format!("Time and bus bandwidth of {case}"),
        head: words(&[
            "size",
            "line",
            "time (µs)",
            "95 % interval",
            "busbw (GB/s)",
            "95 % interval of busbw",
            "peak (GB/s)",
            "repetitions",
            "wrong elements",
        ]),
        rows,
    }
}

fn heat_figure(what: &str, map: &HeatMap) -> anyhow::Result<Figure> {
    let title = format!("{what}: {}", map.title);
    let ratio = map.ratio;
    let description = format!(
        "Heat map of {} and {}. Each cell is {ratio}, from blue for shorter to orange for longer. The table has the ranks \
         with the largest and the smallest ratio of each size.",
        counted(map.ranks as u64, "rank"),
        counted(map.sizes.len() as u64, "size"),
    );
    let svg = heat_map::draw(map)?;
    let mut rows = Vec::new();
    for extremes in &map.extremes {
        let (slowest, high) = &extremes.slowest;
        let (fastest, low) = &extremes.fastest;
        rows.push(vec![
            Bytes(extremes.size).to_string(),
            slowest.clone(),
            figure(Some(*high)),
            fastest.clone(),
            figure(Some(*low)),
        ]);
    }
    Ok(Figure {
        name: Picture::file_name(&format!("heat {title}")),
        pictures: vec![Picture::new(&title, title.clone(), description, &svg)],
        table: Table {
            caption: format!("Slowest and fastest rank by size: {title}"),
            head: words(&[
                "size",
                "slowest rank",
                ratio,
                "fastest rank",
                &format!("{ratio} of the fastest"),
            ]),
            rows,
        },
        title,
        thinned: map.thinned.clone(),
    })
}

fn telemetry_figure(telemetry: &Telemetry, quantity: &Quantity) -> anyhow::Result<Figure> {
    let title = format!("{} over time: {}", quantity.name, telemetry.run);
    let lines = quantity.drawn();
    let description = format!(
        "{} against seconds since the start, {}. The table has the least, the mean and the most.",
        quantity.name,
        counted(lines.len() as u64, "curve")
    );
    let plot = LinePlot {
        scale: Scale::Linear,
        x_name: "seconds",
        y_name: quantity.name.to_owned(),
        lines,
        limit: None,
    };
    let svg = line_plot::draw(&plot)?;
    let mut rows = Vec::new();
    let summaries = quantity.lines.iter().zip(&quantity.extents);
    for (line, summary) in summaries {
        rows.push(vec![
            line.label.clone(),
            figure(Some(summary.low)),
            figure(Some(summary.mean)),
            figure(Some(summary.high)),
            summary.samples.to_string(),
        ]);
    }
    let mut thinned = vec![quantity.thinned.clone()];
    thinned.extend(end_table(&mut rows));
    Ok(Figure {
        name: Picture::file_name(&format!("telemetry {title}")),
        pictures: vec![Picture::new(&title, title.clone(), description, &svg)],
        table: Table {
            caption: format!("{} by {}", quantity.name, quantity.noun),
            head: words(&[quantity.noun, "least", "mean", "most", "samples"]),
            rows,
        },
        title,
        thinned: thinned.join(" "),
    })
}

fn remarks(machines: &[Machine]) -> Vec<String> {
    let mut all = Vec::new();
    for remark in machines.iter().flat_map(|machine| &machine.remarks) {
        if !all.contains(remark) {
            all.push(remark.clone());
        }
    }
    all
}

/// Returns what the log of each run shows of PXN, by run.
fn verdicts_on_pxn(content: &Content) -> Vec<(String, String)> {
    let mut verdicts = Vec::new();
    for source in &content.sources {
        let proof = source.run.as_ref().and_then(|run| run.proof.as_ref());
        if let Some(proof) = proof {
            verdicts.push((source.name(), proof.verdict.clone()));
        }
    }
    verdicts
}

fn proof(panels: &[Panel]) -> Vec<ProofRow> {
    let mut rows = Vec::new();
    for panel in panels {
        for line in &panel.lines {
            let proof = &line.proof;
            if proof.is_empty() {
                continue;
            }
            let joined =
                |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join("; ");
            rows.push(ProofRow {
                case: panel.case.words(),
                line: line.label.clone(),
                pxn: match (proof.used, proof.not_used) {
                    (0, 0) => "the log does not tell".to_owned(),
                    (used, 0) => format!("used in {}", counted(used, "row")),
                    (0, not_used) => format!("not used in {}", counted(not_used, "row")),
                    (used, not_used) => {
                        format!("used in {}, not used in {not_used}", counted(used, "row"))
                    }
                },
                transports: joined(&proof.transports),
                algorithms: joined(&proof.algorithms),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_rows_that_are_too_many_are_left_out_and_said() {
        let figure = || {
            Ok(Figure {
                name: String::new(),
                title: String::new(),
                pictures: Vec::new(),
                table: Table::default(),
                thinned: String::new(),
            })
        };
        let mut left_out = Vec::new();
        let mut budget = FigureBudget {
            bytes: 1,
            left_out: &mut left_out,
        };
        let maps = (0..MOST_MAPS + 2).map(|_| figure());
        let kept = budget.take(MOST_MAPS, maps, "heat map");
        assert_eq!(kept.expect("figures").len(), MOST_MAPS);
        assert!(
            left_out[0].starts_with("2 heat maps are not drawn"),
            "{left_out:?}"
        );
        let mut rows = vec![Vec::new(); MOST_ROWS];
        assert_eq!(end_table(&mut rows), None);
        rows.push(Vec::new());
        let sentence = end_table(&mut rows).expect("said");
        assert_eq!(sentence, "The table ends after 200 rows.");
        assert_eq!(rows.len(), MOST_ROWS);
    }

    #[test]
    fn words_of_files_are_no_markup_in_markdown() {
        assert_eq!(
            markdown_cell("a|b <i>&`x` [l](u) @all\nc"),
            "a\\|b &lt;i>&amp;\\`x\\` \\[l\\](u) \\@all c"
        );
    }
}
