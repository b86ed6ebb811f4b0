//! The built command, run as a user runs it. Fails, never skips, when there is no adapter.

mod bad_input;
mod bench;
mod create_pretraining_data;
mod curves;
#[cfg(target_os = "linux")]
mod device_loss;
mod devices;
mod disk;
mod divergence;
mod evaluation;
mod export;
mod fp16;
mod init;
mod inspect;
#[cfg(unix)]
mod interrupt;
mod mirrored;
mod pretrain;
mod records;
mod resume;
mod self_test;
mod tensorflow;
mod train_vocab;
mod usage;
mod workplace;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The command, with the machine's own drivers or those `VK_DRIVER_FILES` names.
fn wgpu_bert(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgpu-bert"));
    command.args(args);
    command
}

/// The command on a machine without a Vulkan driver.
fn without_driver(args: &[&str]) -> Command {
    let mut command = wgpu_bert(args);
    command.env("VK_DRIVER_FILES", "/nonexistent/icd.json");
    command
}

/// Exit code, stdout and stderr of a finished command.
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Finished {
    finished(command.output().expect("the command starts"))
}

/// Run with `input` on stdin.
fn run_with_input(command: &mut Command, input: &str) -> Finished {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes()).expect("the command reads");
    finished(child.wait_with_output().expect("the command ends"))
}

fn finished(Output { status, stdout, stderr }: Output) -> Finished {
    Finished {
        code: status.code(),
        stdout: String::from_utf8(stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(stderr).expect("stderr is UTF-8"),
    }
}

/// Each line of stdout as JSON.
fn json_lines(stdout: &str) -> Vec<serde_json::Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
