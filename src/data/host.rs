//! What the worker does for the wasm module while this reads text: it reads files by parts, keeps what does not stay in
//! memory, and has its turn now and then.

use std::cell::RefCell;
use std::io::{self, Read};
use std::time::Duration;

use serde::Deserialize;
use wasm_bindgen::prelude::*;
use web_time::Instant;

/// Messages to the worker wait no longer.
const TURN: Duration = Duration::from_millis(50);

#[wasm_bindgen]
extern "C" {
    /// The worker's side.
    #[derive(Clone)]
    pub type Host;

    /// Fills `into` with what file `file` has from `at` on.
    #[wasm_bindgen(method, catch, js_name = readFile)]
    fn read_file(this: &Host, file: u32, at: f64, into: &mut [u8]) -> Result<(), JsValue>;

    /// Makes an intermediate file in a workspace; its number.
    #[wasm_bindgen(method, catch)]
    fn create(this: &Host, workspace: u32) -> Result<u32, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn append(this: &Host, number: u32, bytes: &[u8]) -> Result<(), JsValue>;

    /// Fills `into` with what was appended from `at` on.
    #[wasm_bindgen(method, catch, js_name = readBack)]
    fn read_back(this: &Host, number: u32, at: f64, into: &mut [u8]) -> Result<(), JsValue>;

    /// Resolves when the messages that wait have been heard.
    #[wasm_bindgen(method, catch)]
    async fn turn(this: &Host) -> Result<JsValue, JsValue>;
}

thread_local! {
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// Tells who does this. To be called once, before any text is read.
#[wasm_bindgen(js_name = setHost)]
pub fn set_host(host: Host) {
    HOST.set(Some(host));
}

fn call<T>(act: impl FnOnce(&Host) -> Result<T, JsValue>) -> io::Result<T> {
    HOST.with_borrow(|host| match host {
        Some(host) => act(host).map_err(|error| {
            let message = error.dyn_ref::<js_sys::Error>().map(|error| String::from(error.message()));
            io::Error::other(message.unwrap_or_else(|| format!("{error:?}")))
        }),
        None => Err(io::Error::other("there is no host")),
    })
}

/// A file that the worker reads.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct HostFile {
    number: u32,
    /// For messages.
    pub(super) name: String,
    bytes: f64,
}

impl HostFile {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Fills `into` with the bytes from `at` on.
    pub(super) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        match at.checked_add(into.len() as u64) {
            Some(end) if end <= self.bytes() => call(|host| host.read_file(self.number, at as f64, into)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads it from its start.
    pub(super) fn reader(&self) -> impl Read + Send + use<> {
        HostReader { file: self.number, at: 0, bytes: self.bytes() }
    }
}

struct HostReader {
    file: u32,
    at: u64,
    bytes: u64,
}

impl Read for HostReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = (self.bytes - self.at).min(into.len() as u64) as usize;
        if length > 0 {
            call(|host| host.read_file(self.file, self.at as f64, &mut into[..length]))?;
            self.at += length as u64;
        }
        Ok(length)
    }
}

/// The worker's room for intermediate data.
#[derive(Clone, Debug, Deserialize)]
pub struct Workspace {
    pub(super) number: u32,
    /// For messages.
    pub(super) name: String,
    /// Bytes, if it knows.
    pub(super) available: Option<f64>,
}

pub(super) fn create(workspace: u32) -> io::Result<u32> {
    call(|host| host.create(workspace))
}

pub(super) fn append(number: u32, bytes: &[u8]) -> io::Result<()> {
    call(|host| host.append(number, bytes))
}

pub(super) fn read_back(number: u32, at: u64, into: &mut [u8]) -> io::Result<()> {
    call(|host| host.read_back(number, at as f64, into))
}

/// Has the worker hear its messages, if it is time.
pub(super) struct Turns(Instant);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    pub(super) async fn give(&mut self) {
        if self.0.elapsed() < TURN {
            return;
        }
        let host = HOST.with_borrow(Clone::clone);
        if let Some(host) = host {
            // It has nothing to fail at.
            let _ = host.turn().await;
        }
        self.0 = Instant::now();
    }
}
