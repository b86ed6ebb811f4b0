//! Evaluation during training: what is written and told of it, and the best checkpoint.

use std::fs;

use serde_json::Value;

use crate::workplace::Workplace;
use crate::{json_lines, run, wgpu_bert};

/// Steps of the checkpoints there are.
fn checkpoints(place: &Workplace) -> Vec<u64> {
    let entries = fs::read_dir(place.model_dir()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<u64> =
        names.filter_map(|name| name.strip_prefix("checkpoint-")?.parse().ok()).collect();
    steps.sort_unstable();
    steps
}

fn metrics(place: &Workplace) -> Vec<Value> {
    json_lines(&fs::read_to_string(place.model_dir().join("metrics.jsonl")).unwrap())
}

#[test]
fn the_best_checkpoint_is_kept_and_told() {
    let place = Workplace::new();
    let text: String =
        "the owl sees the moon\nthe moon sees the owl\n\nan owl sings\nthe moon sleeps\n\n".repeat(3);
    let eval = format!("--eval_files={}", place.write("held-out.txt", &text));
    // A rate that makes the model worse from some step on, so that the best is not the newest.
    let rest = [
        "--num_eval_per_epoch=3",
        "--num_train_epochs=4",
        "--learning_rate=0.3",
        "--warmup_steps=6",
        "--save_checkpoints_steps=1",
        "--keep_checkpoint_max=2",
        "--seed=3",
    ];
    let flags = [&[eval.as_str(), "--json"][..], &rest].concat();
    let finished = place.pretrain(&flags);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let told: Vec<_> =
        json_lines(&finished.stdout).into_iter().filter(|line| line["kind"] == "evaluation").collect();
    let steps: Vec<_> = told.iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=12).collect::<Vec<_>>());
    for line in &told {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert!((number("lm_example_loss") + number("next_sentence_loss") - number("loss")).abs() < 1e-9);
        assert!((number("perplexity").ln() - number("lm_example_loss")).abs() < 1e-9);
        assert!((0.0..=1.0).contains(&number("masked_lm_accuracy")));
    }
    let written = metrics(&place).into_iter().filter(|line| line["kind"] == "evaluation");
    assert!(written.eq(told.iter().cloned()));
    let loss = |line: &Value| line["loss"].as_f64().unwrap();
    let best = told.iter().min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap();
    let best_step = best["step"].as_u64().unwrap();
    assert!(best_step < 11, "the case needs a best one that is old: {told:?}");
    assert_eq!(checkpoints(&place), [best_step, 11, 12]);

    let folder = place.model_dir().join(format!("checkpoint-{best_step}")).display().to_string();
    assert!(
        finished.stderr.contains(&format!("was after step {best_step}: that model is in {folder}")),
        "{}",
        finished.stderr
    );
    let done = json_lines(&finished.stdout).pop().unwrap();
    assert_eq!(done["best_checkpoint"]["path"], folder);
    let summary = fs::read_to_string(place.model_dir().join("summaries/training_summary.txt")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["best_checkpoint"], folder);
    assert_eq!(summary["eval_metrics"]["training_loss"], told[11]["loss"]);
    let curves = fs::read_dir(place.model_dir().join("summaries/eval")).unwrap().next().unwrap().unwrap();
    assert!(fs::read(curves.path()).unwrap().windows(10).any(|bytes| bytes == b"perplexity"));
    // The folder is a model as good as was said.
    let evaluated = run(&mut wgpu_bert(&[
        "evaluate",
        "--model",
        &folder,
        "--max_predictions_per_seq=3",
        "--max_seq_length=16",
        "--seed=3",
        &format!("--input_files={}", place.path("held-out.txt")),
    ]));
    assert_eq!(evaluated.code, Some(0), "{}", evaluated.stderr);
    assert!((loss(&json_lines(&evaluated.stdout)[0]) - loss(best)).abs() < 1e-5, "{}", evaluated.stdout);
    assert!(evaluated.stderr.contains(&format!("Evaluating {folder} on ")), "{}", evaluated.stderr);
    assert!(evaluated.stderr.contains("perplexity"), "{}", evaluated.stderr);

    // A run that goes on still knows it, with and without evaluations.
    let longer = ["--num_train_epochs=5", "--confirm_changes", "--resume=auto"];
    let gone_on = place.pretrain(&[&rest[..1], &[eval.as_str()], &rest[2..], &longer].concat());
    assert_eq!(gone_on.code, Some(0), "{}", gone_on.stderr);
    let is_better = |line: &Value| line["kind"] == "evaluation" && loss(line) < loss(best);
    assert!(!metrics(&place).iter().any(is_better), "the case needs a best one that stays");
    assert_eq!(checkpoints(&place), [best_step, 14, 15]);
    let longer = ["--num_train_epochs=6", "--confirm_changes", "--resume=auto"];
    let gone_on = place.pretrain(&[&rest[2..], &longer].concat());
    assert_eq!(gone_on.code, Some(0), "{}", gone_on.stderr);
    assert_eq!(checkpoints(&place), [best_step, 17, 18]);
    // Other examples say nothing of it.
    let other = format!("--eval_files={}", place.path("text.txt"));
    let longer = ["--num_train_epochs=7", "--confirm_changes", "--resume=auto", other.as_str()];
    let gone_on = place.pretrain(&[&rest[2..], &longer].concat());
    assert_eq!(gone_on.code, Some(0), "{}", gone_on.stderr);
    assert!(!checkpoints(&place).contains(&best_step));
    // A run that goes back to before it does not know it.
    let back = format!("--resume={}", checkpoints(&place)[0]);
    let gone_on = place.pretrain(&[&rest[2..], &longer[..2], &[back.as_str()]].concat());
    assert_eq!(gone_on.code, Some(0), "{}", gone_on.stderr);
}

#[test]
fn evaluation_changes_no_bit_of_the_model_and_survives_a_stop() {
    let weights = |place: &Workplace| fs::read(place.model_dir().join("model.safetensors")).unwrap();
    let of = |place: &Workplace, flags: &[&str]| {
        let eval = format!("--eval_files={}", place.path("text.txt"));
        let flags =
            [&["--num_eval_per_epoch=2", "--save_checkpoints_steps=2"][..], &[eval.as_str()], flags].concat();
        let finished = place.pretrain(&flags);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        finished.stderr
    };
    let plain = Workplace::new();
    assert_eq!(plain.pretrain(&[]).code, Some(0));
    let whole = Workplace::new();
    let stderr = of(&whole, &["--keep_checkpoint_max=9"]);
    assert!(stderr.contains("step 6/6  evaluation: loss "), "{stderr}");
    assert!(weights(&whole) == weights(&plain));
    // Going on from the middle gives the same evaluations.
    let evaluations = |place: &Workplace| -> Vec<Value> {
        metrics(place).into_iter().filter(|line| line["kind"] == "evaluation").collect()
    };
    let before = evaluations(&whole);
    assert_eq!(before.len(), 4);
    of(&whole, &["--resume=2", "--keep_checkpoint_max=9"]);
    assert!(weights(&whole) == weights(&plain) && evaluations(&whole) == before);

    // One that was missed is made when the run goes on, and the checkpoint tells of it then.
    let missed = Workplace::new();
    let keep = "--keep_checkpoint_max=9";
    assert_eq!(missed.pretrain(&["--save_checkpoints_steps=3", keep]).code, Some(0));
    let record = missed.model_dir().join("checkpoint-3/training_state.json");
    assert!(!fs::read_to_string(&record).unwrap().contains("\"evaluation\""));
    of(&missed, &["--resume=3", keep]);
    assert!(weights(&missed) == weights(&plain) && evaluations(&missed)[..] == before[1..]);
    let evaluation = &serde_json::from_slice::<Value>(&fs::read(record).unwrap()).unwrap()["evaluation"];
    assert_eq!(evaluation["loss"], before[1]["loss"]);
    assert!(checkpoints(&missed).iter().eq(&[3, 4, 6]), "{:?}", checkpoints(&missed));
    // It is as whole as before.
    of(&missed, &["--resume=3", keep]);
}

#[test]
fn flags_of_evaluation_that_make_no_sense_are_refused() {
    let place = Workplace::new();
    let text = format!("--eval_files={}", place.path("text.txt"));
    let records = format!("--eval_files={}/tests/data/text/plain.tfrecord.gz", env!("CARGO_MANIFEST_DIR"));
    for (flags, told) in [
        (&["--num_eval_per_epoch=2"][..], "give those, too"),
        (&[text.as_str(), "--num_eval_per_epoch=0"], "num_eval_per_epoch"),
        (
            &[text.as_str(), "--num_eval_per_epoch=4"],
            "num_eval_per_epoch is 4; it must be from 1 to num_steps_per_epoch",
        ),
        (&["--eval_files=/nonexistent/text"], "/nonexistent/text"),
        (&["--eval_files=a,,b"], "--eval_files \"a,,b\" has an empty name"),
        // Of another shape than asked for.
        (&[records.as_str()], "plain.tfrecord.gz"),
    ] {
        let refused = place.pretrain(flags);
        assert_eq!(refused.code, Some(2), "{flags:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{flags:?}: {}", refused.stderr);
        assert!(!place.model_dir().exists(), "{flags:?}");
    }
}

#[test]
fn a_learning_rate_of_zero_is_suspected_once() {
    let place = Workplace::new();
    let flags = ["--learning_rate=0", "--num_steps_per_epoch=50", "--num_train_epochs=1", "--json"];
    let finished = place.pretrain(&flags);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("which is suspicious").count(), 1, "{}", finished.stderr);
    let lines = json_lines(&finished.stdout);
    let notices: Vec<_> = lines.iter().filter(|line| line["kind"] == "notice").collect();
    assert!(notices.len() == 1 && finished.stderr.contains(notices[0]["message"].as_str().unwrap()));
    let usual = Workplace::new().pretrain(&flags[1..3]);
    assert!(!usual.stderr.contains("suspicious"), "{}", usual.stderr);
}

#[test]
fn records_to_evaluate_on_may_have_another_shape() {
    let place = Workplace::new();
    let (vocabulary, records) = (place.path("vocab.txt"), place.path("held-out.tfrecord"));
    let text = format!("--input_file={}", place.path("text.txt"));
    let trained =
        run(&mut wgpu_bert(&["train-vocab", &text, "--vocab_size=60", "--output_file", &vocabulary]));
    assert_eq!(trained.code, Some(0), "{}", trained.stderr);
    let shape = ["--max_seq_length=12", "--max_predictions_per_seq=2"];
    let files = ["create-pretraining-data", &text, "--vocab_file", &vocabulary, "--output_file", &records];
    let made = run(&mut wgpu_bert(&[&files[..], &shape].concat()));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    // Of 16 tokens with 3 predictions are the examples made of the text.
    let finished = place.pretrain(&["--eval_files", &records, "--vocab_file", &vocabulary]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains("instances of 12 tokens with 2 predictions"), "{}", finished.stderr);
    assert!(finished.stderr.contains("step 6/6  evaluation: loss"), "{}", finished.stderr);
}
