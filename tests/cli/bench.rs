//! `wgpu-bert bench`.

use super::{json_lines, run, wgpu_bert, without_driver};

const SMALL: [&str; 5] = [
    "bench",
    "--vocab_size=100",
    "--train_batch_size=2",
    "--max_seq_length=16",
    "--max_predictions_per_seq=3",
];

#[test]
fn a_step_is_measured_and_told() {
    let finished = run(wgpu_bert(&SMALL).args(["--steps=2", "--json"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let lines = json_lines(&finished.stdout);
    let [report] = &lines[..] else { panic!("{}", finished.stdout) };
    assert_eq!((report["kind"].as_str(), report["model_size"].as_str()), (Some("bench"), Some("tiny")));
    assert_eq!(report["kernels_why"], "by class", "{report}");
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} of {report}"));
    assert!(number("min_step_ms") > 0.0 && number("min_step_ms") <= number("step_ms"), "{report}");
    let tokens_per_second = 32.0 / (number("step_ms") / 1e3);
    assert!((number("tokens_per_second") / tokens_per_second - 1.0).abs() < 1e-9, "{report}");
    assert!(number("planned_bytes") > 16.0 * number("parameters"), "{report}");
    assert!(number("moved_bytes") >= number("least_moved_bytes"), "{report}");
    let layers = 2.0 * (number("layer_forward_dispatches") + number("layer_backward_dispatches"));
    assert!(layers > 2.0 && layers < number("dispatches"), "{report}");
    // 2·T·L·(4H² + 2HI) + 4·T·S·H·L + 2·R·H·(H + V) + 2·B·H·(H + 2), three times.
    let forward = 2 * 32 * 2 * (4 * 128 * 128 + 2 * 128 * 512)
        + 4 * 32 * 16 * 128 * 2
        + 2 * 6 * 128 * (128 + 100)
        + 2 * 2 * 128 * (128 + 2);
    assert_eq!(report["flops"].as_u64(), Some(3 * forward), "{report}");
    assert!(number("share_of_best_matmul") > 0.0 && report["best_matmul"]["gflops"].as_f64() > Some(0.0));

    // Two to warm up; a model that knows nothing, of random words, and of two sentences.
    let losses: Vec<_> =
        report["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
    let expected = 100_f64.ln() + 2_f64.ln();
    assert!(losses.len() == 4 && losses.iter().all(|loss| (loss - expected).abs() < 0.7), "{losses:?}");

    // Software adapters have timestamp queries, so tests see that they work.
    let devices = json_lines(&run(&mut wgpu_bert(&["devices", "--json"])).stdout);
    let has = devices[0]["features"].as_array().unwrap().iter().any(|feature| feature == "timestamp-query");
    let kernels = report["kernel_times"].as_array();
    assert_eq!(kernels.is_some(), has, "{report}");
    if let Some(kernels) = kernels {
        let sum = |key: &str| kernels.iter().map(|kernel| kernel[key].as_f64().unwrap()).sum::<f64>();
        assert_eq!(sum("dispatches"), number("dispatches"), "{report}");
        assert!(sum("ms") > 0.0, "{report}");
    }
}

#[test]
fn the_text_names_what_was_measured() {
    let finished = run(wgpu_bert(&SMALL).arg("--steps=1"));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in [
        "kernels (by class)",
        "tiny, vocabulary 100",
        "tokens/s",
        "planned",
        "GFLOP/s",
        "times the least possible",
    ] {
        assert!(finished.stdout.contains(part), "{} should contain {part}", finished.stdout);
    }
}

#[test]
fn what_cannot_be_measured_is_told() {
    for (arg, part) in [
        ("--train_batch_size=1000000", "The largest that fits is"),
        ("--max_seq_length=513", "513"),
        ("--steps=0", "--steps"),
    ] {
        let finished = run(&mut wgpu_bert(&["bench", "--json", arg]));
        assert_eq!(finished.code, Some(2), "{arg}: {}", finished.stderr);
        assert!(finished.stderr.contains(part), "{arg}: {}", finished.stderr);
    }
    let finished = run(&mut without_driver(&["bench", "--json"]));
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    assert_eq!(json_lines(&finished.stdout)[0]["reason"], "no_adapter");
}
