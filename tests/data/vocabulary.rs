//! Reading, refusing and training vocabularies.

use crate::{path, text};
use wgpu_bert::data::{
    Error, SPECIAL_TOKENS, Tokenizer, Vocabulary, VocabularyOptions, WordCounts, train_vocabulary,
};

#[test]
fn a_file_and_its_text_are_the_same() {
    let vocabulary = Vocabulary::load(&path("vocab.txt")).unwrap();
    assert_eq!(vocabulary.size(), 997);
    assert_eq!(vocabulary.to_text(), text("vocab.txt"));
    assert_eq!(Vocabulary::parse(&text("vocab.txt").replace('\n', "\r\n"), "crlf").unwrap(), vocabulary);
    assert_eq!(Vocabulary::parse(&format!("\u{feff}{}", text("vocab.txt")), "BOM").unwrap(), vocabulary);
    for (id, token) in (0..).zip(vocabulary.tokens()) {
        assert_eq!(vocabulary.id(token), Some(id));
        assert_eq!(vocabulary.token(id), Some(token.as_str()));
        assert_eq!(vocabulary.continuations()[id as usize], token.starts_with("##"));
    }
    assert_eq!((vocabulary.id("no such token"), vocabulary.token(997)), (None, None));
}

#[test]
fn what_is_wrong_with_a_vocabulary_is_said() {
    let message = |text: &str| Vocabulary::parse(text, "v.txt").unwrap_err().to_string();
    let all = SPECIAL_TOKENS.join("\n");
    assert!(message("").contains("v.txt: the vocabulary is empty"));
    assert!(message(" \n\n").contains("empty"));
    assert!(message(&all.replace("[MASK]", "x")).contains("v.txt: the vocabulary has no [MASK]"));
    assert!(message(&format!("{all}\na\nb\na\n")).contains("v.txt, line 8: \"a\" is on line 6 already"));
    assert!(message(&format!("{all}\n\nb\n")).contains("v.txt, line 6: blank line"));
    let root = tempfile::tempdir().unwrap();
    let latin_1 = root.path().join("latin1.txt");
    std::fs::write(&latin_1, [all.as_bytes(), b"\ncaf\xe9\n"].concat()).unwrap();
    for (file, part) in
        [(path("absent.txt"), "absent.txt"), (latin_1, "latin1.txt, line 6: the vocabulary is not UTF-8")]
    {
        let message = Vocabulary::load(&file).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn sentence_piece_is_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    // The text form, and the start of a model's bytes.
    let model = b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0f\n\x06\xe2\x96\x81the\x15\xcd\xcc\x4c\xc0";
    for (name, content) in
        [("m.vocab", "<unk>\t0\n<s>\t0\n\u{2581}the\t-3.2\n".as_bytes()), ("m.model", model)]
    {
        std::fs::write(root.path().join(name), content).unwrap();
        let message = Vocabulary::load(&root.path().join(name)).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("this is a SentencePiece model"), "{message}");
    }
    // WordPiece may have the character.
    assert!(Vocabulary::parse(&format!("{}\n\u{2581}\n", SPECIAL_TOKENS.join("\n")), "v.txt").is_ok());
}

/// Real vocabularies have separators other than the line feed as tokens.
#[test]
fn only_line_feeds_end_a_token() {
    let text = format!("{}\n\u{2028}\n\u{3000}\nx", SPECIAL_TOKENS.join("\n"));
    let vocabulary = Vocabulary::parse(&text, "v.txt").unwrap();
    assert_eq!((vocabulary.size(), vocabulary.id("\u{3000}"), vocabulary.id("x")), (8, Some(6), Some(7)));
}

#[test]
fn trained_vocabularies_are_equal_and_cover_their_text() {
    let corpus = text("corpus.txt.gz");
    let train = || train_vocabulary(corpus.lines(), 800, true).unwrap();
    let vocabulary = train();
    for _ in 0..3 {
        assert_eq!(train(), vocabulary);
    }
    assert_eq!(vocabulary.size(), 800);
    assert_eq!(vocabulary.tokens()[..5], SPECIAL_TOKENS);
    let tokenizer = Tokenizer::new(vocabulary, true);
    assert_eq!(tokenizer.tokens("And the LORD"), ["and", "the", "lord"]);
    let unk = tokenizer.vocabulary().special().unk;
    assert!(corpus.lines().all(|line| !tokenizer.encode(line).contains(&unk)));
}

#[test]
fn small_texts_and_sizes() {
    // Nothing is set aside for what the text cannot fill.
    let all = train_vocabulary(["aab ab ab Ab"].into_iter(), usize::MAX, false).unwrap();
    assert_eq!(all, train_vocabulary(["aab ab ab Ab"].into_iter(), 100, false).unwrap());
    let vocabulary = train_vocabulary(["aab ab ab Ab"].into_iter(), 100, false).unwrap();
    assert_eq!(vocabulary.tokens()[5..], ["A", "a", "b", "##a", "##b", "ab"]);
    let error = train_vocabulary(["aab ab"].into_iter(), 8, true).unwrap_err();
    assert!(matches!(error, Error::VocabularyTooSmall { size: 8, needed: 9 }), "{error}");
    // Words beyond the limit are unknown words and earn nothing, however often they occur.
    let long = ("xy".repeat(201) + " ").repeat(3) + "ab ab";
    let vocabulary = train_vocabulary([long.as_str()].into_iter(), 100, true).unwrap();
    assert!(!vocabulary.tokens().iter().any(|token| token.contains("xy")), "{:?}", vocabulary.tokens());
}

#[test]
fn a_vocabulary_is_made_as_asked() {
    let mut words = WordCounts::default();
    words.add("the cat the cat the dog");
    let mut more = WordCounts::default();
    more.add("Caf\u{e9} the\tmouse\r\n");
    words.merge(more);
    assert_eq!(words.len(), 5);
    let options = VocabularyOptions {
        special_tokens: vec!["[USER]".into(), "a".into()],
        unused_tokens: 2,
        ..VocabularyOptions::default()
    };
    let train = |options: &VocabularyOptions| words.train(options).unwrap();
    let vocabulary = train(&options);
    let (special, own) = vocabulary.tokens().split_at(9);
    assert_eq!(special[..5], SPECIAL_TOKENS);
    assert_eq!(special[5..], ["[USER]", "a", "[unused0]", "[unused1]"]);
    let has = |vocabulary: &Vocabulary, token: &str| vocabulary.id(token).is_some();
    assert!(own.iter().all(|token| !token.starts_with('[') && token != "a"));
    assert!(has(&vocabulary, "the") && has(&vocabulary, "cat"));
    // Words that occur once make no pieces.
    assert!(!has(&vocabulary, "dog") && !has(&vocabulary, "mouse"));

    let all = train(&VocabularyOptions { min_frequency: 1, ..options.clone() });
    assert!(has(&all, "dog") && has(&all, "mouse") && has(&all, "cafe") && !has(&all, "\u{e9}"));
    let cased = train(&VocabularyOptions { min_frequency: 1, do_lower_case: false, ..options.clone() });
    assert!(has(&cased, "Caf\u{e9}") && !has(&cased, "cafe"));
    let short = train(&VocabularyOptions { min_frequency: 1, max_chars_per_word: 3, ..options.clone() });
    assert!(has(&short, "the") && !has(&short, "mouse") && !has(&short, "##u"));
    let small = train(&VocabularyOptions { min_frequency: 1, size: all.size() - 2, ..options.clone() });
    assert_eq!(small.tokens()[..], all.tokens()[..all.size() - 2]);

    let twice = VocabularyOptions { special_tokens: vec!["[CLS]".into()], ..options };
    let error = words.train(&twice).unwrap_err().to_string();
    assert!(error.contains("\"[CLS]\" is on line 3 already"), "{error}");
}
