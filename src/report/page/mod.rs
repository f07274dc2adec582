//! The page: what is shown of the results, in which order, and how much of it.

mod budget;
mod case_figure;
mod heat_figure;
mod outcome;
mod overview;
mod telemetry_figure;
mod templates;

use serde::Serialize;

use self::{
    budget::FigureBudget,
    case_figure::case_figure,
    heat_figure::heat_figure,
    overview::{OverviewRow, ProofRow},
    telemetry_figure::telemetry_figure,
};
use super::{
    comparison::Comparison,
    content::Content,
    doctor::Findings,
    figure::Figure,
    machine::Machine,
    palette,
    picture::Picture,
    ranks::HeatMap,
    rehearsal_section::{self, RehearsalSection},
    replay_section::{self, ReplaySection},
    table::{Table, is_are, limited},
    telemetry::Telemetry,
};

/// Heat maps of one kind.
const MOST_MAPS: usize = 24;

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
    rehearsals: Vec<RehearsalSection>,
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

impl<'a> Page<'a> {
    /// Lays out the page.
    ///
    /// # Errors
    ///
    /// Returns an error if a plot cannot be drawn.
    pub(super) fn new(content: &'a Content) -> anyhow::Result<Page<'a>> {
        let results = &content.results;
        let mut budget = FigureBudget::default();
        let late_maps = maps(&content.stragglers.maps, "Lateness by size");
        let late_maps = budget.take(MOST_MAPS, late_maps, "lateness map")?;
        let heat = maps(&content.heat_maps, "Ranks by size");
        let heat = budget.take(MOST_MAPS, heat, "heat map")?;
        let mut late = content.stragglers.table();
        late.rows = limited(late.rows, "late rank", &mut budget.left_out);
        let plots = content.telemetry.iter().flat_map(plots_over_time);
        let telemetry = budget.take(usize::MAX, plots, "plot over time")?;
        let cases = results.panels.iter().map(case_figure);
        let figures = budget.take(usize::MAX, cases, "case")?;
        let replays = replay_section::sections(&content.replays, &mut |figures, noun| {
            budget.take(usize::MAX, figures.into_iter().map(Ok), noun)
        })?;
        let mut rows_left_out = Vec::new();
        let rehearsals = rehearsal_section::sections(
            &content.rehearsals,
            &mut |figures, noun| budget.take(usize::MAX, figures.into_iter().map(Ok), noun),
            &mut rows_left_out,
        )?;
        let mut left_out = budget.left_out;
        left_out.extend(rows_left_out);
        let steps = replay_section::overview(&content.replays, &mut left_out);
        let overview = overview::overview(&results.panels);
        let overview = limited(overview, "overview row", &mut left_out);
        left_out.extend(runs_left_out(content));
        let proof = limited(overview::proof(&results.panels), "proof row", &mut left_out);
        Ok(Page {
            title: outcome::title(content),
            made_at: content.made_at.clone(),
            version: env!("CARGO_PKG_VERSION"),
            dark_rules: palette::dark_rules(),
            outcome: outcome::outcome(content),
            common: results.common.clone(),
            overview,
            has_rows: results.counts.rows > 0,
            figures,
            steps,
            replays,
            rehearsals,
            comparisons: &content.comparisons,
            remarks: outcome::remarks(&content.machines),
            heat,
            searched: content.stragglers.searches > 0 || !late_maps.is_empty(),
            late,
            late_sentences: &content.stragglers.sentences,
            late_maps,
            doctor: &content.doctor,
            verdicts_on_pxn: outcome::verdicts_on_pxn(content),
            file_notes: &content.notes,
            telemetry,
            throttled: outcome::throttled(content),
            proof,
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
        let relays = self.rehearsals.iter().flat_map(|one| &one.figures);
        let figures = self.figures.iter().chain(steps).chain(ranks);
        let figures = figures.chain(&self.telemetry).chain(relays);
        figures.flat_map(|figure| &figure.pictures)
    }

    /// Renders the template of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the template is wrong.
    pub(super) fn render(&self, template: &str) -> anyhow::Result<String> {
        templates::render(template, self)
    }
}

/// Draws heat maps of `what`.
fn maps(maps: &[HeatMap], what: &str) -> impl Iterator<Item = anyhow::Result<Figure>> {
    maps.iter().map(move |map| heat_figure(what, map))
}

/// Draws what was sampled in a run.
fn plots_over_time(telemetry: &Telemetry) -> impl Iterator<Item = anyhow::Result<Figure>> {
    let quantities = telemetry.quantities.iter();
    quantities.map(move |quantity| telemetry_figure(telemetry, quantity))
}

/// Returns how many runs are not described.
fn runs_left_out(content: &Content) -> Option<String> {
    let others = content.runs_left_out;
    (others > 0).then(|| format!("{} not described.", is_are(others, "further run")))
}
