//! A Vulkan driver that fails when it is told to: what programs do then can be tested without pulling out a GPU.
//!
//! The Vulkan loader opens it by a driver file that names the library made of this. It passes everything on to another
//! driver, the library that `FAILING_DRIVER_OF` names, but for what the other two variables say:
//!
//! - `FAILING_DRIVER_DEVICES`: what becomes of the devices, in the order in which they are opened, with commas between;
//!   the last word is that of all further ones, too. `lives`; `refused`; or a number, of the work handed to its queue at
//!   which it is lost.
//! - `FAILING_DRIVER_MEMORY`: bytes that a device has.

use std::env;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Any function; of which type is told by its name.
type Function = unsafe extern "C" fn();
type GetProcAddr = unsafe extern "C" fn(*mut c_void, *const c_char) -> Option<Function>;
type CreateDevice = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut *mut c_void) -> i32;
type QueueSubmit = unsafe extern "C" fn(*mut c_void, u32, *const c_void, u64) -> i32;
type AllocateMemory = unsafe extern "C" fn(*mut c_void, *const AllocateInfo, *const c_void, *mut u64) -> i32;

/// `VkMemoryAllocateInfo`.
#[repr(C)]
struct AllocateInfo {
    kind: i32,
    next: *const c_void,
    size: u64,
    memory_type: u32,
}

const OUT_OF_DEVICE_MEMORY: i32 = -2;
const INITIALIZATION_FAILED: i32 = -3;
const DEVICE_LOST: i32 = -4;

/// Devices opened, or refused.
static DEVICES: AtomicUsize = AtomicUsize::new(0);
/// Times that something may still be handed to the queue of the device opened last.
static SUBMISSIONS_LEFT: AtomicI64 = AtomicI64::new(0);
/// Bytes that it has left. They do not come back: a run allocates all that it needs once.
static MEMORY_LEFT: AtomicI64 = AtomicI64::new(0);

/// The functions of the other driver that are not passed on as they are.
static CREATE_DEVICE: OnceLock<CreateDevice> = OnceLock::new();
static GET_DEVICE_PROC_ADDR: OnceLock<GetProcAddr> = OnceLock::new();
static QUEUE_SUBMIT: OnceLock<QueueSubmit> = OnceLock::new();
static ALLOCATE_MEMORY: OnceLock<AllocateMemory> = OnceLock::new();

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function that the other driver's library exports.
fn exported(name: &CStr) -> *mut c_void {
    const NOW: i32 = 2;
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let file = env::var("FAILING_DRIVER_OF").ok().and_then(|file| CString::new(file).ok());
        // SAFETY: the name is a string that lives that long; null is this program itself, which exports none of them.
        unsafe { dlopen(file.as_ref().map_or(std::ptr::null(), |file| file.as_ptr()), NOW) as usize }
    });
    // SAFETY: a library that was opened and is never closed, or none.
    unsafe { dlsym(*library as *mut c_void, name.as_ptr()) }
}

/// # Safety
/// As the loader calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> i32 {
    // SAFETY: the type of that name, or null, which is none.
    let negotiate: Option<unsafe extern "C" fn(*mut u32) -> i32> =
        unsafe { transmute(exported(c"vk_icdNegotiateLoaderICDInterfaceVersion")) };
    // SAFETY: as it was called.
    negotiate.map_or(INITIALIZATION_FAILED, |negotiate| unsafe { negotiate(version) })
}

/// # Safety
/// As the loader calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vk_icdGetPhysicalDeviceProcAddr(
    instance: *mut c_void,
    name: *const c_char,
) -> Option<Function> {
    // SAFETY: the type of that name, and called as this.
    unsafe {
        let get: Option<GetProcAddr> = transmute(exported(c"vk_icdGetPhysicalDeviceProcAddr"));
        get.and_then(|get| get(instance, name))
    }
}

/// # Safety
/// As the loader calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vk_icdGetInstanceProcAddr(
    instance: *mut c_void,
    name: *const c_char,
) -> Option<Function> {
    // SAFETY: functions are of the types that their names tell, and called as this.
    unsafe {
        let get: Option<GetProcAddr> = transmute(exported(c"vk_icdGetInstanceProcAddr"));
        let function = get?(instance, name)?;
        Some(match CStr::from_ptr(name).to_bytes() {
            b"vkCreateDevice" => {
                CREATE_DEVICE.get_or_init(|| transmute(function));
                transmute::<CreateDevice, Function>(create_device)
            }
            b"vkGetDeviceProcAddr" => {
                GET_DEVICE_PROC_ADDR.get_or_init(|| transmute(function));
                transmute::<GetProcAddr, Function>(get_device_proc_addr)
            }
            _ => replaced(name, function),
        })
    }
}

unsafe extern "C" fn get_device_proc_addr(device: *mut c_void, name: *const c_char) -> Option<Function> {
    // SAFETY: called as this.
    unsafe {
        let function = GET_DEVICE_PROC_ADDR.get()?(device, name)?;
        Some(replaced(name, function))
    }
}

/// The function of a device's name, or what stands in for it.
///
/// # Safety
/// The name must be a string, and the function of its type.
unsafe fn replaced(name: *const c_char, function: Function) -> Function {
    // SAFETY: the types that their names tell.
    unsafe {
        match CStr::from_ptr(name).to_bytes() {
            b"vkQueueSubmit" => {
                QUEUE_SUBMIT.get_or_init(|| transmute(function));
                transmute::<QueueSubmit, Function>(queue_submit)
            }
            b"vkAllocateMemory" => {
                ALLOCATE_MEMORY.get_or_init(|| transmute(function));
                transmute::<AllocateMemory, Function>(allocate_memory)
            }
            _ => function,
        }
    }
}

/// What becomes of a device.
fn fate(device: usize) -> String {
    let all = env::var("FAILING_DRIVER_DEVICES").unwrap_or_else(|_| "lives".into());
    let mut words = all.split(',').map(str::to_owned);
    words.nth(device).or_else(|| all.split(',').next_back().map(str::to_owned)).unwrap_or_default()
}

unsafe extern "C" fn create_device(
    adapter: *mut c_void,
    info: *const c_void,
    allocator: *const c_void,
    device: *mut *mut c_void,
) -> i32 {
    let fate = fate(DEVICES.fetch_add(1, Ordering::SeqCst));
    if fate == "refused" {
        return INITIALIZATION_FAILED;
    }
    let memory = env::var("FAILING_DRIVER_MEMORY").ok().and_then(|bytes| bytes.parse().ok());
    SUBMISSIONS_LEFT.store(fate.parse().unwrap_or(i64::MAX), Ordering::SeqCst);
    MEMORY_LEFT.store(memory.unwrap_or(i64::MAX), Ordering::SeqCst);
    // SAFETY: called as this.
    unsafe {
        CREATE_DEVICE.get().map_or(INITIALIZATION_FAILED, |create| create(adapter, info, allocator, device))
    }
}

unsafe extern "C" fn queue_submit(queue: *mut c_void, count: u32, work: *const c_void, fence: u64) -> i32 {
    if SUBMISSIONS_LEFT.fetch_sub(1, Ordering::SeqCst) <= 0 {
        return DEVICE_LOST;
    }
    // SAFETY: called as this.
    unsafe { QUEUE_SUBMIT.get().map_or(DEVICE_LOST, |submit| submit(queue, count, work, fence)) }
}

unsafe extern "C" fn allocate_memory(
    device: *mut c_void,
    info: *const AllocateInfo,
    allocator: *const c_void,
    memory: *mut u64,
) -> i32 {
    // SAFETY: the caller's, of that type; called as this.
    unsafe {
        let left = |left: i64| left.checked_sub_unsigned((*info).size).filter(|left| *left >= 0);
        if MEMORY_LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
            return OUT_OF_DEVICE_MEMORY;
        }
        ALLOCATE_MEMORY
            .get()
            .map_or(OUT_OF_DEVICE_MEMORY, |allocate| allocate(device, info, allocator, memory))
    }
}
