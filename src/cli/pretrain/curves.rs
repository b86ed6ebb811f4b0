//! The measurements of a run on its disk: `metrics.jsonl`, a line for each, and TensorBoard's curves and the summary in
//! `summaries`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use wgpu_bert::train::summaries::{evaluation_scalars, first_events, scalars, training_summary};
use wgpu_bert::train::{Evaluation, Progress};

use super::super::evaluation;
use super::best::Best;
use super::progress::{at_step, to_json};

/// Writes measurements as they come. A disk that refuses is told of once, and training goes on.
pub struct Curves<T> {
    folder: PathBuf,
    /// Steps between two points of the curves; none are drawn where it is negative.
    interval: i64,
    first_step: u64,
    /// The step of the last point.
    drawn: Option<u64>,
    files: Option<Files>,
    /// The curves of evaluations.
    eval_events: Option<File>,
    last_evaluation: Option<Evaluation>,
    failed: bool,
    tell: T,
}

struct Files {
    metrics: File,
    events: Option<File>,
}

impl<T: Fn(&str)> Curves<T> {
    pub fn new(folder: &Path, interval: i64, tell: T) -> Self {
        let folder = folder.to_owned();
        Self {
            folder,
            interval,
            first_step: 0,
            drawn: None,
            files: None,
            eval_events: None,
            last_evaluation: None,
            failed: false,
            tell,
        }
    }

    /// The run starts after so many steps of an earlier one.
    pub fn started(&mut self, first_step: u64) {
        self.first_step = first_step;
    }

    pub fn progress(&mut self, progress: &Progress) {
        let written = self.write(progress);
        self.told(written);
    }

    /// After so many steps.
    pub fn evaluated(&mut self, step: u64, evaluation: &Evaluation) {
        self.last_evaluation = Some(*evaluation);
        let written = self.write_evaluation(step, evaluation);
        self.told(written);
    }

    /// The run is over, or stopped.
    pub fn finish(&mut self, last: &Progress, best: Option<&Best>) {
        let folder = self.folder.join("summaries");
        let best = best.map(|best| best.path.display().to_string());
        let summary = training_summary(last, self.last_evaluation.as_ref(), best.as_deref());
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("training_summary.txt"), summary));
        self.told(written);
    }

    fn told(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.failed, true)
        {
            let folder = self.folder.display();
            (self.tell)(&format!("The curves of this run in {folder} have gaps: {error}. The run goes on."));
        }
    }

    fn files(&mut self) -> io::Result<&mut Files> {
        Ok(match &mut self.files {
            Some(files) => files,
            none => none.insert(Files {
                metrics: metrics(&self.folder, self.first_step)?,
                events: (self.interval >= 0)
                    .then(|| events(&self.folder, "train", self.first_step))
                    .transpose()?,
            }),
        })
    }

    fn write_evaluation(&mut self, step: u64, evaluation: &Evaluation) -> io::Result<()> {
        let line = at_step(evaluation::to_json(evaluation), step);
        append(&mut self.files()?.metrics, format!("{line}\n").as_bytes())?;
        let events = match &mut self.eval_events {
            Some(events) => events,
            none => none.insert(events(&self.folder, "eval", self.first_step)?),
        };
        append(events, &evaluation_scalars(now(), step, evaluation))
    }

    fn write(&mut self, progress: &Progress) -> io::Result<()> {
        let (interval, drawn) = (self.interval, self.drawn);
        let files = self.files()?;
        // At once, so that a kill loses no more than the end of a line.
        append(&mut files.metrics, format!("{}\n", to_json("progress", progress)).as_bytes())?;
        let is_due = |last| progress.step >= last + interval.unsigned_abs();
        if let Some(events) = &mut files.events
            && drawn.is_none_or(is_due)
        {
            append(events, &scalars(now(), progress))?;
            self.drawn = Some(progress.step);
        }
        Ok(())
    }
}

/// The file to append to, without what an earlier part of the run measured of steps that are now done again.
fn metrics(folder: &Path, first_step: u64) -> io::Result<File> {
    let path = folder.join("metrics.jsonl");
    let earlier = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let stays = |line: &&str| {
        let value: Option<Value> = serde_json::from_str(line).ok();
        value.and_then(|value| value["step"].as_u64()).is_some_and(|step| step <= first_step)
    };
    let kept: String = earlier.lines().filter(stays).map(|line| format!("{line}\n")).collect();
    if kept != earlier {
        let beside = folder.join(".metrics.jsonl.new");
        fs::write(&beside, kept)?;
        fs::rename(beside, &path)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn events(folder: &Path, curves: &str, first_step: u64) -> io::Result<File> {
    let folder = folder.join("summaries").join(curves);
    fs::create_dir_all(&folder)?;
    let time = now();
    // TensorBoard looks for "tfevents", and reads files in the order of their names.
    let name = format!("events.out.tfevents.{:010}.{}.wgpu-bert", time as u64, std::process::id());
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join(name))?;
    append(&mut file, &first_events(time, first_step))?;
    Ok(file)
}

/// All of it or nothing: what follows a part of a line or of a record could not be read.
fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let whole = file.metadata()?.len();
    file.write_all(bytes).inspect_err(|_| {
        let _ = file.set_len(whole); // The error on its way out says more.
    })
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
