//! BERT pre-training (masked LM + next sentence prediction) on WebGPU.
//!
//! The rooms, from the top down; imports point downwards only:
//!
//! | room | what it holds |
//! |---|---|
//! | `web` | the face to JavaScript, in builds for the web only |
//! | [`train`] | the run: options, loop, metrics, events |
//! | [`strategy`] | adapters → replicas, and the guard |
//! | [`checkpoint`] | safetensors with Hugging Face names, the model folder |
//! | [`data`] | text → documents → instances → batches |
//! | [`model`] | the configuration, the parameter table, forward and backward |
//! | [`optimizer`] | AdamW, LAMB, schedules, clipping |
//! | [`ops`] | one file per shader: typed arguments → dispatches in a plan |
//! | [`gpu`] | adapter survey, device, memory and step plan, read-back |
#![deny(missing_docs)]

pub mod checkpoint;
pub mod data;
pub mod gpu;
pub mod model;
pub mod ops;
pub mod optimizer;
pub mod strategy;
pub mod train;
#[cfg(target_family = "wasm")]
pub mod web;

/// The programs of the README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
