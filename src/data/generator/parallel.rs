//! Work on all cores whose results come in the order of the inputs, whatever the number of threads.

use crate::data::Error;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// Passes every input through a worker, `threads` of them at a time, and the results to `consume`, on this thread and in
/// order. Inputs are drawn by whichever worker is free, and no further ahead than memory should hold: two a thread.
///
/// # Errors
/// The first, in the order of the inputs, of an input, its work and its consumption.
pub(super) async fn ordered<I, O, W>(
    threads: usize,
    inputs: impl Iterator<Item = Result<I, Error>> + Send,
    worker: impl Fn() -> W + Sync,
    mut consume: impl FnMut(O) -> Result<(), Error>,
) -> Result<(), Error>
where
    O: Send,
    W: FnMut(I) -> Result<O, Error>,
{
    let queue = Queue {
        state: Mutex::new(State { inputs, next: 0, consumed: 0, closed: false }),
        changed: Condvar::new(),
        ahead: 2 * threads,
    };
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        let _close = CloseOnDrop(&queue);
        for _ in 0..threads.max(1) {
            let (sender, queue, worker) = (sender.clone(), &queue, &worker);
            scope.spawn(move || {
                // When this thread ends no input is left, or it panicked: others need not wait.
                let _close = CloseOnDrop(queue);
                let mut work = worker();
                while let Some((number, input)) = queue.take() {
                    if sender.send((number, input.and_then(&mut work))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut next = 0;
        for (number, result) in results {
            early.insert(number, result);
            while let Some(result) = early.remove(&next) {
                consume(result?)?;
                next += 1;
                queue.consumed(next);
            }
        }
        Ok(())
    })
}

struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// How many inputs may be under way.
    ahead: usize,
}

struct State<T> {
    inputs: T,
    next: usize,
    consumed: usize,
    closed: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn consumed(&self, count: usize) {
        self.lock().consumed = count;
        self.changed.notify_all();
    }

    /// The next input and its number; nothing after the last one, or after an error.
    fn take<I>(&self) -> Option<(usize, Result<I, Error>)>
    where
        T: Iterator<Item = Result<I, Error>>,
    {
        let mut state = self.lock();
        while !state.closed && state.next >= state.consumed + self.ahead {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        let input = state.inputs.next();
        state.closed = !matches!(input, Some(Ok(_)));
        let number = state.next;
        state.next += 1;
        input.map(|input| (number, input))
    }
}

struct CloseOnDrop<'a, T>(&'a Queue<T>);

impl<T> Drop for CloseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize, refuse: Option<usize>) -> (Vec<usize>, Result<(), Error>) {
        let mut all = Vec::new();
        let work = |n: usize| {
            // Early ones take longer.
            (0..(1000 - n) * 10).for_each(|n| {
                std::hint::black_box(n);
            });
            if refuse == Some(n) { Err(Error::Interrupted) } else { Ok(n * n) }
        };
        let consume = |square| {
            all.push(square);
            Ok(())
        };
        let result = pollster::block_on(ordered(threads, (0..1000).map(Ok), || work, consume));
        (all, result)
    }

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        let expected: Vec<usize> = (0..1000).map(|n| n * n).collect();
        for threads in [1, 2, 3, 8] {
            let (all, result) = squares(threads, None);
            assert!(result.is_ok() && all == expected, "{threads} threads");
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in [1, 2, 8] {
            let (all, result) = squares(threads, Some(400));
            assert!(matches!(result, Err(Error::Interrupted)));
            assert_eq!(all.len(), 400);
        }
        let inputs = (0..10).map(|n| if n == 3 { Err(Error::Interrupted) } else { Ok(n) });
        let mut count = 0;
        let consume = |_: i32| {
            count += 1;
            Ok(())
        };
        let result = pollster::block_on(ordered(2, inputs, || Ok, consume));
        assert!(matches!(result, Err(Error::Interrupted)) && count == 3);
    }

    #[test]
    #[should_panic]
    fn a_panic_of_a_worker_is_passed_on() {
        let work = |n: usize| if n == 5 { panic!("on purpose") } else { Ok(n) };
        let _ = pollster::block_on(ordered(3, (0..1000).map(Ok), || work, |_| Ok(())));
    }
}
