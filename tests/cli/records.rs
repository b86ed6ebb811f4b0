//! Runs on files of training examples.

use std::fs;
use std::io::Read;

use super::workplace::Workplace;
use super::{Finished, run, wgpu_bert};

/// Flags of a run on record files that TensorFlow's script wrote.
fn on_records(place: &Workplace, files: &str, flags: &[&str]) -> Finished {
    let text = |name: &str| format!("{}/tests/data/text/{name}", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<String> = files.split(',').map(text).collect();
    let config = place.write(
        "records_config.json",
        r#"{"vocab_size": 997, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 12, "max_position_embeddings": 64, "type_vocab_size": 2}"#,
    );
    let model_dir = place.model_dir().display().to_string();
    let files = files.join(",");
    let mut all = vec![
        "pretrain",
        "--json",
        "--input_files",
        &files,
        "--bert_config_file",
        &config,
        "--model_dir",
        &model_dir,
    ];
    all.extend(
        "--train_batch_size 8 --num_steps_per_epoch 3 --num_train_epochs 1 --warmup_steps 1".split(' '),
    );
    all.extend(flags);
    run(&mut wgpu_bert(&all))
}

#[test]
fn records_of_tensorflow_are_trained_on() {
    let place = Workplace::new();
    let vocabulary = format!("{}/tests/data/text/vocab.txt", env!("CARGO_MANIFEST_DIR"));
    // Their shape is theirs, whatever the defaults.
    let flags = ["--vocab_file", &vocabulary, "--masking=dynamic"];
    let finished = on_records(&place, "plain.tfrecord.gz,v2names.tfrecord.gz", &flags);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("1618 instances of 64 tokens with 10 predictions"),
        "{}",
        finished.stderr
    );
    assert!(place.model_dir().join("vocab.txt").exists());
    let record = fs::read_to_string(place.model_dir().join("checkpoint-3/training_state.json")).unwrap();
    assert!(record.contains("\"max_seq_length\": 64") && record.contains("\"max_predictions_per_seq\": 10"));
}

#[test]
fn damaged_records_end_a_run_or_are_left_out() {
    let place = Workplace::new();
    let mut bytes = Vec::new();
    let golden = format!("{}/tests/data/text/", env!("CARGO_MANIFEST_DIR"));
    let file = fs::File::open(format!("{golden}plain.tfrecord.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes[50] ^= 1;
    fs::write(place.path("damaged.tfrecord"), bytes).unwrap();
    let vocabulary = format!("--vocab_file={golden}vocab.txt");
    let run = |flags: &[&str]| {
        let input = format!("--input_files={}", place.path("damaged.tfrecord"));
        let model_dir = format!("--model_dir={}", place.model_dir().display());
        let run = ["pretrain", "--model_size=tiny", "--train_batch_size=2", "--num_steps_per_epoch=1"];
        let run = [&run[..], &["--num_train_epochs=1", &input, &vocabulary, &model_dir], flags].concat();
        super::run(&mut wgpu_bert(&run))
    };
    let refused = run(&[]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("damaged.tfrecord: record 1, which starts at byte 0"),
        "{}",
        refused.stderr
    );
    let finished = run(&["--skip_bad_records"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains("1 bad records were left out"), "{}", finished.stderr);
    assert!(finished.stderr.contains("808 instances of 64 tokens"), "{}", finished.stderr);
}

#[test]
fn records_that_do_not_fit_the_run_are_refused() {
    let place = Workplace::new();
    let vocabulary = format!("{}/tests/data/text/vocab.txt", env!("CARGO_MANIFEST_DIR"));
    let vocab = ["--vocab_file", &vocabulary, "--max_seq_length", "64"];
    let few: Vec<_> = fs::read_to_string(&vocabulary).unwrap().lines().take(500).map(str::to_owned).collect();
    let few = place.write("few.txt", &few.join("\n"));
    let narrow = place.write("narrow.json", r#"{"vocab_size": 500, "num_hidden_layers": 1}"#);
    for (files, flags, told) in [
        ("plain.tfrecord.gz", &["--max_seq_length", "64"][..], "give that vocabulary with --vocab_file"),
        (
            "plain.tfrecord.gz",
            &["--vocab_file", &vocabulary, "--max_seq_length", "32"],
            "--max_seq_length is 32, but",
        ),
        ("plain.tfrecord.gz", &[&vocab[..], &["--max_predictions_per_seq", "20"]].concat(), "it is 10"),
        (
            "plain.tfrecord.gz",
            &[&vocab[..], &["--dupe_factor", "3"]].concat(),
            "--dupe_factor is about making them",
        ),
        ("plain.tfrecord.gz,corpus.txt.gz", &vocab, "corpus.txt.gz: record 1, which starts at byte 0"),
        ("corpus.txt.gz,plain.tfrecord.gz", &vocab, "this is a TFRecord file"),
        // Of those 500 tokens the model has room for more.
        ("plain.tfrecord.gz", &["--vocab_file", &few], "must be below 500;"),
        (
            "plain.tfrecord.gz",
            &["--vocab_file", &few, "--bert_config_file", &narrow],
            "must be below 500; were the data made with another vocabulary",
        ),
        (
            "corpus.txt.gz",
            &["--vocab_file", &vocabulary],
            "--max_seq_length: sequences have 128 tokens, but the model has 64 positions",
        ),
    ] {
        let finished = on_records(&place, files, flags);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(told), "{told}: {}", finished.stderr);
        assert!(!place.model_dir().exists());
    }
}
