//! The queue between the listener and the workers: first in, first out, of a fixed length.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// See the module.
pub struct Queue<T> {
    inner: Mutex<Inner<T>>,
    filled: Condvar,
    emptied: Condvar,
    length: usize,
}

struct Inner<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    /// One for `length` things.
    pub fn new(length: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                waiting: VecDeque::with_capacity(length),
                closed: false,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            length,
        }
    }

    /// Adds `one`; waits while the queue is full.
    pub fn push(&self, one: T) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |inner: &mut Inner<T>| inner.waiting.len() >= self.length && !inner.closed;
        let inner = self.emptied.wait_while(inner, full);
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        inner.waiting.push_back(one);
        drop(inner);
        self.filled.notify_one();
    }

    /// Takes the oldest; waits while the queue is empty. None: it was closed.
    pub fn pop(&self) -> Option<T> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = |inner: &mut Inner<T>| inner.waiting.is_empty() && !inner.closed;
        let inner = self.filled.wait_while(inner, empty);
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        let one = inner.waiting.pop_front().filter(|_| !inner.closed);
        drop(inner);
        self.emptied.notify_one();
        one
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.closed = true;
        drop(inner);
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_is_first_out() {
        let queue = Queue::new(3);
        for one in 1..=3 {
            queue.push(one);
        }
        let all: Vec<i32> = std::iter::from_fn(|| {
            let one = queue.pop();
            (one == Some(3)).then(|| queue.close());
            one
        })
        .collect();
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn a_full_queue_holds_up_the_listener_alone() {
        let queue = Queue::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|one| queue.push(one)));
            let all: Vec<i32> = (0..100).filter_map(|_| queue.pop()).collect();
            assert_eq!(all, (0..100).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_closed_queue_ends_its_workers() {
        let queue = Queue::<u8>::new(1);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| queue.pop())).collect();
            queue.close();
            for worker in workers {
                assert_eq!(worker.join().unwrap(), None);
            }
        });
    }
}
