//! Input that `wgpu-bert pretrain` refuses, before anything is written.

use std::process::Stdio;

use super::workplace::Workplace;
use super::{json_lines, run, wgpu_bert};

#[test]
fn bad_input_is_refused_before_anything_is_written() {
    let place = Workplace::new();
    let flag = |name: &str, file: &str, content: &str| format!("--{name}={}", place.write(file, content));
    let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n";
    for (flag, parts) in [
        ("--input_files=/nonexistent/text.txt".into(), &["/nonexistent/text.txt"][..]),
        (format!("--input_files={}", place.path("*.md")), &["*.md", "does not match any files"]),
        (flag("input_files", "empty.txt", ""), &["empty.txt", "empty"]),
        (
            flag("input_files", "utf-16.txt", "a\0 \0t\0e\0x\0t\0\n\0"),
            &["utf-16.txt", "no text in UTF-8", "from byte 1 on", "convert"],
        ),
        (
            flag("input_files", "one.txt", "a single document\nof two lines\n"),
            &["one.txt", "single document"],
        ),
        (
            flag("input_files", "alone.txt", "one sentence a document\n\nand another one\n"),
            &["alone.txt", "every document has one sentence only", "use_next_sentence_label"],
        ),
        (flag("vocab_file", "vocab.txt", vocabulary), &["vocab.txt", "[MASK]"]),
        (
            flag("vocab_file", "large.txt", &format!("{vocabulary}[MASK]\n{}", numbers(60))),
            &["large.txt", "66", "60"],
        ),
        (flag("bert_config_file", "none.json", "{}"), &["none.json", "vocab_size"]),
        (flag("bert_config_file", "wrong.json", r#"{"vocab_sise": 60}"#), &["wrong.json", "vocab_size"]),
        (
            flag(
                "bert_config_file",
                "heads.json",
                r#"{"vocab_size": 60, "hidden_size": 9, "num_attention_heads": 2}"#,
            ),
            &["heads.json", "9", "2"],
        ),
        (
            flag("bert_config_file", "kinds.json", r#"{"vocab_size": 60, "type_vocab_size": 1}"#),
            &["kinds.json", "type_vocab_size", "two segments"],
        ),
        (
            flag("bert_config_file", "deep.json", r#"{"vocab_size": 60, "num_hidden_layers": 1073741824}"#),
            &["deep.json", "num_hidden_layers", "1000"],
        ),
        (
            flag("bert_config_file", "wide.json", r#"{"vocab_size": 60, "hidden_size": 1572864}"#),
            &["embeddings", "does not fit", "smaller model"],
        ),
        (
            flag("bert_config_file", "many.json", r#"{"vocab_size": 2147483647}"#),
            &["word_embeddings", "does not fit", "smaller model"],
        ),
        ("--bert_config_file=/nonexistent/c.json".into(), &["/nonexistent/c.json"]),
        ("--hidden_dropout_prob=0.999999999999".into(), &["hidden_dropout_prob", "not including, 1"]),
        ("--beta_2=0.999999999999".into(), &["beta_2", "below 1"]),
        ("--max_seq_length=17".into(), &["17", "16"]),
        ("--max_seq_length=4".into(), &["max_seq_length", "5"]),
        ("--first_segment_tokens=3,16".into(), &["first_segment_tokens", "12"]),
        ("--train_batch_size=100000".into(), &["100000", "batch"]),
        ("--train_batch_sise=4".into(), &["--train_batch_size"]),
        (format!("--model_dir={}/below", place.path("text.txt")), &["text.txt"]),
    ] {
        let finished = place.pretrain(&[&flag]);
        assert_eq!(finished.code, Some(2), "{flag}: {}", finished.stderr);
        let told = &finished.stderr;
        assert!(parts.iter().all(|part| told.contains(part)), "{flag}: {told} should contain {parts:?}");
        assert!(!told.contains("has a bug") && finished.stdout.is_empty(), "{flag}: {told}");
        assert!(!place.model_dir().exists(), "{flag}: something was written");
    }
    let long_loop = place.pretrain(&["--num_steps_per_epoch=2000000000", "--steps_per_loop=2000000000"]);
    assert_eq!(long_loop.code, Some(2), "{}", long_loop.stderr);
    assert!(long_loop.stderr.contains("steps_per_loop is 2000000000"), "{}", long_loop.stderr);
    // Before any data is read.
    let eval = format!("--eval_files={}", place.path("text.txt"));
    let many = place.pretrain(&[&eval, "--num_eval_per_epoch=41", "--num_steps_per_epoch=40"]);
    assert_eq!(many.code, Some(2), "{}", many.stderr);
    assert!(many.stderr.contains("num_eval_per_epoch is 41"), "{}", many.stderr);
    assert!(!many.stderr.contains("instances"), "{}", many.stderr);
}

#[test]
fn a_pipe_is_refused_since_files_are_read_more_than_once() {
    let place = Workplace::new();
    // What is read of a pipe to tell text from records is lost to whoever opens it again.
    let pipe = if cfg!(unix) { "/dev/stdin" } else { "-" };
    let flags = |flag: String| place.flags(&[&flag]);
    for flags in [
        flags(format!("--input_files={pipe}")),
        flags(format!("--input_files={},-", place.path("text.txt"))),
        flags(format!("--eval_files={pipe}")),
        vec!["inspect".into(), pipe.into()],
        vec!["inspect".into(), "-".into()],
    ] {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut command = wgpu_bert(&flags);
        command.stdin(Stdio::piped());
        let finished = run(&mut command);
        assert_eq!(finished.code, Some(2), "{flags:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("a pipe can be read only once"), "{flags:?}: {}", finished.stderr);
        assert!(!place.model_dir().exists(), "{flags:?}: something was written");
    }
}

fn numbers(count: usize) -> String {
    (0..count).map(|n| format!("{n}\n")).collect()
}

#[test]
fn a_batch_that_cannot_fit_is_refused_with_one_that_would() {
    let place = Workplace::new();
    // Attention probabilities of 400 x 12 x 512 x 512 numbers: 5 GB.
    let config = place.write("base.json", r#"{"vocab_size": 60}"#);
    let flags = ["--max_seq_length=512", "--train_batch_size=400", "--dupe_factor=400", "--json"];
    let flags = [&flags[..], &["--gradient_accumulation_steps=1"]].concat();
    let finished = place.pretrain(&[&[format!("--bert_config_file={config}").as_str()], &flags[..]].concat());
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("batch of 400") && finished.stderr.contains("largest that fits is"));
    let error = json_lines(&finished.stdout).pop().unwrap();
    assert_eq!((error["kind"].as_str(), error["exit_code"].as_u64()), (Some("error"), Some(2)));
}
