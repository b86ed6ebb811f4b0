//! Documents → training instances: pairs of segments with some tokens masked. The algorithm and the order of its random
//! draws are those of the reference's `create_pretraining_data`, so the same text, vocabulary and seed give the same
//! instances in the same order.

use super::draw::Draw;
use super::library::{InMemory, Library};
use super::masking::Masker;
use super::pool::{Pool, Span};
use super::{Batch, BatchLimits, Documents, Error, Features, InstanceSet, PythonRandom, Vocabulary, windows};

/// How instances are made. Names and defaults are the reference's where it has them.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceOptions {
    /// S: tokens of an instance, `[CLS]` and both `[SEP]` among them. At least 5.
    pub max_seq_length: usize,
    /// M: the most tokens masked in an instance. At least 1; instances have no more places than tokens.
    pub max_predictions_per_seq: usize,
    /// How often the text is gone through, each time with other masks.
    pub dupe_factor: usize,
    /// Share of the tokens that are masked.
    pub masked_lm_prob: f64,
    /// Share of the visits to a document that aim at a shorter, random length.
    pub short_seq_prob: f64,
    /// Seed of all random draws.
    pub random_seed: u64,
    /// Mask whole words, not single pieces.
    pub whole_word_mask: bool,
    /// The most words masked together. More than one needs `whole_word_mask`; n words are masked together with a weight
    /// of 1/n. The reference draws these numbers without a seed, so here its files cannot be matched.
    pub max_ngram_size: usize,
    /// Whether the next-sentence labels will be learned from: then they must mean something.
    pub use_next_sentence_label: bool,
    /// `None`: segments are whole sentences, as in the reference. `Some((low, high))`: every sentence starts
    /// an instance that runs on until it is full, with a first segment of `low` to `high` tokens, so that short instances
    /// are neither padding nor torn pairs; `short_seq_prob` does not count then.
    pub first_segment_tokens: Option<(usize, usize)>,
}

impl Default for InstanceOptions {
    fn default() -> Self {
        Self {
            max_seq_length: 128,
            max_predictions_per_seq: 20,
            dupe_factor: 10,
            masked_lm_prob: 0.15,
            short_seq_prob: 0.1,
            random_seed: 12345,
            whole_word_mask: false,
            max_ngram_size: 1,
            use_next_sentence_label: true,
            first_segment_tokens: None,
        }
    }
}

impl InstanceOptions {
    /// The most tokens of a pair: S without `[CLS]` and two `[SEP]`.
    pub(super) fn capacity(&self) -> usize {
        self.max_seq_length - 3
    }

    /// # Errors
    /// When next-sentence labels that mean something cannot be made of so many documents with so many sentences.
    pub(super) fn check_pairs(&self, documents: u64, sentences: u64, origin: &str) -> Result<(), Error> {
        let origin = || origin.to_owned();
        if !self.use_next_sentence_label {
            Ok(())
        } else if documents < 2 {
            Err(Error::SingleDocument { origin: origin() })
        } else if sentences == documents && self.first_segment_tokens.is_none() {
            Err(Error::OneSentencePerDocument { origin: origin() })
        } else {
            Ok(())
        }
    }

    /// Places for predictions in an instance: more than S would stay empty.
    pub fn places(&self) -> usize {
        self.max_predictions_per_seq.min(self.max_seq_length)
    }

    /// Are the numbers in their ranges?
    ///
    /// # Errors
    /// [`Error::BadOption`] names the first that is not.
    pub fn check(&self) -> Result<(), Error> {
        let refuse =
            |option, value: String, expected: String| Err(Error::BadOption { option, value, expected });
        if self.max_seq_length < 5 {
            return refuse("max_seq_length", self.max_seq_length.to_string(), "at least 5".into());
        }
        if self.max_predictions_per_seq < 1 {
            return refuse("max_predictions_per_seq", "0".into(), "at least 1".into());
        }
        if self.dupe_factor < 1 {
            return refuse("dupe_factor", "0".into(), "at least 1".into());
        }
        for (option, value) in
            [("masked_lm_prob", self.masked_lm_prob), ("short_seq_prob", self.short_seq_prob)]
        {
            if !(0.0..=1.0).contains(&value) {
                return refuse(option, value.to_string(), "between 0 and 1".into());
            }
        }
        if self.max_ngram_size < 1 {
            return refuse("max_ngram_size", "0".into(), "at least 1".into());
        }
        if self.max_ngram_size > 1 && !self.whole_word_mask {
            let expected = "1 unless whole words are masked (do_whole_word_mask)".into();
            return refuse("max_ngram_size", self.max_ngram_size.to_string(), expected);
        }
        // B needs a token as well.
        let most = self.capacity() - 1;
        match self.first_segment_tokens {
            Some((low, high)) if low < 1 || low > high || high > most => {
                let expected =
                    format!("a range within 1 to {most} for max_seq_length {}", self.max_seq_length);
                refuse("first_segment_tokens", format!("{low} to {high}"), expected)
            }
            _ => Ok(()),
        }
    }
}

/// Makes instances, as the reference's script would write them.
///
/// # Errors
/// When an option is out of its range, there is a single document although next-sentence labels are wanted (a random
/// next sentence is drawn from another document), or the text does not make an instance.
pub fn create_instances(
    documents: &Documents,
    vocabulary: &Vocabulary,
    options: &InstanceOptions,
) -> Result<Features, Error> {
    let instances = Instances::make(documents, vocabulary, options)?;
    Ok(instances.features(0..instances.count()))
}

/// Makes the pairs of one visit to a document, and hands each to `emit` with whether B is random.
pub(super) fn visit<R: Draw>(
    library: &mut impl Library,
    document: usize,
    options: &InstanceOptions,
    rng: &mut R,
    emit: impl FnMut((&[u32], &[u32]), bool, &mut R) -> Result<(), Error>,
) -> Result<(), Error> {
    match options.first_segment_tokens {
        None => from_document(library, document, options, rng, emit),
        Some(range) => windows::from_document(library, document, range, options, rng, emit),
    }
}

/// Collects a document's sentences until they fill an instance, then splits them into A and B.
fn from_document<R: Draw>(
    library: &mut impl Library,
    this: usize,
    options: &InstanceOptions,
    rng: &mut R,
    mut emit: impl FnMut((&[u32], &[u32]), bool, &mut R) -> Result<(), Error>,
) -> Result<(), Error> {
    let all = library.sentences(this)?;
    let capacity = options.capacity();
    let mut target = capacity;
    if rng.random() < options.short_seq_prob {
        target = rng.randint(2, capacity);
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    // The chunk is the sentences `first..=i`.
    let (mut first, mut length, mut i) = (0, 0, 0);
    while i < all {
        length += library.length(this, i)?;
        if i + 1 == all || length >= target {
            let sentences = i + 1 - first;
            let a_end = first + if sentences == 1 { 1 } else { rng.randint(1, sentences - 1) };
            a.clear();
            b.clear();
            library.append(this, first..a_end, &mut a)?;
            let is_random_next = sentences == 1 || rng.random() < 0.5;
            if is_random_next {
                let mut other = 0;
                for _ in 0..10 {
                    other = rng.below(library.documents());
                    if other != this {
                        break;
                    }
                }
                let start = rng.below(library.sentences(other)?);
                library.append_until(other, start, target.saturating_sub(a.len()), &mut b)?;
                // The sentences not used go back, to be taken anew.
                i = a_end - 1;
            } else {
                library.append(this, a_end..i + 1, &mut b)?;
            }
            emit(truncate(&a, &b, capacity, rng), is_random_next, rng)?;
            (first, length) = (i + 1, 0);
        }
        i += 1;
    }
    Ok(())
}

/// Drops tokens from the longer segment, at either end, until both fit.
fn truncate<'a>(
    mut a: &'a [u32],
    mut b: &'a [u32],
    capacity: usize,
    rng: &mut impl Draw,
) -> (&'a [u32], &'a [u32]) {
    while a.len() + b.len() > capacity {
        let longer = if a.len() > b.len() { &mut a } else { &mut b };
        let last = longer.len() - 1;
        *longer = if rng.random() < 0.5 { &longer[1..] } else { &longer[..last] };
    }
    (a, b)
}

/// Training instances as they were made: without padding, and with nothing that follows from something else. A batch of
/// them is as one of the [`Features`] of [`create_instances`].
///
/// ```
/// use wgpu_bert::data::{Corpus, InstanceOptions, InstanceSet, Instances, Tokenizer, create_instances, train_vocabulary};
/// let corpus = Corpus::bundled()?;
/// let tokenizer = Tokenizer::new(train_vocabulary(corpus.sentences(), 300, true)?, true);
/// let (documents, options) = (corpus.encode(&tokenizer)?, InstanceOptions::default());
/// let instances = Instances::make(&documents, tokenizer.vocabulary(), &options)?;
/// let features = create_instances(&documents, tokenizer.vocabulary(), &options)?;
/// assert_eq!(instances.features(0..instances.count()), features);
/// # Ok::<(), wgpu_bert::data::Error>(())
/// ```
pub struct Instances {
    origin: String,
    seq_length: usize,
    predictions: usize,
    tokens: Pool<u32>,
    /// Masked positions and the tokens that were there.
    masked: Pool<(u32, u32)>,
    instances: Vec<Instance>,
}

struct Instance {
    tokens: Span,
    masked: Span,
    /// How many of the tokens are `[CLS] A [SEP]`.
    first_length: u32,
    is_random_next: bool,
}

/// Puts instances together.
pub(super) struct Assembler {
    masker: Masker,
    instances: Instances,
    /// The tokens and the masked ones of one instance.
    tokens: Vec<u32>,
    masked: Vec<(u32, u32)>,
}

/// A finished instance.
#[derive(Clone, Copy)]
pub(super) struct InstanceView<'a> {
    /// `[CLS] A [SEP] B [SEP]`, masked.
    pub(super) tokens: &'a [u32],
    /// How many of the tokens are `[CLS] A [SEP]`.
    pub(super) first_length: usize,
    /// Masked positions, ascending, and the tokens that were there.
    pub(super) masked: &'a [(u32, u32)],
    pub(super) is_random_next: bool,
}

/// The visits to all documents, one after another.
pub(super) struct Visits<'a> {
    options: &'a InstanceOptions,
    library: InMemory<'a>,
    assembler: Assembler,
    rng: PythonRandom,
    done: usize,
}

impl<'a> Visits<'a> {
    /// # Errors
    /// As [`create_instances`].
    pub(super) fn new(
        documents: &'a Documents,
        vocabulary: &Vocabulary,
        options: &'a InstanceOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let origin = documents.origin.clone();
        let sentences = documents.documents.iter().map(Vec::len).sum::<usize>();
        options.check_pairs(documents.documents.len() as u64, sentences as u64, &origin)?;
        let mut rng = PythonRandom::new(options.random_seed);
        let mut order: Vec<&[Vec<u32>]> = documents.documents.iter().map(Vec::as_slice).collect();
        rng.shuffle(&mut order);
        let assembler = Assembler::new(origin, vocabulary, options);
        Ok(Self { options, library: InMemory::new(order), assembler, rng, done: 0 })
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.library.documents() * self.options.dupe_factor
    }

    /// How many are made.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Makes the next one; false after the last.
    pub(super) fn one(&mut self) -> Result<bool, Error> {
        if self.done == self.total() {
            return Ok(false);
        }
        let Self { options, library, assembler, rng, done } = self;
        let document = *done % library.documents();
        visit(library, document, options, rng, |pair, is_random, rng| {
            assembler.push(pair, is_random, rng);
            Ok(())
        })?;
        *done += 1;
        Ok(true)
    }

    /// All instances, in the reference's order.
    pub(super) fn into_instances(self) -> Result<Instances, Error> {
        let Self { assembler, mut rng, .. } = self;
        let mut made = assembler.instances;
        if made.instances.is_empty() {
            return Err(Error::NoInstances { origin: made.origin });
        }
        made.instances.shrink_to_fit();
        rng.shuffle(&mut made.instances);
        Ok(made)
    }
}

impl Instances {
    /// Makes instances in the reference's order.
    ///
    /// # Errors
    /// As [`create_instances`].
    pub fn make(
        documents: &Documents,
        vocabulary: &Vocabulary,
        options: &InstanceOptions,
    ) -> Result<Self, Error> {
        let mut visits = Visits::new(documents, vocabulary, options)?;
        while visits.one()? {}
        visits.into_instances()
    }

    /// N.
    pub fn count(&self) -> usize {
        self.instances.len()
    }

    /// Instance `n`, which must be there.
    pub(super) fn view(&self, n: usize) -> InstanceView<'_> {
        let instance = &self.instances[n];
        InstanceView {
            tokens: self.tokens.get(instance.tokens),
            first_length: instance.first_length as usize,
            masked: self.masked.get(instance.masked),
            is_random_next: instance.is_random_next,
        }
    }

    /// Some of them, padded.
    ///
    /// # Panics
    /// When there is no instance of such a number.
    pub fn features(&self, records: impl ExactSizeIterator<Item = usize>) -> Features {
        let mut features =
            Features::zeros(self.origin.clone(), records.len(), self.seq_length, self.predictions);
        records.enumerate().for_each(|(n, record)| features.set(n, self.view(record)));
        features
    }
}

impl InstanceSet for Instances {
    fn origin(&self) -> &str {
        &self.origin
    }

    fn count(&self) -> usize {
        self.count()
    }

    fn seq_length(&self) -> usize {
        self.seq_length
    }

    fn predictions(&self) -> usize {
        self.predictions
    }

    fn random_next(&self) -> usize {
        self.instances.iter().filter(|instance| instance.is_random_next).count()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (u32, f32)> + '_> {
        Box::new(self.masked.iter().map(|(_, id)| (*id, 1.0)))
    }

    fn batch(&self, records: &[usize], limits: &BatchLimits) -> Result<Batch, Error> {
        let count = self.count();
        if let Some(&record) = records.iter().find(|record| **record >= count) {
            return Err(Error::NoSuchRecord { origin: self.origin.clone(), record, count });
        }
        let all: Vec<usize> = (0..records.len()).collect();
        Batch::new(&self.pick(records), &all, limits)
    }

    fn pick(&self, records: &[usize]) -> Features {
        self.features(records.iter().copied())
    }

    /// They are sound as they are made; whether the model has room for them is checked with every batch.
    fn check(&self, _: &BatchLimits) -> Result<(), Error> {
        Ok(())
    }
}

impl Assembler {
    fn new(origin: String, vocabulary: &Vocabulary, options: &InstanceOptions) -> Self {
        let instances = Instances {
            origin,
            seq_length: options.max_seq_length,
            predictions: options.places(),
            tokens: Pool::new(),
            masked: Pool::new(),
            instances: Vec::new(),
        };
        Self { masker: Masker::new(vocabulary, options), instances, tokens: Vec::new(), masked: Vec::new() }
    }

    /// Adds `[CLS] A [SEP] B [SEP]`, masked.
    pub(super) fn push(&mut self, pair: (&[u32], &[u32]), is_random_next: bool, rng: &mut PythonRandom) {
        self.tokens.clear();
        self.masked.clear();
        self.masker.assemble(pair, rng, &mut self.tokens, &mut self.masked);
        self.instances.instances.push(Instance {
            tokens: self.instances.tokens.push(&self.tokens),
            masked: self.instances.masked.push(&self.masked),
            first_length: pair.0.len() as u32 + 2,
            is_random_next,
        });
    }
}
