//! `wgpu-bert train-vocab`.

use std::fs;

use wgpu_bert::data::Vocabulary;

use super::{json_lines, run, run_with_input, wgpu_bert};

#[test]
fn a_vocabulary_is_trained_from_files_and_stdin() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).display().to_string();
    fs::create_dir(path("texts")).unwrap();
    fs::write(path("texts/a.txt"), "the dog sees the cat\nthe cat sees the dog\n").unwrap();
    fs::write(path("texts/b.txt"), "The bird sings, the bird sings\n").unwrap();
    // With the mark that some editors begin files with.
    fs::write(path("c.jsonl"), "\u{feff}{\"body\": \"the dog\\nsees\"}\n{\"body\": \"the dog\"}\n").unwrap();
    let output = format!("--output_file={}", path("vocab.txt"));
    let train = |flags: &[&str]| wgpu_bert(&[&["train-vocab", &output][..], flags].concat());
    let vocabulary = || Vocabulary::load(&root.path().join("vocab.txt")).unwrap();

    let input = format!("--input_file={}", path("texts"));
    let finished = run(&mut train(&[
        &input,
        "--vocab_size=60",
        "--special_tokens=[A],[B]",
        "--unused_tokens=2",
        "--json",
    ]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let trained = vocabulary();
    assert_eq!(trained.tokens()[5..9], ["[A]", "[B]", "[unused0]", "[unused1]"]);
    assert!(["the", "dog", "bird"].iter().all(|word| trained.id(word).is_some()));
    let [done] = &json_lines(&finished.stdout)[..] else { panic!("{}", finished.stdout) };
    assert_eq!(done["tokens"].as_u64(), Some(trained.size() as u64));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3, "nothing else is left");

    let finished = run_with_input(&mut train(&["--input_file=-", "--nodo_lower_case"]), "The The\n");
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), ""), "{}", finished.stderr);
    assert!(vocabulary().id("The").is_some());

    let accents = format!("--input_file={}", path("accents.txt"));
    fs::write(path("accents.txt"), "été été été\n".repeat(3)).unwrap();
    for (flags, word) in
        [(&[][..], "ete"), (&["--strip_accents=false"], "été"), (&["--nostrip_accents"], "été")]
    {
        let finished = run(&mut train(&[&[accents.as_str()], flags].concat()));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(vocabulary().id(word).is_some(), "{word}");
    }

    let finished = run(&mut train(&[&format!("--input_file={}", path("c.jsonl")), "--json_field=body"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(vocabulary().id("dog").is_some() && vocabulary().id("body").is_none());

    let before = vocabulary();
    for (flags, part) in [
        (&["--input_file=/nonexistent/*.txt"][..], "does not match any files"),
        (&["--input_file=/nonexistent/a.txt"], "/nonexistent/a.txt"),
        (&[&input, "--vocab_size=8"], "ask for at least"),
        (&[&input, "--vocab_size=0"], "vocab_size"),
        (&[&input, "--unused_tokens=18446744073709551615"], "ask for at least"),
        (&[&format!("--input_file={}", path("vocab.txt"))], "it is read, too"),
        (&[&input, "--special_tokens=a,,b"], "--special_tokens"),
        (&[&input, "--special_tokens=[SEP]"], "[SEP]"),
        (&[&input, "--json_field=text"], "a.txt, line 1: not valid JSON"),
    ] {
        let finished = run(&mut train(flags));
        assert_eq!(finished.code, Some(2), "{flags:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(part), "{flags:?}: {}", finished.stderr);
        assert_eq!(vocabulary(), before);
    }
}
