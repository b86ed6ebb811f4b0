//! Does this device compute what it should? Golden cases run on it and compared, tensor by tensor.
//!
//! A golden folder has one of two forms, told apart by its files:
//!
//! - forward and backward: `config.json` with `expected.safetensors`, `config_gelu_new.json` with
//!   `expected_gelu_new.safetensors`; both from `model.safetensors` on `batch.safetensors`. Files named
//!   `expected_zero_weights…` go with `batch_zero_weights.safetensors`. Expected tensors are losses, logits,
//!   outputs, and `grad.` + parameter.
//! - optimizer steps: `steps_f64.json` with runs by name, each with its hyper-parameters, start file and steps;
//!   `batches.safetensors`; and `<run>.params_stepNN.safetensors`, `<run>.moments_stepNN.safetensors`.
//!
//! What a folder lacks is not compared, and a run whose start it lacks is left out; a folder with nothing to compare is
//! an error.

mod forward;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::{TrainError, Trainer};
use crate::checkpoint::{CheckpointError, NamedTensor, TensorFile};
use crate::data::{Batch, BatchLimits, Features};
use crate::gpu::{AdapterReport, DeviceOptions, Gpu, GpuError};
use crate::model::config::{BertConfig, ConfigError};
use crate::model::{BatchShape, StepKind};

/// The files of a golden folder, by name.
pub type GoldenFiles = BTreeMap<String, Vec<u8>>;

/// One tensor or number compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The case: an expected file, or a run and a step.
    pub case: String,
    /// What was compared.
    pub kind: Quantity,
    /// The tensor's or the number's name.
    pub name: String,
    /// The largest difference, in the measure of its kind.
    pub error: f64,
    /// The largest difference allowed.
    pub tolerance: f64,
}

impl Comparison {
    /// Is the difference within its tolerance? One that is not a number is not.
    pub fn holds(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// What is compared, each with its measure and tolerance for f32 on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Losses, absolute.
    Loss,
    /// Logits of both heads, absolute.
    Logits,
    /// Sequence and pooled output, absolute.
    Output,
    /// Gradients, as a share of the tensor's largest magnitude; of key biases, whose true gradient is 0, absolute.
    Gradient,
    /// Global norm of the gradients, relative.
    GradientNorm,
    /// Weights after an update, absolute.
    Parameter,
    /// Moments after an update, as a share of the tensor's largest magnitude.
    Moment,
}

impl Quantity {
    /// The quantity in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Logits => "logits",
            Self::Output => "output",
            Self::Gradient => "gradient",
            Self::GradientNorm => "gradient_norm",
            Self::Parameter => "parameter",
            Self::Moment => "moment",
        }
    }

    fn tolerance(self, is_key_bias: bool) -> f64 {
        match self {
            Self::Loss | Self::Output | Self::GradientNorm | Self::Parameter => 1e-4,
            Self::Gradient if is_key_bias => 1e-6,
            Self::Logits | Self::Gradient => 2e-4,
            Self::Moment => 1e-3,
        }
    }

    fn is_share_of_maximum(self) -> bool {
        matches!(self, Self::Gradient | Self::GradientNorm | Self::Moment)
    }
}

/// Softmax does not feel a shift of all its scores, so the true gradient of a key bias is 0 and what a device
/// computes is rounding noise, which Adam and LAMB blow up: its value after an update says nothing.
fn is_key_bias(name: &str) -> bool {
    name.ends_with("attention.self.key.bias")
}

/// Everything compared.
#[derive(Debug, Clone, Default)]
pub struct SelfTestReport {
    /// In the order of the run.
    pub comparisons: Vec<Comparison>,
    /// Runs of optimizer steps that could not be made, and why.
    pub left_out: Vec<String>,
}

impl SelfTestReport {
    /// Is every difference within its tolerance?
    pub fn ok(&self) -> bool {
        self.comparisons.iter().all(Comparison::holds)
    }

    /// For each kind of quantity the comparison that used most of its tolerance.
    pub fn worst(&self) -> Vec<&Comparison> {
        let mut worst: BTreeMap<Quantity, &Comparison> = BTreeMap::new();
        for comparison in &self.comparisons {
            let entry = worst.entry(comparison.kind).or_insert(comparison);
            // An error that is not a number is the worst of all.
            let share = |c: &Comparison| if c.error.is_nan() { f64::INFINITY } else { c.error / c.tolerance };
            if share(comparison) > share(entry) {
                *entry = comparison;
            }
        }
        worst.into_values().collect()
    }

    fn compare(&mut self, case: &str, kind: Quantity, name: &str, got: &[f32], want: &[f32]) {
        let key_bias = is_key_bias(name);
        let scale = match kind.is_share_of_maximum() && !key_bias {
            true => want.iter().fold(f64::MIN_POSITIVE, |max, w| max.max(f64::from(w.abs()))),
            false => 1.0,
        };
        let difference = |(g, w): (&f32, &f32)| (f64::from(*g) - f64::from(*w)).abs() / scale;
        let errors = got.iter().zip(want).map(difference);
        // max() would pass over what is not a number.
        let error =
            errors.fold(0.0, |max: f64, e| if e.is_nan() || max.is_nan() { f64::NAN } else { max.max(e) });
        let error = if got.len() == want.len() { error } else { f64::NAN };
        let tolerance = kind.tolerance(key_bias);
        self.comparisons.push(Comparison { case: case.into(), kind, name: name.into(), error, tolerance });
    }
}

/// Why a self-test could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// The folder holds none of the files of either form.
    #[error(
        "no golden case: expected config.json with model.safetensors, batch.safetensors and expected.safetensors, or steps_f64.json with batches.safetensors"
    )]
    NothingToCompare,
    /// A file that another one needs is not there.
    #[error("golden case: {file} is missing")]
    MissingFile {
        /// Its name.
        file: String,
    },
    /// A file does not hold what it should.
    #[error("golden case: {file}: {problem}")]
    BadFile {
        /// Its name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A tensor file is wrong.
    #[error(transparent)]
    Tensors(#[from] CheckpointError),
    /// A batch is wrong.
    #[error(transparent)]
    Batch(#[from] crate::data::Error),
    /// The device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// The case that comes with the program: two layers of 12 on a batch of odd lengths, with both forms of GELU.
pub fn bundled() -> GoldenFiles {
    let files: [(&str, &[u8]); 6] = [
        ("config.json", include_bytes!("../../../data/self_test/config.json")),
        ("config_gelu_new.json", include_bytes!("../../../data/self_test/config_gelu_new.json")),
        ("model.safetensors", include_bytes!("../../../data/self_test/model.safetensors")),
        ("batch.safetensors", include_bytes!("../../../data/self_test/batch.safetensors")),
        ("expected.safetensors", include_bytes!("../../../data/self_test/expected.safetensors")),
        (
            "expected_gelu_new.safetensors",
            include_bytes!("../../../data/self_test/expected_gelu_new.safetensors"),
        ),
    ];
    files.into_iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect()
}

/// Run every case of a golden folder on a device.
///
/// # Errors
/// When the files are not a golden case, or the device fails before there is anything to compare.
pub async fn self_test(gpu: &Arc<Gpu>, files: &GoldenFiles) -> Result<SelfTestReport, SelfTestError> {
    let mut report = SelfTestReport::default();
    forward::run(gpu, files, &mut report).await?;
    steps::run(gpu, files, &mut report).await?;
    if report.comparisons.is_empty() {
        return Err(SelfTestError::NothingToCompare);
    }
    Ok(report)
}

/// Refuse a device that fails a golden case: some drivers compute zeros, or worse.
///
/// # Errors
/// [`TrainError::WrongNumbers`] names the worst differences, [`TrainError::SelfTest`] says why there are none.
pub async fn check_device(gpu: &Arc<Gpu>, files: &GoldenFiles) -> Result<(), TrainError> {
    let report = self_test(gpu, files).await.map_err(TrainError::SelfTest)?;
    if report.ok() {
        return Ok(());
    }
    let worst = report.worst().into_iter().filter(|c| !c.holds());
    let worst: Vec<_> = worst.map(|c| format!("{} is off by {:.1e}", c.name, c.error)).collect();
    Err(TrainError::WrongNumbers { adapter: gpu.adapter.name.clone(), worst: worst.join(", ") })
}

/// Refuse a device that fails the bundled case. What passed it once in this process is not asked again: the same kernels
/// on the same adapter compute the same.
pub(super) async fn check_device_once(gpu: &Arc<Gpu>, options: DeviceOptions) -> Result<(), TrainError> {
    static PASSED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let passed = || PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let AdapterReport { index, name, backend, driver, .. } = &gpu.adapter;
    let kernels = options.kernels_on(&gpu.adapter);
    let which = format!("{index} {name} {backend} {driver} {options:?} {kernels:?}");
    if !passed().contains(&which) {
        check_device(gpu, &bundled()).await?;
        passed().insert(which);
    }
    Ok(())
}

async fn trainer(
    gpu: &Arc<Gpu>,
    config: &BertConfig,
    batch: &Batch,
    kind: StepKind,
) -> Result<Trainer, SelfTestError> {
    let (batch_size, seq_length, predictions) = (batch.batch_size, batch.seq_length, batch.predictions);
    let shape = BatchShape { batch_size, seq_length, predictions };
    Ok(Trainer::new(gpu.clone(), config, shape, kind).await?)
}

fn file<'a>(files: &'a GoldenFiles, name: &str) -> Result<&'a [u8], SelfTestError> {
    files.get(name).map(Vec::as_slice).ok_or_else(|| SelfTestError::MissingFile { file: name.into() })
}

fn config(files: &GoldenFiles, name: &str) -> Result<BertConfig, SelfTestError> {
    let bad = |problem: String| SelfTestError::BadFile { file: name.into(), problem };
    let text = std::str::from_utf8(file(files, name)?).map_err(|error| bad(error.to_string()))?;
    let config = BertConfig::from_json(text, name)?;
    config.validate()?;
    // Golden numbers are made without dropout; a file that asks for it would compare nothing.
    if config.hidden_dropout_prob != 0.0 || config.attention_probs_dropout_prob != 0.0 {
        return Err(bad("dropout must be 0".into()));
    }
    Ok(config)
}

fn weights(files: &GoldenFiles, name: &str, config: &BertConfig) -> Result<Vec<NamedTensor>, SelfTestError> {
    let tensors = TensorFile::parse(file(files, name)?, name)?;
    let weights = crate::checkpoint::names::read_parameters(config, &tensors)?;
    weights.iter().try_for_each(|tensor| check_finite(name, tensor))?;
    Ok(weights)
}

/// The numbers expected of a tensor, where the file has them.
fn expected(tensors: &TensorFile, name: &str) -> Result<Option<Vec<f32>>, SelfTestError> {
    if tensors.shape(name).is_none() {
        return Ok(None);
    }
    let tensor = tensors.f32(name)?;
    check_finite(tensors.source_name(), &tensor)?;
    Ok(Some(tensor.data))
}

/// A device must not be blamed for what a file holds.
fn check_finite(file: &str, tensor: &NamedTensor) -> Result<(), SelfTestError> {
    if tensor.data.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let problem = format!("tensor {} has values that are not finite", tensor.name);
    Err(SelfTestError::BadFile { file: file.into(), problem })
}

/// The batch whose features are called `prefix` + the reference's names.
fn batch(tensors: &TensorFile, prefix: &str, config: &BertConfig) -> Result<Batch, SelfTestError> {
    let unsigned = |feature: &str| -> Result<NamedTensor<u32>, SelfTestError> {
        let NamedTensor { name, shape, data } = tensors.i32(&format!("{prefix}{feature}"))?;
        // A negative id becomes a huge one, which the batch refuses by name.
        Ok(NamedTensor { name, shape, data: data.into_iter().map(|id| id as u32).collect() })
    };
    let ids = unsigned("input_word_ids")?;
    let positions = unsigned("masked_lm_positions")?;
    let width = |shape: &[usize]| shape.get(1).copied().unwrap_or(0);
    let features = Features {
        origin: tensors.source_name().to_string(),
        seq_length: width(&ids.shape),
        predictions: width(&positions.shape),
        input_ids: ids.data,
        input_mask: unsigned("input_mask")?.data,
        segment_ids: unsigned("input_type_ids")?.data,
        masked_lm_positions: positions.data,
        masked_lm_ids: unsigned("masked_lm_ids")?.data,
        masked_lm_weights: tensors.f32(&format!("{prefix}masked_lm_weights"))?.data,
        next_sentence_labels: unsigned("next_sentence_labels")?.data,
    };
    let limits = BatchLimits {
        vocab_size: config.vocab_size,
        type_vocab_size: config.type_vocab_size,
        max_position_embeddings: config.max_position_embeddings,
    };
    let records: Vec<usize> = (0..features.count()).collect();
    Ok(Batch::new(&features, &records, &limits)?)
}
