//! How the command takes and refuses its arguments.

use std::io::Read;
use std::process::Stdio;

use super::{json_lines, run, wgpu_bert};

#[test]
fn help_and_version_go_to_stdout() {
    for (args, part) in [
        (&["--help"][..], "devices"),
        (&["-h"], "Usage:"),
        (&["devices", "--help"], "--distribution_strategy"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let finished = run(&mut wgpu_bert(args));
        assert_eq!(finished.code, Some(0), "{args:?}: {}", finished.stderr);
        assert!(finished.stdout.contains(part), "{args:?}: {}", finished.stdout);
        assert!(finished.stderr.is_empty(), "{args:?}: {}", finished.stderr);
    }
}

#[test]
fn help_lists_under_device_what_chooses_it_and_nothing_else() {
    for command in ["pretrain", "evaluate", "fill-mask", "devices", "self-test", "inspect", "bench"] {
        let help = run(&mut wgpu_bert(&[command, "--help"])).stdout;
        let (_, device) = help.split_once("\nDevice:\n").expect("a heading");
        let flags: Vec<&str> = device.lines().filter_map(|line| line.strip_prefix("      --")).collect();
        assert!(flags.len() >= 3, "{command}: {flags:?}");
        for flag in flags {
            let is_device =
                ["distribution_strategy", "adapter", "replicas_per_adapter", "kernels", "runtime_checks"]
                    .contains(&flag.split(' ').next().unwrap_or_default());
            assert!(is_device, "{command}: --{flag} stands under Device");
        }
    }
}

#[test]
fn unknown_flags_are_refused_with_a_suggestion() {
    let finished = run(&mut wgpu_bert(&["devices", "--distribution_strateg=auto"]));
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("--distribution_strategy"), "{}", finished.stderr);
    assert!(finished.stdout.is_empty(), "{}", finished.stdout);
    for args in [&[][..], &["train"], &["devices", "--json=maybe"], &["devices", "extra"]] {
        let finished = run(&mut wgpu_bert(args));
        assert_eq!(finished.code, Some(2), "{args:?}");
        assert!(finished.stdout.is_empty(), "{args:?}: {}", finished.stdout);
    }
}

#[test]
fn flags_of_the_reference_that_are_not_taken_say_why() {
    for (flag, part) in [("--tpu=local", "WebGPU"), ("--num-gpus=2", "--adapter"), ("--enable_xla", "XLA")] {
        let finished = run(&mut wgpu_bert(&["devices", flag]));
        assert_eq!(finished.code, Some(2), "{flag}");
        assert!(finished.stderr.contains(part), "{flag}: {}", finished.stderr);
    }
}

#[test]
fn wrong_usage_is_told_as_json_too() {
    for (args, part) in [
        (&["pretrain", "--json", "--train_batch_sise=4"][..], "train_batch_size"),
        (&["pretrain", "--train_batch_size=0", "--json"], "train_batch_size"),
        (&["devices", "--num_gpus=2", "--json"], "--adapter"),
        (&["fill-mask", "--json"], "--model"),
    ] {
        let finished = run(&mut wgpu_bert(args));
        assert_eq!(finished.code, Some(2), "{args:?}: {}", finished.stderr);
        let error = json_lines(&finished.stdout).pop().expect("an object");
        assert_eq!(
            (error["kind"].as_str(), error["exit_code"].as_u64()),
            (Some("error"), Some(2)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error} should contain {part}");
    }
    let help = run(&mut wgpu_bert(&["pretrain", "--json", "--help"]));
    assert!(help.code == Some(0) && !help.stdout.contains("\"kind\": \"error\""), "{}", help.stdout);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = wgpu_bert(&["devices"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
