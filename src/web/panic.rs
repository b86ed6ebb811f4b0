//! A panic is a bug. In wasm it stops everything at once and leaves every promise open, so it must be told aside.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;

const OUT_OF_MEMORY: &str =
    "wgpu-bert ran out of memory: take a smaller text, fewer or shorter examples, or a smaller model";

thread_local! {
    static LISTENER: RefCell<Option<js_sys::Function>> = const { RefCell::new(None) };
}

/// Have `listener(message)` called when this code panics. Nothing here may be called after that.
#[wasm_bindgen(js_name = onPanic)]
pub fn on_panic(listener: js_sys::Function) {
    LISTENER.set(Some(listener));
    std::panic::set_hook(Box::new(|panic| {
        // A list longer than any memory: options that ask for too much.
        let message = match panic.payload().downcast_ref::<&str>() {
            Some(&"capacity overflow") => OUT_OF_MEMORY.into(),
            _ => format!("wgpu-bert has a bug: {panic}"),
        };
        LISTENER.with_borrow(|listener| {
            if let Some(listener) = listener {
                // What the listener throws would only hide the bug.
                let _ = listener.call1(&JsValue::NULL, &message.into());
            }
        });
    }));
}
