//! Work one input after another: wasm has no threads here.

use crate::data::Error;
use crate::data::host::Turns;

/// Passes every input through a worker, and the results to `consume`. Others have their turn in between.
///
/// # Errors
/// The first of an input, its work and its consumption.
pub(super) async fn ordered<I, O, W>(
    _threads: usize,
    inputs: impl Iterator<Item = Result<I, Error>>,
    worker: impl Fn() -> W,
    mut consume: impl FnMut(O) -> Result<(), Error>,
) -> Result<(), Error>
where
    W: FnMut(I) -> Result<O, Error>,
{
    let (mut work, mut turns) = (worker(), Turns::new());
    for input in inputs {
        consume(work(input?)?)?;
        turns.give().await;
    }
    Ok(())
}
