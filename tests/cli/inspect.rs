//! `wgpu-bert inspect`.

use std::fs;
use std::path::Path;

use super::{json_lines, run, wgpu_bert, without_driver};

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/text").join(name).display().to_string()
}

#[test]
fn examples_are_shown_with_their_masks() {
    let (file, vocabulary) = (golden("plain.tfrecord.gz"), format!("--vocab_file={}", golden("vocab.txt")));
    let finished = run(&mut wgpu_bert(&["inspect", &file, &vocabulary, "--count=1"]));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    // Numbers and words are those of the reference's own dump of the file.
    let expected = format!(
        "{file}: 809 examples of 64 tokens with 10 predictions\n\
         On average 63.6 tokens without padding, 9.9 of them to guess; 62.3 % have a random next sentence; the largest \
         token id is 996\n\
         Example, second segment next: [CLS] "
    );
    let (start, shown) = finished.stdout.split_at(expected.len());
    assert_eq!(start, expected);
    assert_eq!(shown.lines().count(), 1);
    assert_eq!(shown.matches('|').count(), 10);
    assert!(shown.contains("[MASK|") && shown.trim_end().ends_with("[SEP]"), "{shown}");

    let numbers = run(&mut wgpu_bert(&["inspect", &file, "--json"]));
    let [object] = &json_lines(&numbers.stdout)[..] else { panic!("{}", numbers.stdout) };
    assert_eq!((&object["kind"], object["records"].as_u64()), (&"records".into(), Some(809)));
    assert_eq!((object["random_next"].as_u64(), object["predictions"].as_u64()), (Some(504), Some(8031)));
    assert_eq!(object["tokens"].as_u64(), Some(51488));
    let examples = object["examples"].as_array().unwrap();
    assert!(
        examples.len() == 3 && examples[0].as_str().unwrap().contains("<2> <204> [<4>|<421>]"),
        "{}",
        examples[0]
    );
}

#[test]
fn damaged_and_other_files_are_told() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("bad.tfrecord");
    let mut bytes = Vec::new();
    let file = fs::File::open(golden("plain.tfrecord.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let path = path.display().to_string();
    let finished = run(&mut wgpu_bert(&["inspect", &path]));
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.stderr.contains("bad.tfrecord: record 1, which starts at byte 0: "),
        "{}",
        finished.stderr
    );
    let finished = run(&mut wgpu_bert(&["inspect", &path, "--skip_bad_records"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("808 examples"), "{}", finished.stdout);
    assert!(finished.stderr.contains("1 bad records were left out; the first: "), "{}", finished.stderr);

    // A vocabulary that is too small for the examples.
    let small = root.path().join("vocab.txt");
    fs::write(&small, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n").unwrap();
    let vocabulary = format!("--vocab_file={}", small.display());
    let finished = run(&mut wgpu_bert(&["inspect", &golden("plain.tfrecord.gz"), &vocabulary]));
    assert!(finished.stderr.contains("the vocabulary has 5 tokens"), "{}", finished.stderr);
    assert!(finished.stdout.contains("<204>"), "{}", finished.stdout);
    let finished = run(&mut wgpu_bert(&["inspect", "/nonexistent/file"]));
    assert!(finished.code == Some(2) && finished.stderr.contains("/nonexistent/file"), "{}", finished.stderr);
}

#[test]
fn a_text_is_told_with_examples_of_it() {
    let (file, vocabulary) = (golden("corpus.txt.gz"), format!("--vocab_file={}", golden("vocab.txt")));
    let finished = run(&mut wgpu_bert(&["inspect", &file, &vocabulary, "--json", "--count=2"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let [object] = &json_lines(&finished.stdout)[..] else { panic!("{}", finished.stdout) };
    assert_eq!(object["kind"], "text");
    let text = fs::File::open(golden("corpus.txt.gz")).unwrap();
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(text)).unwrap();
    let documents: Vec<_> = text.split("\n\n").filter(|document| !document.trim().is_empty()).collect();
    assert_eq!(object["documents"].as_u64(), Some(documents.len() as u64));
    let sentences = documents.iter().map(|document| document.trim().lines().count());
    assert_eq!(object["sentences"].as_u64(), Some(sentences.clone().sum::<usize>() as u64));
    assert_eq!(object["longest_document"].as_u64(), Some(sentences.max().unwrap() as u64));
    let random = object["random_next_share"].as_f64().unwrap();
    assert!(0.4 < random && random < 0.8, "{random}");
    assert_eq!(object["examples"].as_array().unwrap().len(), 2);

    // Without a vocabulary, and with documents of one sentence.
    let root = tempfile::tempdir().unwrap();
    let single = root.path().join("t.txt");
    fs::write(&single, "the dog sees the cat\n\nthe cat sees the dog\n\nthe bird sings\n").unwrap();
    let finished = run(&mut wgpu_bert(&["inspect", &single.display().to_string()]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(
        finished.stdout.contains("3 documents of 1.0 sentences (the longest has 1)"),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("(0.00 % [UNK])") && finished.stdout.contains("[MASK|"),
        "{}",
        finished.stdout
    );
    assert!(finished.stderr.contains("every document has one sentence only"), "{}", finished.stderr);
}

#[test]
fn a_plan_tells_what_a_step_takes() {
    let sizes =
        ["--vocab_size=100", "--train_batch_size=2", "--max_seq_length=16", "--max_predictions_per_seq=3"];
    let finished = run(wgpu_bert(&["inspect", "--plan", "--json"]).args(sizes));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let [plan] = &json_lines(&finished.stdout)[..] else { panic!("{}", finished.stdout) };
    let memory = plan["memory"].as_array().unwrap();
    let sum =
        |list: &[serde_json::Value]| list.iter().map(|part| part["bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(plan["bytes"].as_u64(), Some(sum(memory)));
    for part in memory {
        let buffers = part["buffers"].as_array().unwrap();
        assert_eq!(part["bytes"].as_u64(), Some(sum(buffers)), "{part}");
        let tensors = buffers.iter().map(|buffer| sum(buffer["tensors"].as_array().unwrap())).sum();
        assert_eq!(part["tensor_bytes"].as_u64(), Some(tensors), "{part}");
    }
    let bench = run(wgpu_bert(&["bench", "--steps=1", "--json"]).args(sizes));
    let bench = &json_lines(&bench.stdout)[0];
    assert_eq!([&plan["bytes"], &plan["dispatches"]], [&bench["planned_bytes"], &bench["dispatches"]]);
    assert_eq!([&plan["parameters"], &plan["kernels"]], [&bench["parameters"], &bench["kernels"]]);

    let finished = run(wgpu_bert(&["inspect", "--plan", "--recompute"]).args(sizes));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let lines: Vec<_> = finished.stdout.lines().collect();
    assert!(lines[0].starts_with("tiny, vocabulary 100, "), "{}", lines[0]);
    assert!(lines[0].ends_with("activations computed again"), "{}", lines[0]);
    let row = lines.iter().find(|line| line.starts_with("activations")).unwrap();
    assert_eq!(row.split_whitespace().filter(|word| word.contains("iB")).count(), 2, "{row}");
    assert!(finished.stdout.contains("weights 0") && finished.stdout.contains("more"), "{}", finished.stdout);
}

#[test]
fn a_plan_is_refused_what_only_a_file_has_and_what_does_not_fit() {
    for (args, part) in [
        (&["--plan", "some.txt"][..], "cannot be used with"),
        (&["--plan", "--count=1"], "cannot be used with"),
        (&["some.txt", "--model_size=tiny"], "cannot be used with"),
        (&[], "FILE"),
        (&[env!("CARGO_MANIFEST_DIR")], "is a folder: give a file"),
        (&["--plan", "--train_batch_size=1000000"], "The largest that fits is"),
        (&["--plan", "--max_seq_length=513"], "513"),
    ] {
        let finished = run(wgpu_bert(&["inspect"]).args(args));
        assert_eq!(finished.code, Some(2), "{args:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(part), "{args:?}: {}", finished.stderr);
    }
    let finished = run(&mut without_driver(&["inspect", "--plan", "--json"]));
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
}
