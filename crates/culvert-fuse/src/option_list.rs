//! Options that this library takes from a command line.

use crate::arguments::{self, Args, KEY_NONOPT};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
};

/// What becomes of a word.
pub enum Taken {
    Mine,
    Others,
    Wrong,
}

/// A word of a command line: an option, `-x` or of `-o`, or none.
pub enum Word<'a> {
    Option(&'a str),
    Other(&'a CStr),
}

type Function<'a> = dyn FnMut(Word<'_>) -> Taken + 'a;

/// Gives each word of `args` to `function`; what is its own goes. False: one was wrong.
///
/// # Safety
/// `args` is what the header says.
pub unsafe fn take(args: *mut Args, function: &mut Function<'_>) -> bool {
    unsafe extern "C" fn each(
        data: *mut c_void,
        word: *const c_char,
        key: c_int,
        _: *mut Args,
    ) -> c_int {
        // SAFETY: what `take` has given, and a string.
        let (function, word) =
            unsafe { (&mut *data.cast::<&mut Function<'_>>(), CStr::from_ptr(word)) };
        let taken = match word.to_str() {
            _ if key == KEY_NONOPT => function(Word::Other(word)),
            Ok(text) => function(Word::Option(text)),
            // It may be an option of others, whose value need be no text.
            Err(_) => {
                let text = word.to_string_lossy();
                match function(Word::Option(&text)) {
                    Taken::Mine => {
                        crate::log::say(&format!("option `{text}' is not UTF-8"));
                        Taken::Wrong
                    }
                    taken => taken,
                }
            }
        };
        match taken {
            Taken::Mine => 0,
            Taken::Others => 1,
            Taken::Wrong => -1,
        }
    }
    let mut function: &mut Function<'_> = function;
    let data = (&raw mut function).cast();
    // SAFETY: the caller's; `each` knows what `data` is.
    unsafe { arguments::parse(args, data, ptr::null(), Some(each)) == 0 }
}

/// The number that option `word` gives to `name`; none: it is another option. Wrong numbers are an
/// error that was said.
pub fn number<T: std::str::FromStr>(word: &str, name: &str) -> Option<Result<T, ()>> {
    let value = word.strip_prefix(name)?.strip_prefix('=')?;
    Some(value.parse().map_err(|_| {
        crate::log::say(&format!("invalid parameter in option `{word}'"));
    }))
}
