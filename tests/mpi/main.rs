//! The built command as several processes that `mpirun` starts. Fails, never skips, where there is no MPI or no adapter.

#[path = "../cli/workplace.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod workplace;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use wgpu_bert::checkpoint::{NamedTensor, TensorFile};

use workplace::Workplace;

const COMMAND: &str = env!("CARGO_BIN_EXE_wgpu-bert");
const STEPS: usize = 50;

/// The command by itself.
fn wgpu_bert(args: &[&str]) -> Command {
    let mut command = Command::new(COMMAND);
    command.args(args);
    command
}

/// The command as one rank for each list of flags.
fn ranks(lists: &[Vec<String>]) -> Command {
    let mut command = Command::new("mpirun");
    // What hangs is ended, and fails. Ranks that wait for others leave them the processor.
    command.args(["--allow-run-as-root", "--oversubscribe", "--timeout", "100"]);
    for (rank, flags) in lists.iter().enumerate() {
        command.args((rank > 0).then_some(":"));
        command.args(["-n", "1", COMMAND]).args(flags);
    }
    command
}

/// Exit code, stdout and stderr of a finished command.
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The flags of a run of 50 measured steps, or of `more`, into `folder`.
fn flags(place: &Workplace, folder: &str, more: &[&str]) -> Vec<String> {
    let steps = STEPS.to_string();
    let own = [
        format!("--model_dir={}", place.path(folder)),
        format!("--num_steps_per_epoch={steps}"),
        "--num_train_epochs=1".into(),
        "--steps_per_loop=1".into(),
        "--json".into(),
    ];
    let own: Vec<_> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
    place.flags(&own)
}

/// As two ranks.
fn two(place: &Workplace, folder: &str, more: &[&str]) -> Command {
    let flags = flags(place, folder, &[&["--ds=multi_worker_mirrored"], more].concat());
    ranks(&[flags.clone(), flags])
}

fn succeeds(command: &mut Command) -> Finished {
    let finished = run(command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished
}

fn losses(finished: &Finished) -> Vec<f64> {
    let lines = finished.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines
        .filter(|line| line["kind"] == "progress")
        .map(|line| line["loss"].as_f64().expect("a loss"))
        .collect()
}

/// Model and moments at the end.
fn end(place: &Workplace, folder: &str) -> [Vec<u8>; 2] {
    let folder = place.path(folder);
    let moments = format!("checkpoint-{STEPS}/training_state.safetensors");
    ["model.safetensors", &moments].map(|file| fs::read(Path::new(&folder).join(file)).expect(file))
}

fn weights(bytes: &[u8]) -> Vec<NamedTensor> {
    let file = TensorFile::parse(bytes, "a model").expect("a model");
    file.names().into_iter().map(|name| file.f32(name).expect("a tensor")).collect()
}

#[test]
fn ranks_make_the_steps_of_one_device_and_the_same_bits_again() {
    let place = Workplace::new();
    let one = flags(&place, "one", &["--ds=one_device"]);
    let one = succeeds(wgpu_bert(&[]).args(one));
    let four = flags(&place, "four", &["--ds=mirrored", "--replicas_per_adapter=4"]);
    succeeds(wgpu_bert(&[]).args(four));
    let weights_of_one = weights(&end(&place, "one")[0]);
    for (folder, replicas) in [("2 x 1", "1"), ("2 x 2", "2"), ("2 x 2 again", "2")] {
        let told = succeeds(&mut two(&place, folder, &["--replicas_per_adapter", replicas]));
        let losses_of = losses(&told);
        assert_eq!(losses_of.len(), STEPS, "{}", told.stdout);
        for (step, (loss, want)) in losses_of.iter().zip(losses(&one)).enumerate() {
            assert!((loss - want).abs() <= 5e-5, "{folder}, step {step}: {loss}, not {want}");
        }
        for (tensor, want) in weights(&end(&place, folder)[0]).iter().zip(&weights_of_one) {
            // Its gradient is 0 but for rounding, which AdamW makes steps of.
            let has_gradient = !tensor.name.ends_with("self.key.bias");
            let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4;
            let other = has_gradient && tensor.data.iter().zip(&want.data).any(differs);
            assert!(!other, "{folder}: {}", tensor.name);
        }
        // The first one alone tells.
        assert_eq!(told.stderr.matches("Saved in").count(), 1, "{}", told.stderr);
        assert!(told.stderr.contains("each process"), "{}", told.stderr);
        assert!(told.stderr.contains("Those of rank 0:\n  0: "), "{}", told.stderr);
        assert!(told.stderr.contains("2 processes train together"), "{}", told.stderr);
    }
    // Pairs of replicas, and pairs of these: whether they are summed within a process or between two does not matter.
    assert!(end(&place, "2 x 2") == end(&place, "2 x 2 again"), "other bits");
    assert!(end(&place, "2 x 2") == end(&place, "four"), "other bits than within one process");
}

#[test]
fn a_run_goes_on_from_the_checkpoint_of_the_first_rank_until_it_is_finished() {
    let place = Workplace::new();
    succeeds(&mut two(&place, "whole", &["--save_checkpoints_steps=20"]));
    let resume = format!("--resume={}/checkpoint-20", place.path("whole"));
    // The other rank sees no checkpoint, as on another host.
    let first = flags(&place, "rest", &["--ds=multi_worker_mirrored", &resume]);
    let other = flags(&place, "nothing", &["--ds=multi_worker_mirrored", &resume]);
    let told = succeeds(&mut ranks(&[first.clone(), other.clone()])).stderr;
    assert!(told.contains("after step 20 of 50"), "{told}");
    assert!(end(&place, "rest") == end(&place, "whole"), "other bits after a resume");
    assert!(!Path::new(&place.path("nothing")).exists(), "the other rank wrote");
    let again = [first, other].map(|flags| [&flags[..], &["--resume=auto".into()]].concat());
    let told = succeeds(&mut ranks(&again)).stderr;
    assert!(told.contains("is finished: all 50 steps are done"), "{told}");
}

/// A run without an end, once its second checkpoint is written: `mpirun`, the processes of its ranks, and its pipes.
struct Endless {
    mpirun: Child,
    ranks: [String; 2],
    stdout: BufReader<std::process::ChildStdout>,
}

fn endless(place: &Workplace) -> Endless {
    let more = ["--num_steps_per_epoch=1000000", "--save_checkpoints_steps=5", "--steps_per_loop=5"];
    let mut command = two(place, "model", &more);
    let mut mpirun = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts");
    let mut stdout = BufReader::new(mpirun.stdout.take().expect("a pipe"));
    let mut checkpoints = 0;
    while checkpoints < 2 {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).expect("text") > 0, "{}", rest(mpirun.stderr.take()));
        checkpoints += usize::from(line.contains("\"checkpoint\""));
    }
    let children = Command::new("pgrep").args(["-P", &mpirun.id().to_string()]).output().expect("pgrep");
    let mut ranks = [String::new(), String::new()];
    for process in String::from_utf8_lossy(&children.stdout).lines() {
        let variables = fs::read(format!("/proc/{process}/environ")).expect("a process");
        for (rank, place) in ranks.iter_mut().enumerate() {
            let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
            if variables.split(|byte| *byte == 0).any(|v| v == variable.as_bytes()) {
                process.clone_into(place);
            }
        }
    }
    Endless { mpirun, ranks, stdout }
}

fn rest(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    pipe.expect("a pipe").read_to_string(&mut text).expect("text");
    text
}

impl Endless {
    /// Sends a signal to a rank; the exit code, stdout and stderr that follow.
    fn signalled(mut self, rank: usize, signal: &str) -> Finished {
        let status = Command::new("kill").args([signal, &self.ranks[rank]]).status();
        assert!(status.expect("kill").success());
        let (stdout, stderr) = (rest(Some(self.stdout)), rest(self.mpirun.stderr.take()));
        Finished { code: self.mpirun.wait().expect("an end").code(), stdout, stderr }
    }
}

#[test]
fn a_rank_that_is_killed_ends_the_run_which_goes_on_from_its_last_checkpoint() {
    let place = Workplace::new();
    let told = endless(&place).signalled(1, "-KILL");
    assert!(told.code.is_none_or(|code| code != 0), "{}", told.stderr);
    assert!(told.stderr.contains("rank 1") && told.stderr.contains("signal 9"), "{}", told.stderr);
    let told =
        run(&mut two(&place, "model", &["--num_steps_per_epoch=1000000", "--num_train_epochs=1", "--tpu=x"]));
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    let more = ["--resume=auto", "--confirm_changes", "--num_steps_per_epoch=100000", "--learning_rate=1e38"];
    // It goes on, and diverges at once: all ranks know, and none waits for another.
    let told = run(&mut two(&place, "model", &more));
    assert_eq!(told.code, Some(5), "{}", told.stderr);
    assert!(
        told.stderr.contains("Going on after step") && told.stderr.contains("diverged"),
        "{}",
        told.stderr
    );
    assert_eq!(told.stderr.matches("diverged").count(), 1, "{}", told.stderr);
}

#[test]
fn a_run_stops_in_all_ranks_when_any_is_interrupted() {
    for rank in [0, 1] {
        let place = Workplace::new();
        let told = endless(&place).signalled(rank, "-INT");
        assert_eq!(told.code, Some(130), "{}", told.stderr);
        assert!(told.stderr.contains("Stopped after step"), "{}", told.stderr);
        assert!(told.stderr.contains(&format!("\nmpirun -n 2 {COMMAND} pretrain")), "{}", told.stderr);
        assert!(Path::new(&place.path("model")).join("model.safetensors").exists());
    }
}

#[test]
fn a_rank_that_cannot_take_part_ends_all_and_says_why() {
    let place = Workplace::new();
    let run_with = |other: &[&str]| {
        let flags = |more: &[&str]| flags(&place, "never", &[&["--ds=multi_worker_mirrored"], more].concat());
        run(&mut ranks(&[flags(&[]), flags(other)]))
    };
    for (other, parts) in [
        // Before it has joined.
        (["--tpu=local"], &["a TPU is not reached through WebGPU"][..]),
        (["--eval_files=nowhere"], &["rank 1: cannot read nowhere"]),
        (["--learning_rate=0.5"], &["rank 1: other than rank 0", "learning_rate was 0.01 and is 0.5"]),
        (["--seed=3"], &["rank 1: other than rank 0", "seed was 12345 and is 3"]),
        (["--replicas_per_adapter=2"], &["rank 1 was started with other data or replicas"]),
        (["--adapter=none"], &["rank 1: Distribution strategy is not specified"]),
    ] {
        let told = run_with(&other);
        assert!(told.code.is_some_and(|code| code != 0), "{other:?}: {}", told.stderr);
        assert!(parts.iter().all(|part| told.stderr.contains(part)), "{other:?}: {}", told.stderr);
        assert!(!told.stderr.contains("has a bug"), "{other:?}: {}", told.stderr);
        assert!(!told.stderr.contains("MPI_ERR"), "{other:?}: {}", told.stderr);
    }
    let told = run(&mut ranks(&[vec!["devices".into()], vec!["devices".into()]]));
    assert_eq!((told.code, &told.stdout[..]), (Some(2), ""), "{}", told.stderr);
    assert!(told.stderr.contains("start one without mpirun"), "{}", told.stderr);
    let apart = flags(&place, "never", &["--ds=one_device"]);
    let told = run(&mut ranks(&[apart.clone(), apart]));
    assert_eq!(told.code, Some(2), "{}", told.stderr);
    assert!(told.stderr.contains("mpirun started 2 processes"), "{}", told.stderr);
    assert!(!Path::new(&place.path("never")).join("model.safetensors").exists());
}
