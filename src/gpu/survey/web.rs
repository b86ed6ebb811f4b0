//! What `navigator.gpu` offers, to a page or to a worker.

use js_sys::Reflect;
use wasm_bindgen::prelude::*;

use super::{Absence, AbsenceCause, AdapterReport, Browser, Survey};

#[wasm_bindgen]
extern "C" {
    type Gpu;
    #[wasm_bindgen(method, catch, js_name = requestAdapter)]
    async fn request_adapter(this: &Gpu, options: &JsValue) -> Result<JsValue, JsValue>;
}

pub(super) async fn survey() -> Survey {
    let mut survey = Survey::default();
    match adapter().await {
        Ok(report) => survey.adapters.push(report),
        Err((cause, reason)) => {
            survey.absences.push(Absence { backend: "webgpu".into(), cause, reason: reason.into() });
        }
    }
    survey
}

async fn adapter() -> Result<AdapterReport, (AbsenceCause, &'static str)> {
    let global = js_sys::global();
    let navigator = get(&global, "navigator");
    let gpu = get(&navigator, "gpu");
    let browser = Browser::from_user_agent(&text(&navigator, "userAgent"));
    if gpu.is_falsy() {
        return Err(match get(&global, "isSecureContext").as_bool() {
            Some(false) => {
                (AbsenceCause::InsecureContext, "the page came neither over https nor from this machine")
            }
            _ => (AbsenceCause::NoWebGpuApi(browser), "there is no WebGPU (navigator.gpu is missing)"),
        });
    }
    let none = (AbsenceCause::NoBrowserAdapter(browser), "there is WebGPU, but no adapter for it");
    let mut report = AdapterReport::new(0, request().await.ok_or(none)?);
    report.name = name(gpu.unchecked_ref()).await;
    Ok(report)
}

/// In a browser an adapter opens one device only, so there must be a new one for each.
pub(super) async fn to_open(_: &AdapterReport) -> Option<wgpu::Adapter> {
    request().await
}

/// A browser has one to offer, whatever it is called after its GPU process was started anew.
pub(super) fn is_same(_: &AdapterReport, _: &AdapterReport) -> bool {
    true
}

async fn request() -> Option<wgpu::Adapter> {
    let power_preference = wgpu::PowerPreference::HighPerformance;
    let options = wgpu::RequestAdapterOptions { power_preference, ..Default::default() };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    instance.request_adapter(&options).await.ok()
}

/// A name for the adapter. wgpu knows of its description only, which browsers leave empty.
async fn name(gpu: &Gpu) -> String {
    let options = js_sys::Object::new();
    // Setting a property of a fresh object cannot fail.
    let _ = Reflect::set(&options, &"powerPreference".into(), &"high-performance".into());
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
