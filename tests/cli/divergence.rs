//! Numbers that are none: in a run, and in the weights of a model.

use std::fs;

use super::workplace::Workplace;
use super::{run, wgpu_bert};

#[test]
fn a_run_that_diverges_says_so() {
    let place = Workplace::new();
    let finished = place.pretrain(&["--learning_rate=1e30", "--warmup_steps=0", "--num_steps_per_epoch=20"]);
    assert_eq!(finished.code, Some(5), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("diverged") && finished.stderr.contains("learning rate"),
        "{}",
        finished.stderr
    );
    assert!(!place.model_dir().exists());

    // What was good is kept, and nothing that came after.
    let flags = ["--learning_rate=1e30", "--warmup_steps=0", "--save_checkpoints_steps=1"];
    for (on_nan, parts) in [
        ("stop", ["diverged in step 2, on batch 2 of pass 1 over the data", "Its update was not made"]),
        ("skip", ["diverged in step 11", "The updates of 10 steps in a row were left out"]),
    ] {
        let (on_nan, dir) = (format!("--on_nan={on_nan}"), format!("--model_dir={}", place.path(on_nan)));
        let finished = place.pretrain(&[&flags[..], &["--num_steps_per_epoch=20", &on_nan, &dir]].concat());
        assert_eq!(finished.code, Some(5), "{}", finished.stderr);
        for part in parts {
            assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
        }
        assert!(finished.stderr.contains("The last checkpoint is "), "{}", finished.stderr);
    }
    let names = fs::read_dir(place.path("stop")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["checkpoint-1"]);

    // The only update makes weights that no loss is computed from any more.
    let one =
        ["--learning_rate=1e300", "--warmup_steps=0", "--num_steps_per_epoch=1", "--num_train_epochs=1"];
    let finished = place.pretrain(&one);
    assert_eq!(finished.code, Some(5), "{}", finished.stderr);
    let names = fs::read_dir(place.model_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| ["metrics.jsonl", "summaries"].contains(&name.to_str().unwrap())));
}

#[test]
fn damaged_weights_give_no_guesses() {
    let place = Workplace::new();
    assert_eq!(place.pretrain(&[]).code, Some(0));
    let model = place.model_dir();
    // All bits set are no number, wherever one starts.
    let mut bytes = fs::read(model.join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].fill(0xff);
    fs::write(model.join("model.safetensors"), bytes).unwrap();
    // They would tell before.
    fs::remove_file(model.join("SHA256SUMS")).unwrap();
    let asked = run(&mut wgpu_bert(&["fill-mask", "--model", model.to_str().unwrap(), "the [MASK]"]));
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(2), ""), "{}", asked.stderr);
    assert!(asked.stderr.contains("damaged"), "{}", asked.stderr);
    let text = place.path("text.txt");
    let evaluated =
        run(&mut wgpu_bert(&["evaluate", "--model", model.to_str().unwrap(), "--input_files", &text]));
    assert_eq!((evaluated.code, evaluated.stdout.as_str()), (Some(2), ""), "{}", evaluated.stderr);
    assert!(evaluated.stderr.contains("damaged"), "{}", evaluated.stderr);
}

#[test]
fn a_bit_of_a_model_that_flipped_is_told() {
    let place = Workplace::new();
    assert_eq!(place.pretrain(&[]).code, Some(0));
    let (model, text) =
        (place.model_dir().display().to_string(), format!("--input_files={}", place.path("text.txt")));
    let weights = place.model_dir().join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, &bytes).unwrap();
    let weights = weights.display().to_string();
    let (from_folder, from_file) =
        (format!("--init_checkpoint={model}"), format!("--init_checkpoint={weights}"));
    let start = ["pretrain", text.as_str(), "--model_dir", &place.path("other")];
    let exported = place.path("exported");
    for arguments in [
        &["fill-mask", "--model", &model, "the [MASK]"][..],
        &["evaluate", "--model", &model, &text],
        &["export", "--model", &model, "--format=huggingface", "--output_dir", &exported],
        &[&start[..], &[&from_folder]].concat(),
        &[&start[..], &[&from_file]].concat(),
    ] {
        let finished = run(&mut wgpu_bert(arguments));
        assert_eq!(finished.code, Some(2), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("model.safetensors is damaged"), "{}", finished.stderr);
    }
    // Who changed it on purpose says so.
    fs::remove_file(place.model_dir().join("SHA256SUMS")).unwrap();
    let finished = run(&mut wgpu_bert(&["fill-mask", "--model", &model, "the [MASK]"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}
