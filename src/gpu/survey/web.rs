//! What `navigator.gpu` offers, to a page or to a worker.

use js_sys::Reflect;
use wasm_bindgen::prelude::*;

use super::{Absence, AbsenceCause, AdapterReport, Browser, Survey};

#[wasm_bindgen]
extern "C" {
    type Gpu;
    #[wasm_bindgen(method, catch, js_name = requestAdapter)]
    async fn request_adapter(this: &Gpu, options: &JsValue) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_name = WGSLLanguageFeatures)]
    type LanguageFeatures;
    #[wasm_bindgen(method)]
    fn has(this: &LanguageFeatures, feature: &str) -> bool;
}

/// What a page can ask for, by the index of the adapter that it gets.
const PREFERENCES: [wgpu::PowerPreference; 2] =
    [wgpu::PowerPreference::HighPerformance, wgpu::PowerPreference::LowPower];

pub(super) async fn survey() -> Survey {
    let mut survey = Survey::default();
    match adapters().await {
        Ok(adapters) => survey.adapters = adapters,
        Err((cause, reason)) => {
            survey.absences.push(Absence { backend: "webgpu".into(), cause, reason: reason.into() });
        }
    }
    survey
}

/// At least one; two where the one that saves power has another name.
async fn adapters() -> Result<Vec<AdapterReport>, (AbsenceCause, &'static str)> {
    let global = js_sys::global();
    let navigator = get(&global, "navigator");
    let gpu = get(&navigator, "gpu");
    if gpu.is_falsy() {
        return Err(match get(&global, "isSecureContext").as_bool() {
            Some(false) => {
                (AbsenceCause::InsecureContext, "the page came neither over https nor from this machine")
            }
            _ => (AbsenceCause::NoWebGpuApi(browser()), "there is no WebGPU (navigator.gpu is missing)"),
        });
    }
    let none = (AbsenceCause::NoBrowserAdapter(browser()), "there is WebGPU, but no adapter for it");
    let mut adapters: Vec<AdapterReport> = Vec::new();
    for index in 0..PREFERENCES.len() {
        let Some(adapter) = request(index).await else { continue };
        let name = name(gpu.unchecked_ref(), index).await;
        if adapters.iter().all(|other| other.name != name) {
            let driver = user_agent();
            adapters.push(AdapterReport { name, driver, ..AdapterReport::new(index, adapter) });
        }
    }
    if adapters.is_empty() { Err(none) } else { Ok(adapters) }
}

/// Firefox looks ten times a second what a device has done, and whenever something is submitted.
pub(super) fn tell_when_given_work() -> bool {
    browser() == Browser::Firefox
}

fn browser() -> Browser {
    Browser::from_user_agent(&user_agent())
}

fn user_agent() -> String {
    text(&get(&js_sys::global(), "navigator"), "userAgent")
}

/// All adapters of a browser can, if its shading language has a name for it.
pub(super) fn has_readable_textures(_: &wgpu::Adapter) -> bool {
    let gpu = get(&get(&js_sys::global(), "navigator"), "gpu");
    let Ok(features) = get(&gpu, "wgslLanguageFeatures").dyn_into::<LanguageFeatures>() else { return false };
    features.has("readonly_and_readwrite_storage_textures")
}

/// In a browser an adapter opens one device only, so there must be a new one for each.
pub(super) async fn to_open(report: &AdapterReport) -> Option<wgpu::Adapter> {
    request(report.index).await
}

/// A browser answers a question with the same adapter, whatever it is called after its GPU process was started anew.
pub(super) fn is_same(a: &AdapterReport, b: &AdapterReport) -> bool {
    a.index == b.index
}

async fn request(index: usize) -> Option<wgpu::Adapter> {
    let power_preference = *PREFERENCES.get(index)?;
    let options = wgpu::RequestAdapterOptions { power_preference, ..Default::default() };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    instance.request_adapter(&options).await.ok()
}

/// A name for the adapter. wgpu knows of its description only, which browsers leave empty.
async fn name(gpu: &Gpu, index: usize) -> String {
    let options = js_sys::Object::new();
    let preference = ["high-performance", "low-power"][index];
    // Setting a property of a fresh object cannot fail.
    let _ = Reflect::set(&options, &"powerPreference".into(), &preference.into());
    let info = gpu.request_adapter(&options).await.map(|adapter| get(&adapter, "info")).unwrap_or_default();
    let description = text(&info, "description");
    if !description.is_empty() {
        return description;
    }
    let parts = ["vendor", "architecture", "device"].map(|part| text(&info, part));
    let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    if name.is_empty() { "an adapter the browser does not name".into() } else { name }
}

/// A property, or `undefined` where there is none to read.
fn get(object: &JsValue, property: &str) -> JsValue {
    Reflect::get(object, &property.into()).unwrap_or_default()
}

fn text(object: &JsValue, property: &str) -> String {
    get(object, property).as_string().unwrap_or_default()
}
