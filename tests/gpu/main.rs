//! Everything that needs a device. Fails, never skips, when there is no adapter.
//!
//! `VK_DRIVER_FILES` chooses the driver; `WGPU_BERT_RUNTIME_CHECKS=0` turns the shader compiler's bounds checks off.

mod activation;
mod all_reduce;
mod callbacks;
mod cross_entropy;
mod device_loss;
mod distribution;
mod dropout;
mod embedding;
mod evaluate;
mod golden;
mod harness;
mod kernels;
mod layer_norm;
mod loss_scale;
mod matmul;
mod metrics;
mod mirrored;
mod optimizer;
mod oracle;
mod recorded;
mod resume;
mod rows;
mod run_plan;
mod shorter;
mod small_run;
mod softmax;
mod training;
mod workers;
