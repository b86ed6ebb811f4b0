//! Replicas and batches in parts, from the command line.

use super::resume::{STEPS, end, refused, sixty_steps, succeeds};
use super::workplace::Workplace;
use super::{json_lines, wgpu_bert};

#[test]
fn a_run_on_two_replicas_goes_on_with_the_same_bits_and_tells_the_slowest() {
    let place = Workplace::new();
    let layout =
        ["--distribution_strategy=mirrored", "--replicas_per_adapter=2", "--allreduce_bytes_per_pack=2000"];
    let run = |folder: &str, more: &[&str]| {
        succeeds(&mut sixty_steps(
            &place,
            folder,
            &[&layout[..], &["--save_checkpoints_steps=20"], more].concat(),
        ))
    };
    let told = run("whole", &[]).stderr;
    for part in ["Summing gradients took", "\n  0: ", "\n  1: ", "the slowest", " + "] {
        assert!(told.contains(part), "{told} should contain {part}");
    }
    run("again", &[]);
    let whole = end(&place, "whole");
    assert!(end(&place, "again") == whole, "the same layout, other bits");
    let from = format!("{}/checkpoint-20", place.path("again"));
    let told = run("rest", &["--resume", &from]).stderr;
    assert!(told.contains(&format!("after step 20 of {STEPS}")) && !told.contains("last digits"), "{told}");
    assert!(end(&place, "rest") == whole, "other bits after a resume");
}

#[test]
fn layouts_that_cannot_be_are_refused_with_what_can() {
    let place = Workplace::new();
    let run = |flags: &[&str], parts: &[&str]| refused(&mut sixty_steps(&place, "never", flags), parts);
    run(&["--all_reduce_alg=nccl"], &["CUDA", "hierarchical_copy"]);
    run(&["--train_batch_size=8", "--gradient_accumulation_steps=3"], &["3 equal parts", "6 and 9"]);
    let replicas = ["--ds=mirrored", "--replicas_per_adapter=3", "--train_batch_size=8"];
    run(&replicas, &["3 equal parts", "6 and 9"]);
}

#[test]
fn one_replica_of_mirrored_is_told() {
    for (replicas, told) in [("1", true), ("2", false)] {
        let flags = ["inspect", "--plan", "--ds=mirrored", "--replicas_per_adapter", replicas];
        let planned = succeeds(&mut wgpu_bert(&flags)).stderr;
        assert_eq!(planned.contains("and so one replica"), told, "{planned}");
    }
}

#[test]
fn a_batch_in_parts_is_told() {
    let place = Workplace::new();
    let flags = ["--train_batch_size=8", "--gradient_accumulation_steps=2"];
    let told = succeeds(&mut sixty_steps(&place, "parts", &flags)).stderr;
    assert!(told.contains("each batch in 2 parts"), "{told}");
}

#[test]
fn gradients_add_up_as_in_the_reference_where_that_is_asked_for() {
    let place = Workplace::new();
    let replicas = ["--ds=mirrored", "--replicas_per_adapter=2", "--num_steps_per_epoch=2", "--clip_norm=0"];
    let norm = |folder: &str, more: &[&str]| {
        let flags = [&replicas[..], &["--json", "--learning_rate=0", "--steps_per_loop=4"], more].concat();
        let told = succeeds(&mut sixty_steps(&place, folder, &flags)).stdout;
        json_lines(&told)[0]["grad_norm"].as_f64().expect("a norm")
    };
    let one = norm("batch", &[]);
    let scaled = norm("scaled", &["--compat=seed", "--scale_loss", "--explicit_allreduce"]);
    let summed = norm("summed", &["--compat=seed"]);
    assert!(
        (summed / scaled - 2.0).abs() < 1e-4 && (scaled / one - 1.0).abs() < 0.5,
        "{one}, {scaled}, {summed}"
    );
}
