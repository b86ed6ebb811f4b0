//! Ctrl-C.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::workplace::Workplace;
use super::{json_lines, run, wgpu_bert};

/// Ctrl-C as a terminal sends it.
#[test]
fn ctrl_c_saves_a_model_that_loads() {
    let place = Workplace::new();
    let flags = place.flags(&["--json", "--num_steps_per_epoch=1000000"]);
    stopped_by_ctrl_c(&place, &flags, true);
}

/// The steps between two measurements may take hours.
#[test]
fn ctrl_c_does_not_wait_for_the_next_measurement() {
    let place = Workplace::new();
    let flags = place.flags(&["--json", "--num_steps_per_epoch=2000000000", "--steps_per_loop=65536"]);
    stopped_by_ctrl_c(&place, &flags, false);
}

/// Send Ctrl-C after the first measurement, or as soon as the run has started, and look at what is left.
fn stopped_by_ctrl_c(place: &Workplace, flags: &[String], after_a_measurement: bool) {
    let mut command = wgpu_bert(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    if after_a_measurement {
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("\"step\""), "{line}");
    } else {
        while !line.contains("unigram") {
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{line}");
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let (mut rest, mut told) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.contains("saved in") && told.contains("Stopped after step"), "{told}");
    assert!(told.trim_end().ends_with("--resume=auto"), "{told}");
    let lines = json_lines(&rest);
    assert_eq!(lines.last().unwrap()["exit_code"], 130);
    // The steps done were measured.
    assert!(after_a_measurement || lines[0]["loss"].as_f64().is_some_and(f64::is_finite), "{rest}");

    let model = place.model_dir();
    let asked = run(&mut wgpu_bert(&["fill-mask", "--model", model.to_str().unwrap(), "the [MASK]"]));
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
}
