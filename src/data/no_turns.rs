//! Work that others wait for, where nobody does: natively there are threads.

/// What in browsers lets the worker hear its messages now and then.
pub(super) struct Turns;

impl Turns {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) async fn give(&mut self) {}
}
