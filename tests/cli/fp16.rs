//! Half precision and its loss scale.

use std::fs;
use std::path::Path;

use wgpu_bert::checkpoint::RunFolder;
use wgpu_bert::optimizer::LossScaleState;
use wgpu_bert::train::TrainingCheckpoint;

use super::resume::{checkpoint, end, refused, sixty_steps, steps, succeeds};
use super::workplace::Workplace;
use super::{json_lines, run};

/// The checkpoint of step `step` in another folder, with another loss scale, or none.
fn planted(place: &Workplace, folder: &str, step: u64, to: &str, scale: Option<f32>) -> String {
    let files = RunFolder::read(&checkpoint(place, folder, step)).expect("a checkpoint");
    let mut whole = TrainingCheckpoint::from_files(&files, folder).expect("a checkpoint");
    let before = whole.snapshot.loss_scale.expect("a loss scale");
    whole.snapshot.loss_scale = scale.map(|scale| LossScaleState { scale, ..before });
    let run = RunFolder::claim(Path::new(&place.path(to))).expect("a folder");
    run.write(step, &whole.into_files().expect("files")).expect("written");
    format!("--resume={}", checkpoint(place, to, step).display())
}

#[test]
fn a_run_goes_on_after_an_overflow_as_if_never_stopped() {
    let place = Workplace::new();
    let flags =
        ["--dtype=fp16", "--save_checkpoints_steps=1", "--keep_checkpoint_max=100", "--steps_per_loop=1"];
    let finished = succeeds(&mut sixty_steps(&place, "whole", &[&flags[..], &["--json"]].concat()));
    let told: Vec<_> =
        json_lines(&finished.stdout).into_iter().filter(|line| line["kind"] == "progress").collect();
    assert!(told.len() == 60 && told.iter().all(|line| line["loss_scale"] == 32768.0), "{told:?}");
    assert!(told.iter().all(|line| line.get("left_out").is_none()));

    // So large that gradients are beyond the largest number of 16 bits, until it has halved some times.
    let resume = planted(&place, "whole", 10, "planted", Some(2.0_f32.powi(24)));
    let finished = succeeds(&mut sixty_steps(&place, "overflow", &[&flags[..], &[&resume]].concat()));
    let notice = "1 of the steps up to 11 was left out: a loss or a gradient was not finite. The loss scale of the next \
                  step is 8388608.";
    assert!(finished.stderr.contains(notice), "{}", finished.stderr);
    let metrics = fs::read_to_string(place.path("overflow/metrics.jsonl")).unwrap();
    let (mut scale, mut skipped) = (2.0_f64.powi(24), 0);
    for line in json_lines(&metrics) {
        let left_out = line["left_out"].as_u64().unwrap_or(0);
        (scale, skipped) = (scale / 2.0_f64.powi(left_out as i32), skipped + left_out);
        assert_eq!(line["loss_scale"], scale, "{line}");
        // The schedule counts updates: it warms up for 2 steps to 0.01, and ends at 0 after 60.
        let rate = 0.01 * (1.0 - (line["step"].as_u64().unwrap() - skipped) as f64 / 60.0);
        assert!((line["learning_rate"].as_f64().unwrap() - rate).abs() < 1e-8, "{line} {rate}");
    }
    assert!((1..10).contains(&skipped), "{skipped} skipped");
    for step in [11, 12, 30] {
        let (folder, resume) =
            (format!("from {step}"), format!("--resume={}", checkpoint(&place, "overflow", step).display()));
        succeeds(&mut sixty_steps(&place, &folder, &[flags[0], &resume]));
        assert!(end(&place, &folder) == end(&place, "overflow"), "from step {step}");
    }

    // What no halving helps.
    let resume = planted(&place, "whole", 10, "hopeless", Some(2.0_f32.powi(100)));
    let finished = run(&mut sixty_steps(&place, "diverged", &[&flags[..], &[&resume]].concat()));
    assert_eq!(finished.code, Some(5), "{}", finished.stderr);
    for part in
        ["diverged in step 20", "of 10 steps in a row were left out", "the gradient of ", "--dtype fp32"]
    {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }

    let resume = planted(&place, "whole", 10, "without", None);
    refused(
        &mut sixty_steps(&place, "other", &[flags[0], &resume]),
        &["training_state.safetensors has no loss_scale"],
    );
}

#[test]
fn another_precision_is_a_change() {
    let place = Workplace::new();
    succeeds(&mut sixty_steps(&place, "run", &["--save_checkpoints_steps=20"]));
    let changed = ["--resume=20", "--dtype=fp16"];
    let parts = [
        "dtype was not given and is \"fp16\"",
        "loss_scale was not given and is \"dynamic\"",
        "--confirm_changes",
    ];
    refused(&mut sixty_steps(&place, "run", &changed), &parts);
    succeeds(&mut sixty_steps(
        &place,
        "run",
        &[&changed[..], &["--confirm_changes", "--save_checkpoints_steps=20"]].concat(),
    ));
    assert_eq!(steps(&place.path("run")), [20, 40, 60]);
    let line = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    assert_eq!(json_lines(&line).last().unwrap()["loss_scale"], 32768.0);
    let fixed = ["--resume=40", "--dtype=fp16", "--loss_scale=256"];
    refused(&mut sixty_steps(&place, "run", &fixed), &["loss_scale was \"dynamic\" and is 256.0"]);
    succeeds(&mut sixty_steps(&place, "run", &[&fixed[..], &["--confirm_changes"]].concat()));
    let line = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    assert_eq!(json_lines(&line).last().unwrap()["loss_scale"], 256.0);
}

#[test]
fn a_plan_in_half_precision_says_so() {
    let plan = |more: &[&str]| {
        let flags = [&["inspect", "--plan", "--json"][..], more].concat();
        let finished = succeeds(&mut super::wgpu_bert(&flags));
        let plan = json_lines(&finished.stdout).pop().expect("a plan");
        let activations =
            plan["memory"].as_array().unwrap().iter().find(|part| part["purpose"] == "activations");
        (plan["dtype"].clone(), activations.expect("activations")["bytes"].as_u64().unwrap())
    };
    let [(fp32, whole), (fp16, half)] = [plan(&[]), plan(&["--dtype=fp16"])];
    assert_eq!((fp32.as_str(), fp16.as_str()), (Some("fp32"), Some("fp16")));
    assert!(half as f64 <= 0.6 * whole as f64, "{half} of {whole} bytes");
}
