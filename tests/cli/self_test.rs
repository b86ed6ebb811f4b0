//! `wgpu-bert self-test`.

use std::fs;
use std::path::Path;

use super::workplace::Workplace;
use super::{json_lines, run, wgpu_bert};

#[test]
fn the_self_test_passes_here_and_fails_on_wrong_numbers() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    let golden = |name: &str| golden.join(name).display().to_string();
    for folder in [None, Some(golden("tiny")), Some(golden("steps"))] {
        let given: Vec<_> = folder.iter().map(|folder| format!("--golden={folder}")).collect();
        let args: Vec<_> =
            ["self-test", "--json"].into_iter().chain(given.iter().map(String::as_str)).collect();
        let finished = run(&mut wgpu_bert(&args));
        assert_eq!(finished.code, Some(0), "{folder:?}: {}", finished.stderr);
        let report = json_lines(&finished.stdout).pop().unwrap();
        assert_eq!(report["ok"], true, "{report}");
        assert!(
            report["adapter"].is_string() && report["worst_errors"].as_object().unwrap().len() > 1,
            "{report}"
        );
    }

    // The same numbers, expected of another activation.
    let place = Workplace::new();
    for file in ["model.safetensors", "batch.safetensors", "expected.safetensors"] {
        fs::copy(golden(&format!("tiny/{file}")), place.path(file)).unwrap();
    }
    let config = fs::read_to_string(golden("tiny/config.json")).unwrap();
    place.write("config.json", &config.replace("\"gelu\"", "\"relu\""));
    let finished = run(&mut wgpu_bert(&["self-test", "--json", "--golden", &place.path("")]));
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    assert_eq!(json_lines(&finished.stdout)[0]["ok"], false);

    // What the file holds is not the device's fault: the last tensor's last number.
    let mut bytes = fs::read(golden("tiny/expected.safetensors")).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(place.path("expected.safetensors"), bytes).unwrap();
    place.write("config.json", &config);
    let finished = run(&mut wgpu_bert(&["self-test", "--golden", &place.path("")]));
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    for part in ["expected.safetensors", "not finite"] {
        assert!(finished.stderr.contains(part), "{} should contain {part}", finished.stderr);
    }

    for folder in ["/nonexistent/golden", &golden("")] {
        assert_eq!(run(&mut wgpu_bert(&["self-test", "--golden", folder])).code, Some(2), "{folder}");
    }
}
