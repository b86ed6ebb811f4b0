//! `wgpu-bert create-pretraining-data`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wgpu_bert::data::{Features, read_records};

use super::{Finished, json_lines, run, run_with_input, wgpu_bert};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/text").join(name)
}

/// A folder with a small text.
struct Workplace(TempDir);

impl Workplace {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("texts")).unwrap();
        for n in 0..3 {
            let text = format!(
                "in the beginning {n}\nand god said\nlet there be light\n\nand it was so\nand god saw\n"
            );
            fs::write(root.path().join(format!("texts/{n}.txt")), text).unwrap();
        }
        Self(root)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The command with a vocabulary, a small shape and one output.
    fn command(&self, flags: &[&str]) -> Command {
        let vocabulary = format!("--vocab_file={}", golden("vocab.txt").display());
        let output = format!("--output_file={}", self.path("out.tfrecord"));
        let own = ["create_pretraining_data", &vocabulary, &output, "--max-seq-length=24", "--dupe_factor=2"];
        wgpu_bert(&[&own[..], flags].concat())
    }

    fn create(&self, flags: &[&str]) -> Finished {
        run(&mut self.command(flags))
    }

    fn records(&self) -> Features {
        read_records("out", &fs::read(self.path("out.tfrecord")).unwrap(), true).unwrap()
    }

    /// Outputs, finished or not.
    fn outputs(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("out")).collect()
    }

    /// The command while it waits for more of its text on stdin, its output begun.
    fn waiting(&self) -> Child {
        let mut child = self
            .command(&["--input_file=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        while self.outputs().is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it should wait for its text");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.outputs(), ["out.tfrecord.partial"]);
        child
    }
}

#[test]
fn text_comes_from_files_folders_patterns_and_stdin() {
    let place = Workplace::new();
    let folder = place.path("texts");
    let files = (0..3).map(|n| format!("{folder}/{n}.txt")).collect::<Vec<_>>().join(",");
    let finished = place.create(&["--input_file", &files, "--json"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let expected = place.records();
    let [done] = &json_lines(&finished.stdout)[..] else { panic!("{}", finished.stdout) };
    assert_eq!((&done["kind"], done["instances"].as_u64()), (&"done".into(), Some(expected.count() as u64)));
    assert_eq!((done["documents"].as_u64(), done["sentences"].as_u64()), (Some(6), Some(15)));
    assert!(finished.stderr.contains("6 documents, 15 sentences"), "{}", finished.stderr);
    // Examples are shown with what is masked.
    assert!(finished.stderr.contains("[CLS] ") && finished.stderr.contains("[MASK|"), "{}", finished.stderr);

    for input in [&folder, &format!("{folder}/*.txt"), &format!("{folder}/0.txt,{folder}/[12].txt")] {
        let finished = place.create(&["--input_file", input]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), ""), "{}", finished.stderr);
        assert_eq!(place.records(), expected, "{input}");
    }
    let whole: String =
        (0..3).map(|n| fs::read_to_string(format!("{folder}/{n}.txt")).unwrap() + "\n").collect();
    let finished = run_with_input(&mut place.command(&["--input_file=-"]), &whole);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(place.records(), expected);
    assert_eq!(place.outputs(), ["out.tfrecord"]);

    // A document a line, with a line for each sentence in its text.
    let json = |document: &str| serde_json::json!({ "id": 1, "body": document }).to_string() + "\n";
    let lines: String = whole.split("\n\n").filter(|document| !document.is_empty()).map(json).collect();
    fs::write(place.path("texts.jsonl"), lines).unwrap();
    let finished = place.create(&["--input_file", &place.path("texts.jsonl"), "--json_field=body"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(place.records(), expected);
}

#[test]
fn words_longer_than_asked_are_unknown() {
    let place = Workplace::new();
    let unknown = |most: &str| {
        let most = format!("--max_chars_per_word={most}");
        let finished = place.create(&["--input_file", &place.path("texts"), &most, "--json"]);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        json_lines(&finished.stdout)[0]["unknown"].as_u64().unwrap()
    };
    // "there" and "light" are in each of three files.
    assert_eq!(unknown("400"), unknown("9"));
    assert!(unknown("4") >= unknown("9") + 6);
}

#[test]
fn the_reference_is_matched_number_for_number() {
    let place = Workplace::new();
    let corpus = golden("corpus.txt.gz").display().to_string();
    let finished = place.create(&[
        "--compat=seed",
        "--input_file",
        &corpus,
        "--max_seq_length=64",
        "--max_predictions_per_seq=10",
        "--gzip_compress",
        "--use_v2_feature_names",
    ]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let expected = read_records("out", &fs::read(golden("v2names.tfrecord.gz")).unwrap(), true).unwrap();
    assert_eq!(place.records(), expected);
}

#[test]
fn what_cannot_be_made_is_told() {
    let place = Workplace::new();
    let text = format!("--input_file={}", place.path("texts/0.txt"));
    let blank = place.path("blank.txt");
    fs::write(&blank, "\n\n").unwrap();
    let nothing = place.path("texts/*.md");
    for (flags, parts) in [
        (&["--input_file", &nothing][..], &["texts/*.md does not match any files."][..]),
        (&["--input_file", &blank], &["blank.txt", "no token"]),
        (&["--input_file=a.txt,,b.txt"], &["--input_file", "empty name"]),
        (&["--input_file=-,-"], &["stdin", "once"]),
        (&[], &["--input_file"]),
        (&[&text, "--output_file="], &["--output_file", "empty name"]),
        (&[&text, "--vocab_file=/nonexistent/vocab.txt"], &["/nonexistent/vocab.txt"]),
        (&[&text, "--tokenization=SentencePiece"], &["SentencePiece", "train-vocab"]),
        (&[&text, "--sp_model_file=a.model"], &["sp_model_file", "WordPiece"]),
        (&[&text, "--dupe_factor=0"], &["dupe_factor", "from 1"]),
        (&[&text, "--masked_lm_prob=2"], &["masked_lm_prob", "0 to 1"]),
        (&[&text, "--max_seq_length=4"], &["max_seq_length is 4", "at least 5"]),
        (&[&text, "--max_ngram_size=3"], &["max_ngram_size is 3", "do_whole_word_mask"]),
        (&[&text, "--compat=other"], &["compat", "seed"]),
        (&[&text, "--threads=0"], &["threads"]),
    ] {
        let finished = place.create(flags);
        assert_eq!(finished.code, Some(2), "{flags:?}: {}", finished.stderr);
        assert!(parts.iter().all(|part| finished.stderr.contains(part)), "{flags:?}: {}", finished.stderr);
        assert!(place.outputs().is_empty(), "{flags:?}");
    }
}

#[test]
fn nothing_that_is_read_or_no_file_is_written_over() {
    let place = Workplace::new();
    let text = place.path("texts/0.txt");
    let before = fs::read(&text).unwrap();
    let (input, vocabulary) = (format!("--input_file={text}"), place.path("vocab.txt"));
    fs::copy(golden("vocab.txt"), &vocabulary).unwrap();
    fs::write(place.path("b.partial"), &before).unwrap();
    let path = |name: &str| place.path(name);
    for (flags, output, part) in [
        (&[&input[..]][..], text.clone(), "it is read, too"),
        (&[&input], path("texts/../texts/0.txt"), "it is read, too"),
        (&[&input], format!("{},{text}", path("out")), "it is read, too"),
        (&["--input_file", &path("texts")], text.clone(), "it is read, too"),
        // Until it is complete, it is called like that.
        (&["--input_file", &path("b.partial")], path("b"), "it is read, too"),
        (&[&input, "--vocab_file", &vocabulary], vocabulary.clone(), "it is read, too"),
        (&[&input], [path("out"), path("out")].join(","), "twice"),
        (&[&input], [path("out"), path("texts/../out")].join(","), "twice"),
        (&[&input], [path("out"), path("out.partial")].join(","), "twice"),
        (&[&input], path("texts"), "no file"),
        (&[&input], path("none/out"), "make it first"),
        (&[&input], path("texts/0.txt/out"), "make it first"),
    ] {
        let finished = place.create(&[flags, &["--output_file", &output]].concat());
        assert_eq!(finished.code, Some(2), "{output}: {}", finished.stderr);
        assert!(finished.stderr.contains(part), "{output}: {}", finished.stderr);
        assert_eq!(fs::read(&text).unwrap(), before, "{output}");
        assert!(place.outputs().is_empty(), "{output}");
    }
    assert_eq!(fs::read(&vocabulary).unwrap(), fs::read(golden("vocab.txt")).unwrap());
    assert_eq!(fs::read(place.path("b.partial")).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_stays_what_it_is() {
    use std::os::unix::fs::FileTypeExt;

    let place = Workplace::new();
    let text = format!("--input_file={}", place.path("texts"));
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::os::unix::fs::symlink("fifo", place.path("link")).unwrap();
    for output in [fifo.as_str(), &place.path("link"), "-"] {
        let train = run(&mut wgpu_bert(&["train-vocab", &text, "--output_file", output]));
        for finished in [train, place.create(&[&text, "--output_file", output])] {
            assert_eq!(finished.code, Some(2), "{}", finished.stderr);
            assert!(finished.stderr.contains("it is no file"), "{}", finished.stderr);
        }
        assert!(output == "-" || fs::metadata(output).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_dupe_factor_that_no_machine_has_room_for_is_refused_at_once() {
    let place = Workplace::new();
    // The text eight times over.
    let corpus = golden("corpus.txt.gz").display().to_string();
    let input = format!("--input_file={}", [corpus.as_str(); 8].join(","));
    for (flags, what) in [(&[][..], "the disk of"), (&["--compat=seed"], "memory")] {
        let finished = place.create(&[&[&input, "--dupe_factor=2147483647"], flags].concat());
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        let told = finished.stderr.contains("dupe_factor is 2147483647, but must be lower for this text");
        assert!(told && finished.stderr.contains(what), "{}", finished.stderr);
        assert!(place.outputs().is_empty());
    }
}

#[test]
fn after_a_kill_the_same_command_starts_anew() {
    let place = Workplace::new();
    let mut child = place.waiting();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.outputs(), ["out.tfrecord.partial"]);
    let finished = place.create(&["--input_file", &place.path("texts")]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(place.outputs(), ["out.tfrecord"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    let place = Workplace::new();
    let mut child = place.waiting();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    // The signal is heard between batches, so it gets text as long as it takes any.
    let mut stdin = child.stdin.take().unwrap();
    let text = "let there be light\n".repeat(1 << 12);
    while stdin.write_all(text.as_bytes()).is_ok() {}
    let finished = super::finished(child.wait_with_output().unwrap());
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    assert!(finished.stderr.contains("nothing was written"), "{}", finished.stderr);
    assert!(place.outputs().is_empty());
}

#[test]
fn a_file_that_another_run_is_writing_is_left_to_it() {
    let place = Workplace::new();
    let mut first = place.waiting();
    let second = place.create(&["--input_file", &place.path("texts")]);
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("out.tfrecord is being written by another run"), "{}", second.stderr);
    assert_eq!(place.outputs(), ["out.tfrecord.partial"]);

    let text = "in the beginning\nand god said\n\nand it was so\nand god saw\n";
    first.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let first = super::finished(first.wait_with_output().unwrap());
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(place.outputs(), ["out.tfrecord"]);
    assert!(place.records().count() > 0);
}
