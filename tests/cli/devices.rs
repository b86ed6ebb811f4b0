//! `wgpu-bert devices`.

use std::fs;

use serde_json::json;

use super::{Finished, json_lines, run, wgpu_bert, without_driver};

#[test]
fn every_adapter_is_listed_and_a_strategy_derived() {
    let finished = run(&mut wgpu_bert(&["devices"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in ["0: ", "through vulkan", "buffers up to", "Strategy: one_device on 0: ", "Kernels: "] {
        assert!(finished.stdout.contains(part), "{} should contain {part}", finished.stdout);
    }
}

#[test]
fn json_has_one_object_per_line() {
    let finished = run(&mut wgpu_bert(&["devices", "--json"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let lines = json_lines(&finished.stdout);
    let adapter = &lines[0];
    assert_eq!((adapter["kind"].as_str(), adapter["index"].as_u64()), (Some("adapter"), Some(0)));
    assert!(adapter["max_buffer_size"].as_u64() > Some(1 << 20), "{adapter}");
    assert!(adapter["name"].is_string() && adapter["features"].is_array(), "{adapter}");
    assert!(adapter["shortcoming"].is_null(), "{adapter}");
    let strategy = lines.last().unwrap();
    assert_eq!((strategy["kind"].as_str(), strategy["adapter"].as_u64()), (Some("strategy"), Some(0)));
    if adapter["type"] == "software" {
        assert!(strategy["notice"].as_str().unwrap().contains("slow"), "{strategy}");
    }
}

/// Runs the program where a cache of its own holds `known`.
fn with_known(known: &str, args: &[&str]) -> Finished {
    let place = tempfile::tempdir().unwrap();
    let caches = place.path().join(if cfg!(target_os = "macos") { "Library/Caches" } else { "" });
    let folder = caches.join("wgpu-bert");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("kernels.json"), known).unwrap();
    let mut program = wgpu_bert(args);
    run(["HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"]
        .iter()
        .fold(&mut program, |program, name| program.env(name, place.path())))
}

#[test]
fn kernels_that_were_measured_before_are_known() {
    let adapter = &json_lines(&run(&mut wgpu_bert(&["devices", "--json"])).stdout)[0];
    let known = |driver: &str| {
        let measured = json!({
            "adapter": adapter["name"],
            "backend": adapter["backend"],
            "driver": driver,
            "version": env!("CARGO_PKG_VERSION"),
            "kernels": "workgroup",
        });
        json!({"measured": [measured]}).to_string()
    };
    let driver = adapter["driver"].as_str().unwrap();
    let damaged = &known(driver)[..60];
    for (known, told) in [
        (&known(driver)[..], "workgroup (measured fastest)"),
        (&known("an older one"), " (by class)"),
        (damaged, " (by class)"),
    ] {
        let finished = with_known(known, &["devices", "--json"]);
        let kernels = json_lines(&finished.stdout).pop().unwrap()["kernels"].clone();
        assert!(kernels[0].as_str().unwrap().ends_with(told), "{kernels}: {}", finished.stderr);
    }
    let plan = ["inspect", "--plan", "--json", "--vocab_size=100"];
    for (flags, expected) in [(&[][..], "workgroup"), (&["--kernels=register"], "register")] {
        let finished = with_known(&known(driver), &[&plan[..], flags].concat());
        assert_eq!(json_lines(&finished.stdout)[0]["kernels"], expected, "{}", finished.stderr);
    }
}

#[test]
fn an_adapter_is_chosen_by_index_and_by_name() {
    let listed = json_lines(&run(&mut wgpu_bert(&["devices", "--json"])).stdout);
    let name = listed[0]["name"].as_str().unwrap();
    for adapter in ["0", name, &name.to_uppercase()] {
        let chosen = run(&mut wgpu_bert(&["devices", "--json", "--ds=ONE_DEVICE", "--adapter", adapter]));
        let lines = json_lines(&chosen.stdout);
        assert_eq!(lines.last().unwrap()["name"], name, "{}", chosen.stderr);
    }
    let missing = run(&mut wgpu_bert(&["devices", "--adapter", "no such adapter"]));
    assert_eq!(missing.code, Some(3));
    assert!(missing.stderr.contains(name), "{} should list {name}", missing.stderr);
}

#[test]
fn a_variable_without_a_driver_is_told() {
    let finished = run(wgpu_bert(&["devices"]).env("VK_DRIVER_FILES", ""));
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    assert!(finished.stderr.contains("VK_DRIVER_FILES is set but names no driver"), "{}", finished.stderr);
}

#[test]
fn without_a_driver_it_says_why_and_what_to_do() {
    let finished = run(&mut without_driver(&["devices", "--json"]));
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    assert!(finished.stderr.contains("Distribution strategy is not specified."), "{}", finished.stderr);
    for part in ["VK_DRIVER_FILES names /nonexistent/icd.json, which does not exist", "install"] {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }
    let lines = json_lines(&finished.stdout);
    assert!(lines.iter().any(|line| line["kind"] == "absence" && line["backend"] == "vulkan"));
    let error = lines.last().unwrap();
    assert_eq!(error["code"], "DISTRIBUTION_STRATEGY_NOT_SPECIFIED");
    assert_eq!((error["reason"].as_str(), error["exit_code"].as_u64()), (Some("no_adapter"), Some(3)));
    assert!(error["message"].as_str().unwrap().starts_with("Distribution strategy is not specified."));
}

#[test]
fn strategies_that_are_not_available_are_refused_by_name() {
    for (name, reason) in [
        ("off", "not_given"),
        ("multi_worker_mirrored", "unsupported_strategy"),
        ("tpu", "unsupported_strategy"),
        ("parameter_server", "unsupported_strategy"),
        ("central_storage", "unsupported_strategy"),
        ("bogus", "unsupported_strategy"),
    ] {
        let finished = run(&mut wgpu_bert(&["devices", "--json", "--distribution-strategy", name]));
        let error = json_lines(&finished.stdout).pop().unwrap();
        assert_eq!((finished.code, error["reason"].as_str()), (Some(3), Some(reason)), "{name}");
        assert!(finished.stderr.contains("Distribution strategy is not specified."), "{}", finished.stderr);
    }
}
