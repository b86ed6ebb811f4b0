//! Flags of the reference that have no meaning here, or none yet, each with the reason.

const REFUSED: &[(&[&str], &str)] = &[
    (
        &["num_gpus", "ng"],
        "how many devices train follows from the adapters found; choose one with --adapter (`wgpu-bert devices` lists \
         them)",
    ),
    (&["tpu"], "a TPU is not reached through WebGPU; leave it out and a GPU is taken"),
    (
        &["worker_hosts", "task_index"],
        "mpirun knows the hosts and which of its processes each is: use --distribution_strategy multi_worker_mirrored under \
         `mpirun --hostfile HOSTS`",
    ),
    (
        &["gin_file", "gin_param"],
        "gin binds Python functions; put training options into the JSON of --bert_config_file instead",
    ),
    (
        &["enable_xla"],
        "XLA compiles TensorFlow graphs; the kernels here are compiled by the driver, leave it out",
    ),
    (&["run_eagerly"], "there is no graph to leave: every step is planned once and replayed; leave it out"),
    (&["use_keras_compile_fit"], "there is one training loop, which is not Keras's; leave it out"),
    (
        &["hub_module_url", "hub_module_trainable"],
        "TensorFlow Hub modules cannot be loaded; give a TensorFlow checkpoint, a safetensors file or its folder with \
         --init_checkpoint",
    ),
    (
        &["sub_model_export_name", "model_export_path"],
        "the model is saved whole, once, in Hugging Face's form; say where with --model_dir",
    ),
    (&["log_steps"], "measurements are taken every --steps_per_loop steps; use that"),
    (
        &["tf_gpu_thread_mode", "per_gpu_thread_count", "datasets_num_private_threads"],
        "it tunes TensorFlow's threads, of which there are none here; leave it out",
    ),
    (
        &["tokenization", "sp_model_file"],
        "words are split by WordPiece; leave it out, and give the vocabulary with --vocab_file",
    ),
    (
        &["input_file", "output_file", "gzip_compress", "use_v2_feature_names"],
        "training examples are made from the text while training, or beforehand by `wgpu-bert \
         create-pretraining-data`; give the text or those files with --input_files",
    ),
];

/// Why a flag of the reference is refused; nothing when it is not a flag of the reference.
pub fn reason(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
}
