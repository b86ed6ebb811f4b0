//! Checkpoints and going on from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wgpu_bert::checkpoint::RunFolder;
use wgpu_bert::data::PythonRandom;

use super::workplace::Workplace;
use super::{Finished, json_lines, run, wgpu_bert};

/// A run of 60 steps with dropout, over several passes of the data.
pub const STEPS: u64 = 60;

/// The flags of that run in `folder` of the workplace, with `flags` after its own.
pub fn sixty_steps(place: &Workplace, folder: &str, flags: &[&str]) -> Command {
    let model_dir = format!("--model_dir={}", place.path(folder));
    let own = [model_dir.as_str(), "--num_steps_per_epoch=30", "--steps_per_loop=7", "--dupe_factor=1"];
    let flags = place.flags(&[&own[..], flags].concat());
    wgpu_bert(&flags.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn checkpoint(place: &Workplace, folder: &str, step: u64) -> PathBuf {
    Path::new(&place.path(folder)).join(format!("checkpoint-{step}"))
}

/// The steps of the checkpoints in a folder.
pub fn steps(folder: &str) -> Vec<u64> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<_> =
        names.filter_map(|name| name.strip_prefix("checkpoint-").map(|step| step.parse().unwrap())).collect();
    steps.sort();
    steps
}

/// The numbers of a run's end: its model, and the moments of its last checkpoint.
pub fn end(place: &Workplace, folder: &str) -> [Vec<u8>; 2] {
    end_after(place, folder, STEPS)
}

pub fn end_after(place: &Workplace, folder: &str, steps: u64) -> [Vec<u8>; 2] {
    let model = Path::new(&place.path(folder)).join("model.safetensors");
    let moments = checkpoint(place, folder, steps).join("training_state.safetensors");
    [model, moments].map(|path| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

pub fn succeeds(command: &mut Command) -> Finished {
    let finished = run(command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished
}

pub fn refused(command: &mut Command, parts: &[&str]) {
    let finished = run(command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    let told = &finished.stderr;
    assert!(parts.iter().all(|part| told.contains(part)), "{told} should contain {parts:?}");
    assert!(!told.contains("has a bug"), "{told}");
}

#[test]
fn a_run_goes_on_from_a_checkpoint_with_the_same_bits() {
    let place = Workplace::new();
    let every = ["--json", "--save_checkpoints_steps=1", "--keep_checkpoint_max=100"];
    let finished = succeeds(&mut sixty_steps(&place, "whole", &every));
    assert_eq!(steps(&place.path("whole")), (1..=STEPS).collect::<Vec<_>>());
    let lines = json_lines(&finished.stdout);
    let saved: Vec<_> = lines.iter().filter(|line| line["kind"] == "checkpoint").collect();
    assert_eq!(saved.len() as u64, STEPS);
    assert!(Path::new(saved[4]["path"].as_str().unwrap()).ends_with("checkpoint-5"), "{}", saved[4]);
    let mut stops: Vec<u64> = (1..STEPS).collect();
    PythonRandom::new(60).shuffle(&mut stops);
    for step in stops.into_iter().take(20) {
        let resume = format!("--resume={}", checkpoint(&place, "whole", step).display());
        let folder = format!("from {step}");
        let finished = succeeds(&mut sixty_steps(&place, &folder, &[&resume]));
        assert!(finished.stderr.contains(&format!("after step {step} of 60")), "{}", finished.stderr);
        assert!(end(&place, &folder) == end(&place, "whole"), "from step {step}");
    }
    // The heads that such a run does not train are as they were, too.
    let without = ["--nouse_next_sentence_label", "--save_checkpoints_steps=20"];
    succeeds(&mut sixty_steps(&place, "masks only", &without));
    let resume = format!("--resume={}", checkpoint(&place, "masks only", 20).display());
    succeeds(&mut sixty_steps(&place, "masks from 20", &[without[0], &resume]));
    assert!(end(&place, "masks from 20") == end(&place, "masks only"));
    // A checkpoint is a model, too.
    let model = checkpoint(&place, "whole", 30).display().to_string();
    succeeds(&mut wgpu_bert(&["fill-mask", "--model", &model, "the [MASK] sees"]));
}

#[test]
fn only_the_newest_are_kept_and_a_choice_is_asked_for() {
    let place = Workplace::new();
    succeeds(&mut sixty_steps(&place, "run", &["--save_checkpoints_steps=8", "--keep_checkpoint_max=2"]));
    let folder = place.path("run");
    assert_eq!(steps(&folder), [56, 60]);
    let before = end(&place, "run");

    refused(&mut sixty_steps(&place, "run", &[]), &[&folder, "all its 60 steps", "fill-mask", "--model_dir"]);
    refused(
        &mut sixty_steps(&place, "run", &["--resume=never", "--num_train_epochs=4"]),
        &[&folder, "step 60", "--resume=auto"],
    );
    refused(&mut sixty_steps(&place, "run", &["--resume=8"]), &["step 8", "56, 60"]);
    refused(&mut sixty_steps(&place, "new", &["--resume=8"]), &["step 8", "none at all"]);
    refused(
        &mut sixty_steps(&place, "new", &["--resume=/nonexistent/checkpoint"]),
        &["/nonexistent/checkpoint"],
    );
    assert!(!Path::new(&place.path("new")).exists());
    let foreign = checkpoint(&place, "run", 56).display().to_string();
    fs::create_dir(place.path("full")).unwrap();
    place.write("full/notes.txt", "mine");
    refused(&mut sixty_steps(&place, "full", &[]), &["not empty", "--resume=auto"]);
    refused(&mut sixty_steps(&place, "full", &[&format!("--resume={foreign}")]), &["not empty"]);
    // What is not there is told first.
    refused(&mut sixty_steps(&place, "full", &["--resume=nowhere"]), &["nowhere"]);

    let finished = succeeds(&mut sixty_steps(&place, "run", &["--resume=auto", "--json"]));
    assert!(finished.stderr.contains("is finished: all 60 steps are done"), "{}", finished.stderr);
    assert_eq!(json_lines(&finished.stdout)[0]["kind"], "done");
    assert!(end(&place, "run") == before && steps(&folder) == [56, 60]);
    // Unless the model is not there yet.
    fs::remove_file(Path::new(&folder).join("model.safetensors")).unwrap();
    succeeds(&mut sixty_steps(&place, "run", &["--resume=auto"]));
    assert!(end(&place, "run") == before);
    // A model of other origin is nothing to go on from.
    for step in [56, 60] {
        fs::remove_dir_all(checkpoint(&place, "run", step)).unwrap();
    }
    refused(&mut sixty_steps(&place, "run", &["--resume=auto"]), &["no checkpoint to go on from"]);
}

#[test]
fn what_changed_is_listed_and_must_be_confirmed() {
    let place = Workplace::new();
    succeeds(&mut sixty_steps(&place, "run", &["--save_checkpoints_steps=20"]));
    let step = checkpoint(&place, "run", 20).display().to_string();
    let changed = ["--resume=20", "--learning_rate=1e-3", "--train_batch_size=3", "--num_steps_per_epoch=20"];
    let parts = [
        "learning_rate was 0.01 and is 0.001",
        "train_batch_size was 4 and is 3",
        "num_steps_per_epoch times num_train_epochs was 60 and is 40",
        "--confirm_changes",
    ];
    refused(&mut sixty_steps(&place, "run", &changed), &parts);
    let kernels = "kernels was not given and is \"register\"";
    refused(&mut sixty_steps(&place, "run", &["--resume=20", "--kernels=register"]), &[kernels]);
    assert_eq!(steps(&place.path("run")), [20, 40, 60]);
    // Measurements of steps that are done again give way.
    place.write("run/metrics.jsonl", "{\"step\": 19}\n{\"step\": 21}\n{\"st");
    // What changes no numbers needs no confirmation.
    let resume = format!("--resume={step}");
    let harmless = [resume.as_str(), "--steps_per_loop=3", "--save_checkpoints_secs=9"];
    succeeds(&mut sixty_steps(&place, "other", &harmless));
    assert!(end(&place, "other") == end(&place, "run"));

    let finished =
        succeeds(&mut sixty_steps(&place, "run", &[&changed[..], &["--confirm-changes"]].concat()));
    assert!(finished.stderr.contains("learning_rate was 0.01"), "{}", finished.stderr);
    assert!(finished.stderr.contains("set-aside-checkpoint-60"), "{}", finished.stderr);
    assert_eq!(steps(&place.path("run")), [20, 40]);
    let metrics = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    let measured: Vec<_> = json_lines(&metrics).iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(measured, [19, 27, 34, 40]);
    assert!(Path::new(&place.path("run/set-aside-checkpoint-60/model.safetensors")).is_file());

    for (flag, part) in [
        ("--nouse_next_sentence_label", "use_next_sentence_label was true and is false"),
        (
            &format!(
                "--bert_config_file={}",
                place.write(
                    "wider.json",
                    r#"{"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                    "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 2}"#,
                )
            ),
            "intermediate_size was 12 and is 16",
        ),
    ] {
        let flags = ["--resume=20", "--confirm_changes", flag];
        refused(&mut sixty_steps(&place, "run", &flags), &["another model", part]);
    }
    let text = fs::read_to_string(place.path("text.txt")).unwrap();
    place.write("text.txt", &format!("{text}\n\nthe cat sees the bird\nthe bird sees the cat\n"));
    refused(&mut sixty_steps(&place, "run", &["--resume=20"]), &["examples", "are other ones"]);
}

#[test]
fn a_damaged_checkpoint_is_told_and_the_one_before_is_used() {
    let place = Workplace::new();
    let flags = ["--save_checkpoints_steps=20", "--keep_checkpoint_max=9"];
    succeeds(&mut sixty_steps(&place, "run", &flags));
    let whole = end(&place, "run");
    // Cut off, one bit flipped, and not of this program.
    let state = checkpoint(&place, "run", 60).join("training_state.safetensors");
    let bytes = fs::read(&state).unwrap();
    fs::write(&state, &bytes[..bytes.len() - 1]).unwrap();
    let model = checkpoint(&place, "run", 40).join("model.safetensors");
    let mut bytes = fs::read(&model).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).unwrap();
    fs::create_dir(checkpoint(&place, "run", 99)).unwrap();

    refused(
        &mut sixty_steps(&place, "run", &["--resume=40"]),
        &["checkpoint-40", "model.safetensors is not"],
    );
    let finished = succeeds(&mut sixty_steps(&place, "run", &[&["--resume=auto"], &flags[..]].concat()));
    for part in
        ["checkpoint-99 cannot be used: SHA256SUMS is missing", "checkpoint-60 cannot", "after step 20"]
    {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
    assert_eq!(steps(&place.path("run")), [20, 40, 60]);
    assert!(end(&place, "run") == whole);

    for step in [20, 40, 60] {
        fs::write(checkpoint(&place, "run", step).join("SHA256SUMS"), "").unwrap();
    }
    let parts = ["checkpoint-20 cannot be used", "training_state.json is missing", "No checkpoint in"];
    refused(&mut sixty_steps(&place, "run", &["--resume=auto"]), &parts);
}

/// A stop by Ctrl-C, whenever it comes, changes nothing in the end.
#[cfg(unix)]
#[test]
fn a_run_stopped_by_ctrl_c_goes_on_as_it_was_told() {
    let place = Workplace::new();
    // So many that their measurements do not fit a pipe that nobody reads: the run cannot end before it is stopped.
    const MANY: u64 = 600;
    let many = ["--num_steps_per_epoch=300", "--steps_per_loop=1", "--json"];
    succeeds(&mut sixty_steps(&place, "whole", &many));
    let mut child =
        sixty_steps(&place, "run", &many).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let finished = super::finished(child.wait_with_output().unwrap());
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    let command = finished.stderr.lines().last().unwrap();
    let finished = run(Command::new("sh").args(["-c", command]));
    assert_eq!(finished.code, Some(0), "{command}: {}", finished.stderr);
    assert!(end_after(&place, "run", MANY) == end_after(&place, "whole", MANY));
    // Every step was measured once.
    let metrics = fs::read_to_string(Path::new(&place.path("run")).join("metrics.jsonl")).unwrap();
    let measured: Vec<_> = json_lines(&metrics).iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(measured, (1..=MANY).collect::<Vec<_>>());
}

/// SIGKILL at random moments: `WGPU_BERT_KILLS` says how many.
#[test]
fn a_killed_run_goes_on_from_a_whole_checkpoint() {
    let kills: u64 = std::env::var("WGPU_BERT_KILLS").map_or(5, |kills| kills.parse().expect("a number"));
    let place = Workplace::new();
    succeeds(&mut sixty_steps(&place, "whole", &[]));
    let flags = ["--resume=auto", "--save_checkpoints_steps=1"];
    let mut random = PythonRandom::new(1);
    let (mut inside_writes, mut rounds) = (0, 0);
    for kill in 0..kills {
        // A run that is through starts anew.
        if steps_or_none(&place.path("run")).last() == Some(&STEPS) {
            // It may have been killed between its last checkpoint and its model.
            succeeds(&mut sixty_steps(&place, "run", &flags));
            assert!(end(&place, "run") == end(&place, "whole"), "before kill {kill}");
            fs::remove_dir_all(place.path("run")).unwrap();
            rounds += 1;
        }
        let before = steps_or_none(&place.path("run")).last().copied();
        let mut child =
            sixty_steps(&place, "run", &flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Some moment after it wrote its first checkpoint, or instead of that while it writes it.
        let patience = Instant::now();
        let part = |step| Path::new(&place.path("run")).join(format!(".checkpoint-{step}.part"));
        let first = before.map_or(1, |step| step + 1);
        while child.try_wait().unwrap().is_none()
            && !part(first).exists()
            && steps_or_none(&place.path("run")).last().copied() <= before
        {
            assert!(patience.elapsed() < Duration::from_secs(600), "the run does nothing");
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_secs_f64(0.3 * random.random()));
        child.kill().unwrap();
        child.wait().unwrap();
        let parts = fs::read_dir(place.path("run")).unwrap();
        inside_writes +=
            parts.filter(|e| e.as_ref().unwrap().path().extension() == Some("part".as_ref())).count();
    }
    succeeds(&mut sixty_steps(&place, "run", &flags));
    assert!(end(&place, "run") == end(&place, "whole"));
    println!("{kills} kills, {inside_writes} of them inside a write; {rounds} runs ended before one");
}

fn steps_or_none(folder: &str) -> Vec<u64> {
    // The folder may come and go while a run looks whether it can be written.
    let checkpoints = RunFolder::checkpoints(Path::new(folder)).expect("a folder, or none");
    checkpoints.into_iter().map(|(step, _)| step).collect()
}

#[test]
fn a_run_on_records_masked_anew_goes_on_with_the_same_bits() {
    let place = Workplace::new();
    let input = format!("--input_file={}", place.path("text.txt"));
    let vocabulary = place.path("vocab.txt");
    let records = [place.path("a.tfrecord"), place.path("b.tfrecord")].join(",");
    succeeds(&mut wgpu_bert(&[
        "train-vocab",
        &input,
        "--vocab_size=60",
        &format!("--output_file={vocabulary}"),
    ]));
    let vocabulary = format!("--vocab_file={vocabulary}");
    let shape = ["--max_seq_length=16", "--max_predictions_per_seq=3", "--dupe_factor=2"];
    let output = format!("--output_file={records}");
    succeeds(&mut wgpu_bert(
        &[&["create-pretraining-data", &input, &vocabulary, &output][..], &shape].concat(),
    ));

    let input = format!("--input_files={records}");
    let config = format!("--bert_config_file={}", place.path("bert_config.json"));
    place.flags(&[]);
    let pretrain = |folder: &str, flags: &[&str]| {
        let model_dir = format!("--model_dir={}", place.path(folder));
        let run = [
            "pretrain",
            &input,
            &vocabulary,
            &config,
            &model_dir,
            "--max_seq_length=16",
            "--train_batch_size=4",
        ];
        let length = ["--num_steps_per_epoch=30", "--num_train_epochs=2", "--steps_per_loop=7"];
        wgpu_bert(&[&run[..], &length, flags].concat())
    };
    let dynamic = ["--masking=dynamic", "--masked_lm_prob=0.2"];
    succeeds(&mut pretrain("whole", &[&dynamic[..], &["--save_checkpoints_steps=25"]].concat()));
    let resume = format!("--resume={}", checkpoint(&place, "whole", 25).display());
    let finished = succeeds(&mut pretrain("resumed", &[&dynamic[..], &[&resume]].concat()));
    assert!(finished.stderr.contains("after step 25 of 60"), "{}", finished.stderr);
    assert!(end(&place, "resumed") == end(&place, "whole"));
    refused(&mut pretrain("other", &[&resume, "--masking=static"]), &["masking was \"dynamic\""]);
    refused(&mut pretrain("other", &["--masking=dynamic", "--max_ngram_size=2"]), &["max_ngram_size is 2"]);
}

/// More of them than stay in memory.
#[test]
fn a_run_on_examples_on_disk_goes_on_with_the_same_bits() {
    let place = Workplace::new();
    let sentence = |n: usize| ["the dog sees the cat", "a cat sees the dog", "the bird sings and"][n % 3];
    let document = |n: usize| -> String {
        (0..30)
            .map(|line| {
                (0..20).map(|word| sentence(n + line * word).to_owned() + " ").collect::<String>() + "\n"
            })
            .collect()
    };
    place.write("text.txt", &[document(0), document(1)].join("\n"));
    let flags = ["--max_seq_length=256", "--max_predictions_per_seq=5", "--dupe_factor=1500"];
    let pretrain = |folder: &str, more: &[&str]| {
        let flags = place.flags(&[&flags[..], &["--num_steps_per_epoch=6"], more].concat());
        let config = place.path("bert_config.json");
        let sizes = fs::read_to_string(&config).unwrap();
        place.write(
            "bert_config.json",
            &sizes.replace("\"max_position_embeddings\": 16", "\"max_position_embeddings\": 256"),
        );
        let model_dir = format!("--model_dir={}", place.path(folder));
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        flags.push(&model_dir);
        wgpu_bert(&flags)
    };
    succeeds(&mut pretrain("whole", &["--save_checkpoints_steps=5"]));
    let resume = format!("--resume={}", checkpoint(&place, "whole", 5).display());
    let finished = succeeds(&mut pretrain("resumed", &[&resume]));
    assert!(finished.stderr.contains("after step 5 of 12"), "{}", finished.stderr);
    assert!(end_after(&place, "resumed", 12) == end_after(&place, "whole", 12));
    // Nothing of the examples is left behind.
    let mut names: Vec<_> =
        fs::read_dir(place.path("whole")).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.retain(|name| !name.to_str().unwrap().starts_with("checkpoint-"));
    assert!(names.iter().all(|name| !name.to_str().unwrap().contains("tmp")), "{names:?}");
}
