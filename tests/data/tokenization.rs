//! Words and word pieces of the reference, on Bible text and on random Unicode.

use crate::{json, numbers, path, strings};
use wgpu_bert::data::{MAX_CHARS_PER_WORD, Tokenizer, Vocabulary, basic_tokens};

fn vocabulary() -> Vocabulary {
    Vocabulary::load(&path("vocab.txt")).unwrap()
}

#[test]
fn basic_tokens_of_random_unicode() {
    let golden = json("basic_tokens.json.gz");
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 400);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        assert_eq!(basic_tokens(text, true, None), strings(&case["lower"]), "lower-cased {text:?}");
        assert_eq!(basic_tokens(text, false, None), strings(&case["cased"]), "cased {text:?}");
    }
}

#[test]
fn word_pieces_of_the_corpora() {
    let (lower, cased) = (Tokenizer::new(vocabulary(), true), Tokenizer::new(vocabulary(), false));
    let golden = json("tokens.json.gz");
    let lines = golden.as_array().unwrap();
    assert_eq!(lines.len(), 76);
    for line in lines {
        let text = line["text"].as_str().unwrap();
        assert_eq!(lower.tokens(text), strings(&line["lower"]), "lower-cased {text:?}");
        assert_eq!(lower.encode(text), numbers(&line["lower_ids"]), "lower-cased {text:?}");
        assert_eq!(cased.tokens(text), strings(&line["cased"]), "cased {text:?}");
    }
}

#[test]
fn words_of_400_characters_are_the_longest() {
    let tokenizer = Tokenizer::new(vocabulary(), true);
    for letter in ["a", "ß"] {
        let word = letter.repeat(MAX_CHARS_PER_WORD);
        let unknown = tokenizer.tokens(&word) == ["[UNK]"];
        assert_eq!(unknown, letter == "ß", "the vocabulary has a and no ß");
        assert_eq!(tokenizer.tokens(&(word + letter)), ["[UNK]"]);
    }
    let shorter = tokenizer.with_max_chars_per_word(3);
    assert_eq!((shorter.tokens("aaa").len(), shorter.tokens("aaaa")), (3, vec!["[UNK]"]));
}

#[test]
fn special_tokens_stand_for_themselves_in_prompts_only() {
    let tokenizer = Tokenizer::new(vocabulary(), true);
    let special = tokenizer.vocabulary().special();
    let prompt = tokenizer.encode_prompt("God[MASK] and [SEP]");
    let expected =
        [tokenizer.encode("God"), vec![special.mask], tokenizer.encode("and"), vec![special.sep]].concat();
    assert_eq!(prompt, expected);
    let text = tokenizer.encode("God[MASK]");
    assert!(!text.contains(&special.mask) && text.len() > 3, "{text:?}");
    assert_eq!(tokenizer.encode_prompt("nothing special"), tokenizer.encode("nothing special"));
}

/// Hugging Face's own tokenizer, made from our file, agrees wherever the two are meant to.
#[test]
fn tokenizer_json_loads_and_agrees() {
    let golden = json("tokens.json.gz");
    let settings = [(true, None), (false, None), (true, Some(false)), (false, Some(true))];
    for (do_lower_case, strip_accents) in settings {
        let ours = Tokenizer::new(vocabulary(), do_lower_case).with_strip_accents(strip_accents);
        let content = ours.to_tokenizer_json();
        let theirs: tokenizers::Tokenizer = content.parse().unwrap();
        let mut compared = 0;
        for line in golden.as_array().unwrap() {
            let text = line["text"].as_str().unwrap().trim();
            // Where they are not: longer words than their limit of 100, and special tokens typed in the text.
            if text.split_whitespace().any(|word| word.chars().count() > 100) || text.contains('[') {
                continue;
            }
            compared += 1;
            assert_eq!(theirs.encode(text, false).unwrap().get_ids(), ours.encode(text), "{text:?}");
        }
        assert!(compared > 65, "{compared}");
        let special = ours.vocabulary().special();
        let pair = theirs.encode(("god", "man"), true).unwrap();
        let (god, man) = (ours.encode("god"), ours.encode("man"));
        let expected = [&[special.cls][..], &god, &[special.sep], &man, &[special.sep]].concat();
        assert_eq!(pair.get_ids(), expected);
        assert_eq!(pair.get_type_ids().iter().sum::<u32>() as usize, man.len() + 1);
        // Saved by the library itself, nothing changes.
        assert_eq!(theirs.to_string(true).unwrap(), content);
    }
}

#[test]
fn accents_are_stripped_apart_from_lower_casing() {
    let words = |lower, strip| basic_tokens("Élan ÅNGSTRÖM", lower, strip).join(" ");
    for (lower, strip, expected) in [
        (true, None, "elan angstrom"),
        (false, None, "Élan ÅNGSTRÖM"),
        (true, Some(false), "élan ångström"),
        (false, Some(true), "Elan ANGSTROM"),
        (true, Some(true), "elan angstrom"),
    ] {
        assert_eq!(words(lower, strip), expected, "{lower} {strip:?}");
    }
}
