//! Numbers for what is open: the `fh` of requests.

use std::sync::{Arc, Mutex, PoisonError};

/// Open things by number: a place, from 1, below the server that gave the number. A place is used
/// again when its thing is gone, and no server gives a number that another one has given: what the
/// kernel still means by that is not known to be gone (a request that comes again, a file of which
/// nothing was written down).
#[derive(Debug)]
pub struct Handles<T> {
    server: u32,
    table: Mutex<Places<T>>,
}

#[derive(Debug)]
struct Places<T> {
    places: Vec<Option<(u64, Arc<T>)>>,
    free: Vec<usize>,
}

/// The place of `number`, from 1.
pub const fn place(number: u64) -> u64 {
    number & u32::MAX as u64
}

impl<T> Handles<T> {
    /// Nothing is open; numbers are given by `server`, one of a connection's.
    pub const fn new(server: u32) -> Self {
        Self {
            server,
            table: Mutex::new(Places {
                places: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Places<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `value`; its number. 0 is none: the kernel sends it where there was no open.
    pub fn insert(&self, value: T) -> u64 {
        let mut table = self.table();
        let index = table.free.pop().unwrap_or_else(|| {
            table.places.push(None);
            table.places.len() - 1
        });
        let number = u64::from(self.server) << u32::BITS | (index as u64 + 1);
        table.places[index] = Some((number, Arc::new(value)));
        number
    }

    /// Keeps `value` by the number that an earlier server gave it, in a table that is being made
    /// anew.
    pub fn insert_as(&self, number: u64, value: T) {
        let Some(index) = index(number) else {
            return;
        };
        let mut table = self.table();
        while table.places.len() <= index {
            let next = table.places.len();
            table.places.push(None);
            table.free.push(next);
        }
        table.places[index] = Some((number, Arc::new(value)));
        table.free.retain(|&free| free != index);
    }

    /// What has this number.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        match self.table().places.get(index(number)?)? {
            Some((own, value)) if *own == number => Some(value.clone()),
            _ => None,
        }
    }

    /// Gives the number back; what had it.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        let index = index(number)?;
        let mut table = self.table();
        let place = table.places.get_mut(index)?;
        let (_, value) = place.take_if(|(own, _)| *own == number)?;
        table.free.push(index);
        if table.free.len() == table.places.len() {
            // None is left: the memory goes, and places begin again.
            *table = Places {
                places: Vec::new(),
                free: Vec::new(),
            };
        }
        Some(value)
    }
}

/// Where a thing of this number stands.
fn index(number: u64) -> Option<usize> {
    usize::try_from(place(number).checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_when_given_back() {
        let handles = Handles::new(0);
        let (first, second) = (handles.insert("first"), handles.insert("second"));
        assert_ne!(first, second);
        assert_ne!(first, 0);
        assert_eq!(handles.remove(first).as_deref(), Some(&"first"));
        assert!(handles.get(first).is_none() && handles.remove(first).is_none());
        assert_eq!(handles.insert("third"), first);
        assert_eq!(handles.get(second).as_deref(), Some(&"second"));
        assert!(handles.get(0).is_none() && handles.get(u64::MAX).is_none());
    }

    #[test]
    fn no_number_of_another_server_is_given() {
        let first = Handles::new(1);
        let numbers = [first.insert("a"), first.insert("b"), first.insert("lost")];
        let second = Handles::new(2);
        second.insert_as(numbers[1], "b");
        // In the places of those that are not there any more.
        let others = [second.insert("c"), second.insert("d")];
        assert!(others.iter().all(|other| !numbers.contains(other)));
        assert_eq!(others.map(place), [1, 3]);
        for gone in [numbers[0], numbers[2]] {
            assert!(second.get(gone).is_none() && second.remove(gone).is_none());
        }
        assert_eq!(second.get(numbers[1]).as_deref(), Some(&"b"));
        assert_eq!(second.get(others[1]).as_deref(), Some(&"d"));
    }

    #[test]
    fn numbers_are_kept_from_table_to_table() {
        let handles = Handles::new(0);
        handles.insert_as(3, "third");
        handles.insert_as(0, "none");
        assert_eq!(handles.get(3).as_deref(), Some(&"third"));
        let numbers = [
            handles.insert("a"),
            handles.insert("b"),
            handles.insert("c"),
        ];
        assert_eq!(numbers, [2, 1, 4]);
        for number in 1..=4 {
            handles.remove(number);
        }
        assert_eq!(handles.table().places.capacity(), 0);
    }
}
