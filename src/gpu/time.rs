//! Time that passes while nothing is done.

use std::time::Duration;

/// Resolves after `time`; blocks the thread natively.
pub(crate) async fn sleep(time: Duration) {
    #[cfg(not(target_family = "wasm"))]
    std::thread::sleep(time);
    #[cfg(target_family = "wasm")]
    web::sleep(time).await;
}

#[cfg(target_family = "wasm")]
mod web {
    use std::time::Duration;

    use wasm_bindgen::prelude::*;
    use wasm_bindgen_futures::JsFuture;

    #[wasm_bindgen]
    extern "C" {
        /// Of pages, of workers, and of Node.
        #[wasm_bindgen(js_name = setTimeout)]
        fn set_timeout(callback: &js_sys::Function, milliseconds: f64) -> JsValue;
    }

    pub async fn sleep(time: Duration) {
        let promise = js_sys::Promise::new(&mut |resolve, _| {
            set_timeout(&resolve, time.as_secs_f64() * 1000.0);
        });
        // It is never rejected.
        let _ = JsFuture::from(promise).await;
    }
}
