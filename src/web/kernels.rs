//! Which kernels were measured fastest in this browser.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

use crate::gpu::{AdapterReport, DeviceOptions};
use crate::strategy::Strategy;
use crate::train::{KnownKernels, measure_kernels};

#[wasm_bindgen]
extern "C" {
    /// The worker's side: a file of the browser, if it has one for us.
    #[derive(Clone)]
    pub type KernelStore;

    #[wasm_bindgen(method, catch)]
    async fn read(this: &KernelStore) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch)]
    async fn write(this: &KernelStore, text: &str) -> Result<JsValue, JsValue>;
}

thread_local! {
    static STORE: RefCell<Option<KernelStore>> = const { RefCell::new(None) };
    /// So that this worker need not ask the store again, which may not be there.
    static KNOWN: RefCell<Option<KnownKernels>> = const { RefCell::new(None) };
}

/// Tells where it is kept. To be called once, before anything is computed.
#[wasm_bindgen(js_name = setKernelStore)]
pub fn set_kernel_store(store: KernelStore) {
    STORE.set(Some(store));
}

fn store() -> Option<KernelStore> {
    STORE.with_borrow(Option::clone)
}

/// Where nothing can be read, nothing is known.
async fn known() -> KnownKernels {
    if let Some(known) = KNOWN.with_borrow(Option::clone) {
        return known;
    }
    let text = match store() {
        Some(store) => store.read().await.ok().and_then(|text| text.as_string()),
        None => None,
    };
    let known = KnownKernels::parse(&text.unwrap_or_default());
    KNOWN.set(Some(known.clone()));
    known
}

/// Tells a strategy what was measured before.
pub async fn recall(strategy: &mut Strategy) {
    known().await.recall(strategy);
}

/// Tells a strategy the fastest kernels of each of its adapters, and keeps what had to be measured.
pub async fn measure(strategy: &mut Strategy, options: DeviceOptions) {
    let before = known().await;
    let mut known = before.clone();
    measure_kernels(strategy, options, &mut known, AdapterReport::candidates).await;
    if known == before {
        return;
    }
    KNOWN.set(Some(known.clone()));
    if let Some(store) = store() {
        // Where it cannot be written, the next worker measures again.
        drop(store.write(&known.to_json()).await);
    }
}
