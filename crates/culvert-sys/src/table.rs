//! How typed calls are written down: name, types and the order of the words in one place, so that
//! it can be compared with the manual page.

/// What goes into a register.
pub trait Word {
    /// As the kernel takes it: negative numbers with their sign.
    fn word(&self) -> usize;
}

macro_rules! words {
    ($($type:ty),*) => { $(impl Word for $type {
        #[inline]
        fn word(&self) -> usize {
            *self as usize
        }
    })* };
}
words!(i32, u32, i64, u64, usize);

impl<T> Word for *const T {
    #[inline]
    fn word(&self) -> usize {
        *self as usize
    }
}

impl<T> Word for *mut T {
    #[inline]
    fn word(&self) -> usize {
        *self as usize
    }
}

/// What comes back in a register.
pub trait Answer {
    /// As the kernel gives it, when it is no error.
    fn answer(result: usize) -> Self;
}

impl Answer for () {
    #[inline]
    fn answer(_: usize) {}
}

impl Answer for usize {
    #[inline]
    fn answer(result: usize) -> usize {
        result
    }
}

impl Answer for u64 {
    #[inline]
    fn answer(result: usize) -> u64 {
        result as u64
    }
}

impl Answer for u32 {
    #[inline]
    fn answer(result: usize) -> u32 {
        result as u32
    }
}

impl Answer for i32 {
    #[inline]
    fn answer(result: usize) -> i32 {
        result as i32
    }
}

/// Safe functions, each for one system call. Each line of a table answers for this: the kernel
/// reads and writes only what the arguments' types give it, strings end in NUL, and buffers come
/// with their length. `waiting` calls let other threads fork meanwhile ([`crate::waits`]); `by`
/// names an unsafe function like [`crate::syscall::call`] that makes them.
#[macro_export]
macro_rules! calls {
    (by $call:path: $($(#[$note:meta])* $vis:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty
        = $number:ident[$($word:expr),* $(,)?];)*) => { $(
        $(#[$note])*
        #[inline]
        $vis fn $name($($argument: $type),*) -> Result<$answer, $crate::Errno> {
            #[allow(unused_imports)]
            use $crate::table::Word;
            let (call, number, words) = ($call, $crate::nr::$number, [$($word.word()),*]);
            // SAFETY: the table's line: see `calls`.
            let result = unsafe { call(number, words) };
            result.map(<$answer as $crate::table::Answer>::answer)
        }
    )* };
    (waiting: $($table:tt)*) => { $crate::calls! { by $crate::waits::call: $($table)* } };
    ($($table:tt)*) => { $crate::calls! { by $crate::syscall::call: $($table)* } };
}
pub use calls;
