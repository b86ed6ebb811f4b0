//! Reading text, what it amounts to, and the unigram baseline.

use crate::{path, text};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use wgpu_bert::data::{
    Corpus, DataReport, Error, Features, InstanceOptions, Tokenizer, UnigramBaseline, Vocabulary,
    create_instances, train_vocabulary,
};

fn corpus(texts: &[&str], documents_run_on: bool) -> Vec<Vec<String>> {
    let mut corpus = Corpus::default();
    for text in texts {
        corpus.add("text", text.as_bytes(), documents_run_on).unwrap();
    }
    corpus.documents().map(<[String]>::to_vec).collect()
}

#[test]
fn blank_lines_end_documents() {
    assert_eq!(corpus(&["a\n b \r\n\n\n\t\nc"], false), [vec!["a", "b"], vec!["c"]]);
    assert_eq!(corpus(&["\n\na\n\x1c\nb\n\n"], false), [["a"], ["b"]]);
    // Other separators than the line feed do not end a line.
    assert_eq!(corpus(&["a\u{2028}b\rc"], false), [["a\u{2028}b\rc"]]);
}

#[test]
fn documents_end_with_the_file_unless_they_run_on() {
    assert_eq!(corpus(&["a\n", "b\n"], false), [["a"], ["b"]]);
    assert_eq!(corpus(&["a\n", "b\n"], true), [["a", "b"]]);
    assert_eq!(corpus(&["a", "b\n\n", "c"], true), [vec!["a", "b"], vec!["c"]]);
    assert_eq!(corpus(&["a", "\nb"], true), [["a"], ["b"]]);
}

#[test]
fn gzip_is_told_by_content_and_bad_bytes_are_ignored() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(b"caf\xc3\xa9 \xff\xfe\xe4\xb8\nnext").unwrap();
    let gzip = gzip.finish().unwrap();
    let mut read = Corpus::default();
    read.add("packed", &gzip, false).unwrap();
    assert_eq!(read.sentences().collect::<Vec<_>>(), ["café", "next"]);

    let mut broken = gzip.clone();
    broken.truncate(gzip.len() - 9);
    let error = Corpus::default().add("packed", &broken, false).unwrap_err();
    assert!(matches!(&error, Error::BadGzip { origin, .. } if origin == "packed"), "{error}");
}

#[test]
fn what_is_wrong_with_a_text_is_said() {
    let error = |bytes: &[u8]| Corpus::default().add("t.txt", bytes, false).unwrap_err();
    assert!(matches!(error(b""), Error::EmptyText { .. }));
    assert!(matches!(error(b"\n \n\r\n"), Error::BlankText { .. }));
    assert!(error(b"").to_string().starts_with("t.txt: the text is empty"));
    // A record of 459 bytes: its length, and the masked checksum of that.
    let record = [&459u64.to_le_bytes()[..], &0x23d1_9182_u32.to_le_bytes(), &[0; 463]].concat();
    assert!(matches!(error(&record), Error::RecordsNotText { .. }));

    let error = Corpus::read(&[path("vocab.txt"), path("absent.txt")], false).unwrap_err();
    assert!(error.to_string().contains("absent.txt"), "{error}");
    let error = Corpus::read(&[path("")], false).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "a folder: {error}");

    let tokenizer = Tokenizer::new(Vocabulary::load(&path("vocab.txt")).unwrap(), true);
    let mut control = Corpus::default();
    control.add("control.txt", b"\x01\x02\n", false).unwrap();
    let error = control.encode(&tokenizer).unwrap_err();
    assert!(error.to_string().starts_with("control.txt: there is no token"), "{error}");
    assert!(matches!(Corpus::default().encode(&tokenizer), Err(Error::NoTokens { .. })));
}

#[test]
fn the_bundled_corpus() {
    let corpus = Corpus::bundled().unwrap();
    assert_eq!((corpus.documents().count(), corpus.sentences().count()), (187, 5852));
    assert_eq!(corpus.sentences().next(), Some("In the beginning God created the heaven and the earth."));
    let train = || train_vocabulary(corpus.sentences(), 1024, true).unwrap();
    let vocabulary = train();
    assert_eq!(vocabulary, train());
    assert_eq!(vocabulary.size(), 1024);

    let tokenizer = Tokenizer::new(vocabulary, true);
    let documents = corpus.encode(&tokenizer).unwrap();
    assert_eq!(documents.origin, "bundled corpus");
    let options = InstanceOptions { dupe_factor: 1, ..InstanceOptions::default() };
    let features = create_instances(&documents, tokenizer.vocabulary(), &options).unwrap();
    let report = DataReport::new(&documents, tokenizer.vocabulary(), &features);
    assert_eq!((report.documents, report.sentences, report.unknown), (187, 5852, 0));
    assert!(report.tokens > 150_000 && report.instances == features.count(), "{report}");
    assert!((0.4..0.7).contains(&(report.random_next as f64 / report.instances as f64)), "{report}");
    assert!(report.warnings().is_empty());
    // Far below ln V = 6.93, far above what a model should reach.
    let baseline = UnigramBaseline::new(&features, 1024).cross_entropy();
    assert!((4.5..6.5).contains(&baseline), "{baseline}");
}

#[test]
fn odd_corpora_are_warned_about() {
    let tokenizer = Tokenizer::new(Vocabulary::load(&path("vocab.txt")).unwrap(), true);
    let warnings = |text: &str| {
        let mut corpus = Corpus::default();
        corpus.add("text", text.as_bytes(), false).unwrap();
        let documents = corpus.encode(&tokenizer).unwrap();
        let options = InstanceOptions { use_next_sentence_label: false, ..InstanceOptions::default() };
        let features = create_instances(&documents, tokenizer.vocabulary(), &options).unwrap();
        DataReport::new(&documents, tokenizer.vocabulary(), &features).warnings().join(" ")
    };
    assert!(warnings("the lord\nthe king").contains("one document"));
    assert!(warnings("the lord\n\nthe king").contains("one sentence only"));
    assert_eq!(warnings(&text("corpus.txt.gz")), "");
    let mostly_single = "the lord\n\n".repeat(40) + "the king\nthe lord\nthe king\nthe lord";
    let told = warnings(&mostly_single);
    assert!(told.contains("% of the instances have a random next sentence"), "{told}");
    assert!(told.contains("most documents have one sentence only; put each sentence on a line"), "{told}");
    let long = "the lord the king ".repeat(40);
    let told = warnings(&format!("{long}\n{long}\n{long}\n\n{long}\n{long}\n{long}"));
    assert!(told.contains("most lines fill an instance alone") && told.contains("max_seq_length"), "{told}");
    let told = warnings("the lord 好\nthe king\n\nthe lord\nthe king\nand he");
    assert!(told.contains("% of the tokens are [UNK]") && told.contains("language"), "{told}");
}

#[test]
fn unigram_baseline_by_hand() {
    let features = Features {
        masked_lm_ids: vec![1, 1, 2, 0, 1, 3, 9],
        masked_lm_weights: vec![1.0, 1.0, 0.5, 0.0, 1.0, 0.5, 1.0],
        ..Features::default()
    };
    let baseline = UnigramBaseline::new(&features, 4);
    // Shares 0, 3/4, 1/8, 1/8.
    let expected = 0.75 * (4f64 / 3.0).ln() + 0.25 * 8f64.ln();
    assert!((baseline.cross_entropy() - expected).abs() < 1e-12);
    let expected = [1.0f64, 4.0, 1.5, 1.5].map(|count| (count / 8.0).ln() as f32);
    assert_eq!(baseline.log_frequencies(), expected);
    assert_eq!(UnigramBaseline::new(&Features::default(), 4).cross_entropy(), 0.0);
}
