//! Text → files of records: equal to the reference's, and, in the order of our own, sound and the same for any number of
//! threads.

use crate::instances::{documents, expect_file, options as instance_options};
use crate::{path, text};
use flate2::{Compression, write::GzEncoder};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wgpu_bert::data::{
    Corpus, Error, FeatureNames, Features, Generated, GeneratorOptions, GeneratorProgress, InstanceOptions,
    PythonRandom, Stage, TextOptions, TextSource, Tokenizer, Vocabulary, create_instances,
    create_pretraining_data, read_records,
};

fn tokenizer() -> Tokenizer {
    Tokenizer::new(Vocabulary::load(&path("vocab.txt")).unwrap(), true)
}

fn text_options() -> TextOptions {
    TextOptions { documents_run_on: false, json_field: None, threads: 2 }
}

/// A folder for inputs and outputs.
struct Workplace(TempDir);

impl Workplace {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> TextSource {
        fs::write(self.0.path().join(name), content).unwrap();
        TextSource::File(self.0.path().join(name))
    }

    fn output(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, instances: InstanceOptions) -> GeneratorOptions {
        GeneratorOptions {
            instances,
            reference_order: false,
            text: text_options(),
            outputs: vec![self.output("out.tfrecord")],
            gzip: false,
            names: FeatureNames::V1,
        }
    }

    /// The names of the folder's files that an output left.
    fn left_over(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("tfrecord")).collect()
    }
}

fn generate(sources: &[TextSource], options: &GeneratorOptions) -> Result<Generated, Error> {
    create_pretraining_data(sources.to_vec(), &tokenizer(), options, &mut |_| ControlFlow::Continue(()))
}

fn read(path: &Path) -> Features {
    read_records("ours", &fs::read(path).unwrap(), true).unwrap()
}

/// Text of a few thousand sentences in documents of different lengths.
fn corpus(seed: u64) -> String {
    let sentences = text("corpus.txt.gz");
    let sentences: Vec<&str> = sentences.lines().filter(|line| !line.is_empty()).collect();
    let mut rng = PythonRandom::new(seed);
    let mut text = String::new();
    for _ in 0..rng.randint(40, 80) {
        for _ in 0..rng.randint(1, 40) {
            text += rng.choice(&sentences);
            text += "\n";
        }
        text += "\n";
    }
    text
}

#[test]
fn files_of_the_reference() {
    let corpora = [TextSource::File(path("corpus.txt.gz")), TextSource::File(path("corpus_unicode.txt"))];
    let place = Workplace::new();
    for (file, whole_word_mask, seed, names) in [
        ("plain.tfrecord", false, 12345, FeatureNames::V1),
        ("plain.tfrecord", false, 12345, FeatureNames::V2),
        ("wwm.tfrecord", true, 777, FeatureNames::V1),
    ] {
        let instances = InstanceOptions { whole_word_mask, ..instance_options(seed) };
        let options = GeneratorOptions { reference_order: true, names, ..place.options(instances) };
        let made = generate(&corpora[..1], &options).unwrap();
        let features = read(&options.outputs[0]);
        expect_file(&features, file, (0, 1));
        assert_eq!(made.report.instances, features.count());
        assert_eq!(
            made.report.random_next,
            features.next_sentence_labels.iter().filter(|&&l| l == 1).count()
        );
        assert_eq!((made.examples.count(), &made.examples.input_ids[..]), (3, &features.input_ids[..3 * 64]));
    }

    let options = GeneratorOptions {
        reference_order: true,
        text: TextOptions { documents_run_on: true, ..text_options() },
        outputs: (0..3).map(|n| place.output(&format!("shard-{n}.tfrecord"))).collect(),
        gzip: true,
        ..place.options(instance_options(31))
    };
    generate(&corpora, &options).unwrap();
    for (n, file) in options.outputs.iter().enumerate() {
        expect_file(&read(file), &format!("shard-{n}.tfrecord"), (0, 1));
    }
}

#[test]
fn text_is_read_as_a_corpus_is() {
    let place = Workplace::new();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(corpus(2).as_bytes()).unwrap();
    // Longer than a batch, and cut in the middle of a document.
    let mut long = String::new();
    for seed in 10.. {
        long += &corpus(seed);
        if long.len() > 1 << 20 {
            break;
        }
    }
    let long = long.trim_end();
    let texts: [&[u8]; 7] = [
        b"\n\n in the beginning \r\n\x1c\nand god said\n\xff\xfe let there be light\n\n\n\n",
        b"and there was light\n\xc2\x85\nand god saw",
        b"",
        &gzip.finish().unwrap(),
        long.as_bytes(),
        b"\nthe light\n\x07\x00\n\nand it was good\n",
        b"\xe8\x8b\xb1 and the evening\nand the morning",
    ];
    let sources: Vec<_> =
        (0..).zip(texts).map(|(n, text): (i32, _)| place.write(&format!("{n}.txt"), text)).collect();
    for documents_run_on in [false, true] {
        let mut expected = Corpus::default();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            expected.add("text", text, documents_run_on).unwrap();
        }
        let documents = expected.encode(&tokenizer()).unwrap();
        let instances = InstanceOptions { dupe_factor: 1, ..instance_options(5) };
        let expected_features = create_instances(&documents, tokenizer().vocabulary(), &instances).unwrap();
        let options = GeneratorOptions {
            reference_order: true,
            text: TextOptions { documents_run_on, ..text_options() },
            ..place.options(instances)
        };
        let made = generate(&sources, &options).unwrap();
        assert_eq!(
            Features { origin: expected_features.origin.clone(), ..read(&options.outputs[0]) },
            expected_features
        );
        assert_eq!((made.undecodable, made.empty_files), (expected.undecodable() as u64, 1));
        assert_eq!(made.report.documents, documents.documents.len());
        assert_eq!(made.report.sentences, documents.documents.iter().flatten().count());
        assert_eq!(made.report.tokens, documents.documents.iter().flatten().flatten().count());
    }
}

#[test]
fn json_lines_are_documents() {
    let place = Workplace::new();
    let lines = "{\"id\": 1, \"text\": \"in the beginning\\n\\n god created\\nthe heaven\"}\n\n\
                 {\"text\": \"\", \"id\": 2}\n{\"text\": \"and the earth\\nwas without form\"}";
    let plain = "in the beginning\ngod created\nthe heaven\n\nand the earth\nwas without form";
    let instances = InstanceOptions { dupe_factor: 3, ..instance_options(1) };
    let options = |json_field: Option<&str>, output: &str| GeneratorOptions {
        text: TextOptions { json_field: json_field.map(str::to_owned), ..text_options() },
        outputs: vec![place.output(output)],
        ..place.options(instances.clone())
    };
    generate(&[place.write("a.jsonl", lines)], &options(Some("text"), "json.tfrecord")).unwrap();
    generate(&[place.write("a.txt", plain)], &options(None, "plain.tfrecord")).unwrap();
    assert_eq!(read(&place.output("json.tfrecord")), read(&place.output("plain.tfrecord")));

    for (line, problem) in [
        ("{\"text\": 7}", "\"text\" is not a text"),
        ("{\"body\": \"x\", \"id\": 1}", "there is no \"text\" in it, but \"body\", \"id\""),
        ("[1]", "it is no JSON object"),
        ("{\"text\": ", "not valid JSON"),
    ] {
        let file = place.write("bad.jsonl", format!("{lines}\n{line}\n"));
        let error = generate(&[file], &options(Some("text"), "bad.tfrecord")).unwrap_err().to_string();
        assert!(error.contains("bad.jsonl, line 5: ") && error.contains(problem), "{error}");
    }
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let place = Workplace::new();
    let sources: Vec<_> = (0..4).map(|n| place.write(&format!("{n}.txt"), corpus(n))).collect();
    // So many that they come from more than one bucket.
    let instances = InstanceOptions { dupe_factor: 7, whole_word_mask: true, ..instance_options(9) };
    let mut files = Vec::new();
    for threads in [1, 2, 5] {
        let outputs = (0..2).map(|n| place.output(&format!("{threads}-{n}.tfrecord"))).collect();
        let text = TextOptions { threads, ..text_options() };
        let options = GeneratorOptions { text, outputs, gzip: true, ..place.options(instances.clone()) };
        generate(&sources, &options).unwrap();
        files.push([0, 1].map(|n| fs::read(&options.outputs[n]).unwrap()));
    }
    assert!(files[1] == files[0] && files[2] == files[0]);
    // Instances are dealt out in turn.
    let counts = [0, 1].map(|n| read_records("ours", &files[0][n], true).unwrap().count());
    assert!(counts[0] - counts[1] <= 1 && counts[0] > 1500, "{counts:?}");

    let other = GeneratorOptions {
        outputs: vec![place.output("0.tfrecord"), place.output("1.tfrecord")],
        gzip: true,
        ..place.options(InstanceOptions { random_seed: 10, ..instances })
    };
    generate(&sources, &other).unwrap();
    assert!(fs::read(&other.outputs[0]).unwrap() != files[0][0], "another seed, other instances");
}

/// What holds of every instance, whatever the text and the options, and the shares that chance must give.
#[test]
fn instances_are_sound() {
    let tokenizer = tokenizer();
    let special = tokenizer.vocabulary().special();
    for case in 0..6 {
        let text = corpus(100 + case);
        let mut rng = PythonRandom::new(case);
        let max_seq_length = rng.randint(5, 90);
        let instances = InstanceOptions {
            max_seq_length,
            max_predictions_per_seq: rng.randint(1, 12),
            dupe_factor: 10,
            masked_lm_prob: 0.02 + 0.3 * rng.random(),
            short_seq_prob: 0.5 * rng.random(),
            random_seed: case,
            whole_word_mask: case % 2 == 1,
            max_ngram_size: if case == 5 { 3 } else { 1 },
            ..InstanceOptions::default()
        };
        let mut corpus = Corpus::default();
        corpus.add("text", text.as_bytes(), false).unwrap();
        let documents = corpus.encode(&tokenizer).unwrap().documents;
        let documents: Vec<Vec<u32>> = documents.iter().map(|document| document.concat()).collect();
        // Where in which documents a pair of tokens stands.
        let mut places = HashMap::<[u32; 2], Vec<(usize, usize)>>::new();
        for (d, document) in documents.iter().enumerate() {
            document.windows(2).enumerate().for_each(|(at, pair)| {
                places.entry([pair[0], pair[1]]).or_default().push((d, at));
            });
        }
        // The documents that a segment was taken from; of a single token nothing is known.
        let origins = |segment: &[u32]| -> Option<HashSet<usize>> {
            let &[first, second, ..] = segment else { return None };
            let here = places.get(&[first, second]).into_iter().flatten();
            let here = here.filter(|&&(d, at)| documents[d][at..].starts_with(segment));
            Some(here.map(|&(d, _)| d).collect())
        };

        let place = Workplace::new();
        let options = place.options(instances.clone());
        generate(&[place.write("text.txt", &text)], &options).unwrap();
        let features = read(&options.outputs[0]);
        let (s, m) = (features.seq_length, features.predictions);
        assert_eq!((s, m), (max_seq_length, instances.max_predictions_per_seq.min(max_seq_length)));
        let (mut masked, mut kept, mut guesses) = (0, 0, 0);
        for n in 0..features.count() {
            let ids = &features.input_ids[n * s..][..s];
            let length = features.input_mask[n * s..][..s].iter().sum::<u32>() as usize;
            let slots = n * m..(n + 1) * m;
            let count = features.masked_lm_weights[slots.clone()].iter().filter(|w| **w == 1.0).count();

            // Lengths and padding.
            assert!((5..=s).contains(&length));
            assert!(features.input_mask[n * s..][..length].iter().all(|&mask| mask == 1));
            assert!(ids[length..].iter().all(|&id| id == special.pad));
            let share = (length as f64 * instances.masked_lm_prob).round_ties_even() as usize;
            let wanted = share.max(1).min(instances.max_predictions_per_seq);
            if instances.whole_word_mask {
                assert!(count <= wanted);
            } else {
                assert_eq!(count, wanted.min(length - 3));
            }
            assert!(features.masked_lm_weights[slots.start + count..slots.end].iter().all(|&w| w == 0.0));

            // What was masked is neither special nor twice there.
            let positions = &features.masked_lm_positions[slots.clone()][..count];
            let labels = &features.masked_lm_ids[slots][..count];
            assert!(positions.is_sorted_by(|a, b| a < b));
            let mut restored = ids[..length].to_vec();
            for (&position, &label) in positions.iter().zip(labels) {
                let shown = std::mem::replace(&mut restored[position as usize], label);
                assert!(label != special.cls && label != special.sep && label != special.pad);
                (masked, kept) =
                    (masked + usize::from(shown == special.mask), kept + usize::from(shown == label));
            }
            guesses += count;

            // [CLS] A [SEP] B [SEP], segments of that.
            let seps: Vec<_> = (0..length).filter(|&at| restored[at] == special.sep).collect();
            assert!(restored[0] == special.cls && seps.len() == 2 && seps[1] == length - 1);
            let first = seps[0] + 1;
            let types = &features.segment_ids[n * s..][..s];
            assert!((0..s).all(|at| types[at] == u32::from((first..length).contains(&at))));

            // Both are of the text: B behind A, or from another document.
            let (a, b) = (&restored[1..seps[0]], &restored[first..length - 1]);
            let (from_a, from_b) = (origins(a), origins(b));
            assert!(from_a.as_ref().is_none_or(|from| !from.is_empty()));
            assert!(from_b.as_ref().is_none_or(|from| !from.is_empty()));
            if let (Some(from_a), Some(from_b)) = (from_a, from_b) {
                match features.next_sentence_labels[n] {
                    0 => assert!(!from_a.is_disjoint(&from_b)),
                    _ => assert!(from_a.union(&from_b).count() > 1),
                }
            }
        }
        // 80 % are masked, 10 % kept, and a few more that drew themselves. Whole words are drawn together, so their
        // shares spread more.
        let of_all = |count: usize| count as f64 / guesses as f64;
        let spread = 8.0 / (guesses as f64).sqrt();
        assert!((of_all(masked) - 0.8).abs() < 0.4 * spread, "{masked} of {guesses}");
        assert!((of_all(kept) - 0.1).abs() < 0.3 * spread + 0.002, "{kept} of {guesses}");
    }
}

#[test]
fn next_sentences_are_half_of_what_could_be() {
    // Documents of two sentences that fill an instance make one instance of both, or one of each with a random one:
    // of three instances, two of which are random, on average.
    let sentence = "and the lord spake unto moses , saying , let there be light in the heaven . ".repeat(2);
    let text = format!("{sentence}\n{sentence}\n\n").repeat(500);
    let place = Workplace::new();
    let instances = InstanceOptions { short_seq_prob: 0.0, dupe_factor: 8, ..instance_options(3) };
    let options = place.options(instances);
    let made = generate(&[place.write("text.txt", text)], &options).unwrap();
    // Half of 4000 visits give one instance, half two, all of those random.
    let next = made.report.instances - made.report.random_next;
    assert!(next.abs_diff(2000) < 160, "{next}");
    assert_eq!(made.report.random_next, 2 * (4000 - next));
}

/// Neighbours in the file come from anywhere in the text.
#[test]
fn the_order_is_random() {
    let place = Workplace::new();
    let tokenizer = tokenizer();
    let word = |n: usize| tokenizer.vocabulary().token(200 + n as u32).unwrap();
    let words: Vec<&str> = (0..700).map(word).filter(|word| word.chars().all(char::is_alphabetic)).collect();
    // Document n says word n only.
    let text: String = words.iter().map(|word| format!("{word} {word}\n{word}\n{word}\n\n")).collect();
    let options = place.options(InstanceOptions { dupe_factor: 4, ..instance_options(3) });
    generate(&[place.write("text.txt", text)], &options).unwrap();
    let features = read(&options.outputs[0]);
    let place_of = |n: usize| {
        let first = features.input_ids[n * 64 + 1..][..3].iter();
        let mut tokens = first.filter_map(|&id| tokenizer.vocabulary().token(id));
        tokens.find_map(|token| words.iter().position(|word| *word == token)).unwrap_or(0) as f64
    };
    let places: Vec<f64> = (0..features.count()).map(place_of).collect();
    let mean = places.iter().sum::<f64>() / places.len() as f64;
    let covariance = |a: &[f64], b: &[f64]| {
        a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>() / a.len() as f64
    };
    let n = places.len();
    let correlation = covariance(&places[1..], &places[..n - 1]) / covariance(&places, &places);
    // Five standard deviations of the correlation of independent numbers.
    assert!(correlation.abs() < 5.0 / (n as f64).sqrt(), "{correlation}");
}

#[test]
fn what_cannot_be_made_is_said_and_leaves_nothing_behind() {
    let place = Workplace::new();
    let options = place.options(instance_options(1));
    let refusal = |sources: &[TextSource], options: &GeneratorOptions| {
        let error = generate(sources, options).unwrap_err().to_string();
        assert_eq!(place.left_over(), [""; 0], "{error}");
        error
    };
    let file = |text: &str| [place.write("t.txt", text)];
    let error = refusal(&file(" \n\n\x07\n"), &options);
    assert!(error.contains("t.txt: there is no token in the text"), "{error}");
    let error = refusal(&[], &options);
    assert!(error.contains("no text: the text is empty"), "{error}");
    let error = refusal(&file("in the beginning\ngod created\n"), &options);
    assert!(error.contains("t.txt: the text is a single document"), "{error}");
    let error = refusal(&file("in the beginning\n\ngod created\n\nthe heaven\n"), &options);
    assert!(error.contains("t.txt: every document has one sentence only"), "{error}");
    let error = refusal(&file(&"a".repeat(18 << 20)), &options);
    assert!(error.contains("t.txt, line 1: the line is longer than 16 MiB"), "{error}");
    let error = refusal(&[TextSource::File("/nonexistent/t.txt".into())], &options);
    assert!(error.contains("cannot read /nonexistent/t.txt"), "{error}");
    let error = refusal(&[TextSource::File(path("plain.tfrecord.gz"))], &options);
    assert!(error.contains("plain.tfrecord.gz: this is a TFRecord file"), "{error}");
    let mut cut = fs::read(path("corpus.txt.gz")).unwrap();
    cut.truncate(20_000);
    let error = refusal(&[place.write("cut.gz", cut)], &options);
    assert!(error.contains("cut.gz: damaged gzip file"), "{error}");

    let good = file("in the beginning\ngod created\n\nthe heaven\nand the earth\n");
    let short = place.options(InstanceOptions { max_seq_length: 4, ..instance_options(1) });
    assert!(refusal(&good, &short).contains("max_seq_length is 4, but must be at least 5"));
    let nowhere = GeneratorOptions { outputs: vec![], ..options.clone() };
    assert!(refusal(&good, &nowhere).contains("output_file"));
    let absent = GeneratorOptions { outputs: vec!["/nonexistent/o".into()], ..options.clone() };
    assert!(refusal(&good, &absent).contains("cannot write /nonexistent/o"));
    let folder = GeneratorOptions { outputs: vec![place.0.path().into()], ..options.clone() };
    assert!(refusal(&good, &folder).contains("cannot write"));

    // Without next-sentence labels one document will do.
    let without = InstanceOptions { use_next_sentence_label: false, ..instance_options(1) };
    generate(&file("in the beginning\ngod created\n"), &place.options(without)).unwrap();
}

#[test]
fn broken_off_it_leaves_what_was_there() {
    let place = Workplace::new();
    let source = place.write("text.txt", corpus(1));
    let options = place.options(instance_options(1));
    fs::write(&options.outputs[0], "of an earlier run").unwrap();
    // What a killed run leaves.
    fs::write(place.output("out.tfrecord.partial"), "half").unwrap();
    for stage in [Stage::Tokenizing, Stage::Pairing, Stage::Writing] {
        let mut seen = Vec::new();
        let mut progress = |progress: GeneratorProgress| {
            assert!(progress.total.is_some_and(|total| progress.done <= total), "{progress:?}");
            seen.push(progress.stage);
            if progress.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let error = create_pretraining_data(vec![source.clone()], &tokenizer(), &options, &mut progress);
        assert!(matches!(error, Err(Error::Interrupted)), "{error:?}");
        assert_eq!(seen.last(), Some(&stage));
        assert_eq!(place.left_over(), ["out.tfrecord"]);
        assert_eq!(fs::read(&options.outputs[0]).unwrap(), b"of an earlier run");
    }
    generate(&[source], &options).unwrap();
    assert!(read(&options.outputs[0]).count() > 0);
    assert_eq!(place.left_over(), ["out.tfrecord"]);
}

#[test]
fn documents_and_instances_beyond_memory_are_kept_on_disk() {
    // Ids of two bytes, more of them than stay in memory, and a document longer than a reader keeps at hand.
    let place = Workplace::new();
    let (_, small) = documents(&["corpus.txt.gz"]);
    let tokens = small.documents.iter().flatten().flatten().count();
    let plain = text("corpus.txt.gz");
    let copies = (5 << 19) / tokens + 1;
    let one_document = plain.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let mut corpus = [one_document.as_str(); 12].join("\n");
    corpus += "\n\n";
    corpus.extend(std::iter::repeat_n(format!("{plain}\n"), copies));
    let instances = InstanceOptions { dupe_factor: 1, ..InstanceOptions::default() };
    let options = place.options(instances);
    let made = generate(&[place.write("text.txt", corpus)], &options).unwrap();
    assert_eq!(made.report.documents, 1 + copies * small.documents.len());
    assert_eq!(made.report.tokens, (12 + copies) * tokens);
    let features = read(&options.outputs[0]);
    assert_eq!(features.count(), made.report.instances);
    // Every token is in an instance, some twice.
    let real: u64 = features.input_mask.iter().map(|&mask| u64::from(mask)).sum();
    assert!(real - 3 * features.count() as u64 > made.report.tokens as u64);
}
