//! Numbers for what is open: the `fh` of requests.

use std::sync::{Arc, Mutex, PoisonError};

/// Open things by number. A number is used again when its thing is gone.
#[derive(Debug)]
pub struct Handles<T> {
    table: Mutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    places: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        let (places, free) = (Vec::new(), Vec::new());
        Self {
            table: Mutex::new(Table { places, free }),
        }
    }
}

impl<T> Handles<T> {
    fn table(&self) -> std::sync::MutexGuard<'_, Table<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `value`; its number. 0 is none: the kernel sends it where there was no open.
    pub fn insert(&self, value: T) -> u64 {
        let mut table = self.table();
        let value = Some(Arc::new(value));
        let index = match table.free.pop() {
            Some(index) => {
                table.places[index] = value;
                index
            }
            None => {
                table.places.push(value);
                table.places.len() - 1
            }
        };
        index as u64 + 1
    }

    /// Keeps `value` by the number that it had before, in a table that is being made anew.
    pub fn insert_as(&self, number: u64, value: T) {
        let Some(index) = number
            .checked_sub(1)
            .and_then(|at| usize::try_from(at).ok())
        else {
            return;
        };
        let mut table = self.table();
        while table.places.len() <= index {
            let next = table.places.len();
            table.places.push(None);
            table.free.push(next);
        }
        table.places[index] = Some(Arc::new(value));
        table.free.retain(|&free| free != index);
    }

    /// What has this number.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.table().places.get(index)?.clone()
    }

    /// Gives the number back; what had it.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let mut table = self.table();
        let value = table.places.get_mut(index)?.take()?;
        table.free.push(index);
        if table.free.len() == table.places.len() {
            // None is left: the memory goes, and numbers begin again.
            *table = Table {
                places: Vec::new(),
                free: Vec::new(),
            };
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_when_given_back() {
        let handles = Handles::default();
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
    fn numbers_are_kept_from_table_to_table() {
        let handles = Handles::default();
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
