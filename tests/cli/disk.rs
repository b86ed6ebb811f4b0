//! What a run leaves on its disk, and a disk that is full.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::resume::{checkpoint, end, end_after, sixty_steps, steps, succeeds};
use super::workplace::Workplace;
use super::{Finished, json_lines};

/// Runs the command. After it said a word no file may grow beyond `bytes`, which is a full disk to who writes it.
#[cfg(target_os = "linux")]
fn full_after(word: &str, run: &Command, bytes: u32) -> Finished {
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(word)));
    let limit = [format!("--fsize={bytes}"), format!("--pid={}", child.id())];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    super::finished(child.wait_with_output().unwrap())
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_and_training_goes_on() {
    let place = Workplace::new();
    fs::create_dir(place.path("run")).unwrap();
    place.write("run/.checkpoint-40.part", "a file where a folder must go");
    let finished = succeeds(&mut sixty_steps(&place, "run", &["--save_checkpoints_steps=20"]));
    let path = checkpoint(&place, "run", 20);
    let told = format!("{} is kept; the run goes on", path.display());
    assert!(
        finished.stderr.contains("No checkpoint of step 40: cannot make the folder"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains(&told), "{}", finished.stderr);
    assert_eq!(steps(&place.path("run")), [20, 60]);
    succeeds(&mut sixty_steps(&place, "from 20", &[&format!("--resume={}", path.display())]));
    assert!(end(&place, "from 20") == end(&place, "run"));
}

/// The same run is done to its end when there is room again.
#[cfg(target_os = "linux")]
#[test]
fn checkpoints_on_a_full_disk_are_told_and_those_before_stay_whole() {
    let place = Workplace::new();
    // So many that their measurements do not fit a pipe that nobody reads: the run cannot end before there is a limit.
    let many = ["--num_steps_per_epoch=300", "--steps_per_loop=1", "--save_checkpoints_steps=50", "--json"];
    succeeds(&mut sixty_steps(&place, "whole", &many));
    let finished = full_after("checkpoint", &sixty_steps(&place, "run", &many), 4000);
    // The model cannot be written, either.
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("No checkpoint of step 600: "), "{}", finished.stderr);
    assert!(finished.stderr.contains("is kept; the run goes on."), "{}", finished.stderr);
    assert!(finished.stderr.contains("--resume=auto"), "{}", finished.stderr);
    assert!(finished.stderr.contains("step 600/600"), "{}", finished.stderr);
    assert!(!Path::new(&place.path("run")).join("model.safetensors").exists());
    let there = steps(&place.path("run"));
    assert!(there.last() < Some(&600), "{there:?}");
    let goes_on = succeeds(&mut sixty_steps(&place, "run", &[&many[..], &["--resume=auto"]].concat()));
    assert!(!goes_on.stderr.contains("cannot be used"), "{}", goes_on.stderr);
    assert!(end_after(&place, "run", 600) == end_after(&place, "whole", 600));
}

/// A model of many positions: its checkpoint takes many times as long to write as a step takes.
#[test]
fn training_goes_on_while_a_checkpoint_is_written() {
    let place = Workplace::new();
    let config = r#"{"vocab_size": 60, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 12, "max_position_embeddings": 60000, "type_vocab_size": 2}"#;
    let large = ["--bert_config_file", &place.write("large.json", config), "--json"];
    let often = ["--num_steps_per_epoch=10", "--steps_per_loop=1", "--save_checkpoints_steps=10"];
    let finished = succeeds(&mut sixty_steps(&place, "run", &[&large[..], &often].concat()));
    let lines = json_lines(&finished.stdout);
    let place_of =
        |kind, step| lines.iter().position(|line| line["kind"] == kind && line["step"] == step).expect(kind);
    assert!(place_of("progress", 11) < place_of("checkpoint", 10), "{}", finished.stdout);
}

/// Whatever the number of steps.
#[cfg(unix)]
#[test]
fn a_checkpoint_is_written_every_so_many_seconds() {
    let place = Workplace::new();
    let endless = ["--num_steps_per_epoch=1000000", "--save_checkpoints_steps=1000000"];
    let flags = [&endless[..], &["--save_checkpoints_secs=1", "--json"]].concat();
    let start = Instant::now();
    let mut run = sixty_steps(&place, "run", &flags);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let saved = lines.map(Result::unwrap).filter(|line| line.contains("\"checkpoint\"")).take(3).count();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let finished = super::finished(child.wait_with_output().unwrap());
    assert_eq!((saved, finished.code), (3, Some(130)), "{}", finished.stderr);
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    let told = "every 1000000 steps and every 1 second, the newest 3 kept, in ";
    assert!(finished.stderr.contains(told), "{}", finished.stderr);
}

/// No disk has room for so many.
#[test]
fn checkpoints_that_will_not_fit_are_told_before_the_first_step() {
    let place = Workplace::new();
    let finished = succeeds(&mut sixty_steps(&place, "run", &["--keep_checkpoint_max=2000000000"]));
    let line = |part: &str| {
        let lines = finished.stderr.lines().enumerate();
        lines.filter(|(_, line)| line.contains(part)).map(|(n, _)| n).next().expect(part)
    };
    assert!(line("A checkpoint of ") < line("make room, or keep fewer with --keep_checkpoint_max."));
    assert!(line("make room") < line("step 60/60"));
}

#[cfg(target_os = "linux")]
#[test]
fn curves_on_a_full_disk_are_cut_back_to_whole_lines() {
    let place = Workplace::new();
    // So many that their measurements do not fit a pipe that nobody reads: the run cannot end before there is a limit.
    let many = ["--num_steps_per_epoch=300", "--steps_per_loop=1", "--json"];
    let finished = full_after("progress", &sixty_steps(&place, "run", &many), 100_000);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("have gaps").count(), 1, "{}", finished.stderr);
    let metrics = fs::read_to_string(Path::new(&place.path("run")).join("metrics.jsonl")).unwrap();
    assert!(metrics.ends_with('\n') && (90_000..100_000).contains(&metrics.len()), "{}", metrics.len());
    let measured: Vec<_> = json_lines(&metrics).iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(measured, (1..=measured.len() as u64).collect::<Vec<_>>());
    assert!(steps(&place.path("run")).contains(&600));
}
