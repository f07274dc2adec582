//! The folder from which a user submits jobs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{ROOT, common::BINARY};

/// A folder as a user has it: the templates, a site file that names the binary, and what jobs
/// leave.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new(site: &str) -> Home {
        let home = Home(tempfile::tempdir().expect("a folder"));
        fs::create_dir(home.path().join("slurm")).expect("made");
        for file in templates()
            .iter()
            .map(PathBuf::as_path)
            .chain([Path::new("site.conf.example")])
        {
            let from = Path::new(ROOT)
                .join("slurm")
                .join(file.file_name().expect("a name"));
            fs::copy(
                &from,
                home.path()
                    .join("slurm")
                    .join(file.file_name().expect("a name")),
            )
            .expect("copied");
        }
        fs::write(
            home.path().join("slurm/site.conf"),
            format!("PXNBENCH={BINARY}\n{site}\n"),
        )
        .expect("written");
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What the job printed.
    pub(crate) fn log(&self, job: &str) -> String {
        let end = format!("_{job}.out");
        let all = fs::read_dir(self.path())
            .expect("a folder")
            .flatten()
            .map(|entry| entry.path());
        let log = all
            .filter(|path| path.to_string_lossy().ends_with(&end))
            .map(|path| fs::read(path).unwrap_or_default());
        log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    /// The folder of the only run of a job.
    #[track_caller]
    pub(crate) fn run_of(&self, job: &str) -> PathBuf {
        let runs = self.runs_of(job);
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// Folders with a `run.json` of a job.
    pub(crate) fn runs_of(&self, job: &str) -> Vec<PathBuf> {
        let end = format!("-{job}");
        let jobs = fs::read_dir(self.path().join("results"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let jobs = jobs.filter(|path| path.to_string_lossy().ends_with(&end));
        let steps = jobs
            .flat_map(|path| fs::read_dir(path).into_iter().flatten().flatten())
            .map(|entry| entry.path());
        steps
            .filter(|path| path.join("run.json").is_file())
            .collect()
    }

    /// Waits until a running job has measured a few cases.
    #[track_caller]
    pub(crate) fn wait_for_rows(&self, job: &str) -> PathBuf {
        let started = Instant::now();
        loop {
            let csv = self.runs_of(job).first().map(|run| run.join("results.csv"));
            if let Some(csv) =
                csv.filter(|csv| fs::read_to_string(csv).map_or(0, |text| text.lines().count()) > 3)
            {
                return csv;
            }
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "no rows: {}",
                self.log(job)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// File names of the templates.
pub(crate) fn templates() -> Vec<PathBuf> {
    let all = fs::read_dir(Path::new(ROOT).join("slurm"))
        .expect("slurm/")
        .flatten()
        .map(|entry| entry.path());
    let mut templates: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|end| end == "sbatch"))
        .collect();
    templates.sort();
    assert!(templates.len() >= 8, "{templates:?}");
    templates
}
