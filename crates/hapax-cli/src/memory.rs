//! Who gives out memory: mimalloc. Records and requests are allocated in one thread and freed in another all the time, which glibc's arenas do
//! not like.
//!
//! On Linux it takes the place of `malloc`, which the standard library asks without an alignment wherever the usual one will do. As a
//! [`GlobalAlloc`](std::alloc::GlobalAlloc) it would be asked with one each time, takes a longer way then for much that is not a power of two, and
//! has it freed on a longer way, too.

/// Names it once: what nobody names, the linker leaves out.
#[cfg(target_os = "linux")]
pub(crate) fn link() {
    std::hint::black_box(mimalloc::MiMalloc.version());
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn link() {}

#[cfg(not(target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
