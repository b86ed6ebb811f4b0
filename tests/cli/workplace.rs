//! A small run to try things on.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{Finished, run, wgpu_bert};

/// A folder with a small text and the flags of a small run on it.
pub struct Workplace {
    root: TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let sentence = |n: usize| ["the dog sees the cat", "a cat sees the dog", "the bird sings"][n % 3];
        let text: String =
            (0..40).map(|n| format!("{}\n{}", sentence(n), if n % 4 == 3 { "\n" } else { "" })).collect();
        fs::write(root.path().join("text.txt"), text).expect("a writable folder");
        Self { root }
    }

    pub fn path(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    pub fn model_dir(&self) -> PathBuf {
        self.root.path().join("model")
    }

    pub fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.root.path().join(name), content).expect("a writable folder");
        self.path(name)
    }

    /// A run of six steps, with `flags` after its own.
    pub fn flags(&self, flags: &[&str]) -> Vec<String> {
        let config = self.write(
            "bert_config.json",
            r#"{"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 12, "max_position_embeddings": 16, "type_vocab_size": 2,
                "learning_rate": 1e-2, "warmup_steps": 2}"#,
        );
        let mut all = vec!["pretrain".into(), format!("--input_files={}", self.path("text.txt"))];
        all.extend([
            format!("--bert_config_file={config}"),
            format!("--model_dir={}", self.model_dir().display()),
        ]);
        let run = "--max_seq_length=16 --max_predictions_per_seq=3 --train_batch_size=4 --num_steps_per_epoch=3 \
                   --num_train_epochs=2 --steps_per_loop=2";
        all.extend(run.split_whitespace().chain(flags.iter().copied()).map(str::to_owned));
        all
    }

    pub fn pretrain(&self, flags: &[&str]) -> Finished {
        let flags = self.flags(flags);
        run(&mut wgpu_bert(&flags.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}
