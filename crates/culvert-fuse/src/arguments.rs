//! Words of a command line: `fuse_opt.h`.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_opt.h.

use crate::log;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_ulong, c_void},
    ptr,
};

/// `struct fuse_opt`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    pub template: *const c_char,
    pub offset: c_ulong,
    pub value: c_int,
}

/// `struct fuse_args`.
#[repr(C)]
#[derive(Debug)]
pub struct Args {
    pub argc: c_int,
    pub argv: *mut *mut c_char,
    pub allocated: c_int,
}

/// `fuse_opt_proc_t`.
pub type Proc = unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *mut Args) -> c_int;

pub const KEY_OPT: c_int = -1;
pub const KEY_NONOPT: c_int = -2;
const KEY_KEEP: c_int = -3;
const KEY_DISCARD: c_int = -4;
/// No place of the caller's: the value is a key.
const NO_OFFSET: c_ulong = u32::MAX as c_ulong;

impl Args {
    pub const NONE: Self = Self {
        argc: 0,
        argv: ptr::null_mut(),
        allocated: 0,
    };

    /// The words.
    ///
    /// # Safety
    /// They are what the header says.
    pub unsafe fn words<'a>(&self) -> Vec<&'a CStr> {
        let word = |at: c_int| CStr::from_ptr(*self.argv.offset(at as isize));
        (0..self.argc).map(word).collect()
    }
}

/// `text` in memory of malloc(3).
fn copied(text: &[u8]) -> *mut c_char {
    // SAFETY: as many bytes as are written.
    unsafe {
        let place = libc::malloc(text.len() + 1).cast::<u8>();
        if !place.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
            *place.add(text.len()) = 0;
        }
        place.cast()
    }
}

#[unsafe(export_name = "culvert_fuse_opt_free_args")]
pub unsafe extern "C" fn free_args(args: *mut Args) {
    let Some(args) = args.as_mut() else { return };
    if args.allocated != 0 && !args.argv.is_null() {
        for at in 0..args.argc {
            libc::free((*args.argv.offset(at as isize)).cast());
        }
        libc::free(args.argv.cast());
    }
    *args = Args::NONE;
}

#[unsafe(export_name = "culvert_fuse_opt_add_arg")]
pub unsafe extern "C" fn add_arg(args: *mut Args, word: *const c_char) -> c_int {
    insert_arg(args, (*args).argc, word)
}

#[unsafe(export_name = "culvert_fuse_opt_insert_arg")]
pub unsafe extern "C" fn insert_arg(args: *mut Args, at: c_int, word: *const c_char) -> c_int {
    let args = &mut *args;
    if at < 0 || at > args.argc {
        return -1;
    }
    if args.allocated == 0 {
        // The words are the caller's own; from here on they are ours.
        let words = args.words();
        let place = libc::calloc(words.len() + 1, size_of::<usize>()).cast::<*mut c_char>();
        if place.is_null() {
            return -1;
        }
        for (at, word) in words.iter().enumerate() {
            *place.add(at) = copied(word.to_bytes());
        }
        (args.argv, args.allocated) = (place, 1);
    }
    let size = (args.argc as usize + 2) * size_of::<usize>();
    let place = libc::realloc(args.argv.cast(), size).cast::<*mut c_char>();
    if place.is_null() {
        return -1;
    }
    args.argv = place;
    let word = libc::strdup(word);
    if word.is_null() {
        return -1;
    }
    let (at, rest) = (at as usize, (args.argc - at) as usize);
    ptr::copy(place.add(at), place.add(at + 1), rest);
    *place.add(at) = word;
    args.argc += 1;
    *place.add(args.argc as usize) = ptr::null_mut();
    0
}

unsafe fn append(options: *mut *mut c_char, option: &CStr, escape: bool) -> c_int {
    let mut text = Vec::new();
    if !(*options).is_null() {
        text.extend_from_slice(CStr::from_ptr(*options).to_bytes());
        text.push(b',');
    }
    for byte in option.to_bytes() {
        if escape && matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    libc::free((*options).cast());
    *options = copied(&text);
    if (*options).is_null() { -1 } else { 0 }
}

#[unsafe(export_name = "culvert_fuse_opt_add_opt")]
unsafe extern "C" fn add_opt(options: *mut *mut c_char, option: *const c_char) -> c_int {
    append(options, CStr::from_ptr(option), false)
}

#[unsafe(export_name = "culvert_fuse_opt_add_opt_escaped")]
unsafe extern "C" fn add_opt_escaped(options: *mut *mut c_char, option: *const c_char) -> c_int {
    append(options, CStr::from_ptr(option), true)
}

/// Where the value begins in what `template` matches; none: it does not match `word`.
fn matches(template: &[u8], word: &[u8]) -> Option<Option<usize>> {
    let separator = template.iter().position(|&byte| byte == b'=');
    let separator = separator.or_else(|| template.iter().position(|&byte| byte == b' '));
    if let Some(at) = separator
        && matches!(template.get(at + 1), None | Some(b'%'))
    {
        let length = at + usize::from(template[at] == b'=');
        if word.starts_with(&template[..length]) {
            return Some(Some(at));
        }
    }
    (template == word).then_some(None)
}

unsafe fn table<'a>(mut options: *const Opt) -> Vec<(&'a [u8], &'a Opt)> {
    let mut found = Vec::new();
    while !options.is_null() && !(*options).template.is_null() {
        let option = &*options;
        found.push((CStr::from_ptr(option.template).to_bytes(), option));
        options = options.add(1);
    }
    found
}

#[unsafe(export_name = "culvert_fuse_opt_match")]
unsafe extern "C" fn opt_match(options: *const Opt, word: *const c_char) -> c_int {
    let word = CStr::from_ptr(word).to_bytes();
    let found = table(options)
        .iter()
        .any(|(template, _)| matches(template, word).is_some());
    c_int::from(found)
}

struct Parser<'a> {
    table: Vec<(&'a [u8], &'a Opt)>,
    data: *mut c_void,
    function: Option<Proc>,
    out: Args,
    /// The string that another one replaces is freed.
    frees: bool,
    /// Those of `-o` that stay.
    options: *mut c_char,
}

impl Parser<'_> {
    unsafe fn keep(&mut self, word: &CStr, listed: bool) -> Option<()> {
        let done = match listed {
            true => append(&raw mut self.options, word, true),
            false => add_arg(&raw mut self.out, word.as_ptr()),
        };
        (done == 0).then_some(())
    }

    unsafe fn call(&mut self, word: &CStr, key: c_int, listed: bool) -> Option<()> {
        if key == KEY_DISCARD {
            return Some(());
        }
        if let Some(function) = self.function.filter(|_| key != KEY_KEEP) {
            match function(self.data, word.as_ptr(), key, &raw mut self.out) {
                -1 => return None,
                0 => return Some(()),
                _ => {}
            }
        }
        self.keep(word, listed)
    }

    unsafe fn one(
        &mut self,
        option: &Opt,
        at: Option<usize>,
        word: &CStr,
        listed: bool,
    ) -> Option<()> {
        if option.offset == NO_OFFSET || option.offset == c_ulong::MAX {
            return self.call(word, option.value, listed);
        }
        let place = self.data.cast::<u8>().add(option.offset as usize);
        let template = CStr::from_ptr(option.template).to_bytes_with_nul();
        let Some((at, format)) = at.and_then(|at| Some((at, template.get(at + 1..)?))) else {
            *place.cast::<c_int>() = option.value;
            return Some(());
        };
        if format.len() < 2 {
            *place.cast::<c_int>() = option.value;
            return Some(());
        }
        let value = at + usize::from(template[at] == b'=');
        let value = word.as_ptr().add(value);
        if format.get(1) == Some(&b's') {
            let place = place.cast::<*mut c_char>();
            let old = std::mem::replace(&mut *place, libc::strdup(value));
            if self.frees {
                libc::free(old.cast());
            }
            return (!(*place).is_null()).then_some(());
        }
        match libc::sscanf(value, format.as_ptr().cast(), place) {
            1 => Some(()),
            _ => {
                let word = word.to_string_lossy();
                log::say(&format!("invalid parameter in option `{word}'"));
                None
            }
        }
    }

    /// `word`; `next` gives the one behind it, where its value stands there.
    unsafe fn option(
        &mut self,
        word: &CStr,
        listed: bool,
        next: &mut dyn FnMut() -> Option<CString>,
    ) -> Option<()> {
        let mut known = false;
        for (template, option) in self.table.clone() {
            let Some(at) = matches(template, word.to_bytes()) else {
                continue;
            };
            known = true;
            let apart = |at: &usize| template[*at] == b' ' && word.to_bytes().len() == *at;
            match at.filter(apart) {
                Some(_) => {
                    let Some(value) = next() else {
                        let word = word.to_string_lossy();
                        log::say(&format!("missing argument after `{word}'"));
                        return None;
                    };
                    let both = [word.to_bytes(), value.to_bytes()].concat();
                    let both = CString::new(both).ok()?;
                    self.one(option, at, &both, listed)?;
                }
                None => self.one(option, at, word, listed)?,
            }
        }
        match known {
            true => Some(()),
            false => self.call(word, KEY_OPT, listed),
        }
    }

    unsafe fn list(&mut self, text: &[u8]) -> Option<()> {
        for option in split(text) {
            let option = CString::new(option).ok()?;
            self.option(&option, true, &mut || None)?;
        }
        Some(())
    }

    unsafe fn all(&mut self, words: &[&CStr]) -> Option<()> {
        let mut words = words.iter();
        if let Some(name) = words.next() {
            (add_arg(&raw mut self.out, name.as_ptr()) == 0).then_some(())?;
        }
        let mut behind: Option<c_int> = None;
        while let Some(&word) = words.next() {
            let bytes = word.to_bytes();
            if behind.is_some() || !bytes.starts_with(b"-") {
                self.call(word, KEY_NONOPT, false)?;
            } else if let Some(list) = bytes.strip_prefix(b"-o") {
                match list {
                    b"" => match words.next() {
                        Some(list) => self.list(list.to_bytes())?,
                        None => {
                            log::say("missing argument after `-o'");
                            return None;
                        }
                    },
                    list => self.list(list)?,
                }
            } else if bytes == b"--" {
                (add_arg(&raw mut self.out, word.as_ptr()) == 0).then_some(())?;
                behind = Some(self.out.argc);
            } else {
                let mut next = || words.next().map(|word| (*word).to_owned());
                self.option(word, false, &mut next)?;
            }
        }
        if !self.options.is_null() {
            let done = insert_arg(&raw mut self.out, 1, c"-o".as_ptr()) == 0
                && insert_arg(&raw mut self.out, 2, self.options) == 0;
            done.then_some(())?;
            behind = behind.map(|behind| behind + 2);
        }
        if behind == Some(self.out.argc) {
            self.out.argc -= 1;
            let last = self.out.argv.offset(self.out.argc as isize);
            libc::free((*last).cast());
            *last = ptr::null_mut();
        }
        Some(())
    }
}

/// The options of a list; a backslash takes the meaning of the byte behind it, or three octal
/// digits are a byte.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut one, mut rest) = (Vec::new(), Vec::new(), text);
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match (byte, behind) {
            (b',', _) => found.push(std::mem::take(&mut one)),
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                one.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            (b'\\', [next, after @ ..]) => {
                one.push(*next);
                rest = after;
            }
            (byte, _) => one.push(*byte),
        }
    }
    found.push(one);
    found.retain(|one| !one.is_empty());
    found
}

#[unsafe(export_name = "culvert_fuse_opt_parse_2")]
unsafe extern "C" fn parse_2(
    args: *mut Args,
    data: *mut c_void,
    options: *const Opt,
    function: Option<Proc>,
) -> c_int {
    parse_words(args, data, options, function, false)
}

#[unsafe(export_name = "culvert_fuse_opt_parse_3")]
pub unsafe extern "C" fn parse(
    args: *mut Args,
    data: *mut c_void,
    options: *const Opt,
    function: Option<Proc>,
) -> c_int {
    parse_words(args, data, options, function, true)
}

unsafe fn parse_words(
    args: *mut Args,
    data: *mut c_void,
    options: *const Opt,
    function: Option<Proc>,
    frees: bool,
) -> c_int {
    let Some(args) = args
        .as_mut()
        .filter(|args| args.argc > 0 && !args.argv.is_null())
    else {
        return 0;
    };
    let mut parser = Parser {
        table: table(options),
        data,
        function,
        frees,
        out: Args {
            allocated: 1,
            ..Args::NONE
        },
        options: ptr::null_mut(),
    };
    let done = parser.all(&args.words());
    libc::free(parser.options.cast());
    match done {
        Some(()) => {
            std::mem::swap(args, &mut parser.out);
            free_args(&raw mut parser.out);
            0
        }
        None => {
            free_args(&raw mut parser.out);
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_commas_without_a_backslash() {
        let want: [&[u8]; 3] = [b"a=b,c", b"d", b"eAf"];
        assert_eq!(split(b"a=b\\,c,,d,e\\101f"), want);
    }

    #[test]
    fn templates_match_words_and_values() {
        assert_eq!(matches(b"x=%s", b"x=1"), Some(Some(1)));
        assert_eq!(matches(b"-p %u", b"-p22"), Some(Some(2)));
        assert_eq!(matches(b"-p %u", b"-p"), Some(Some(2)));
        assert_eq!(matches(b"x", b"xy"), None);
        // A value in the template is that value.
        assert_eq!(matches(b"x=a", b"x=a"), Some(None));
        assert_eq!(matches(b"x=a", b"x=b"), None);
    }

    #[test]
    fn options_go_where_their_place_is_and_others_stay() {
        #[repr(C)]
        struct Data {
            port: u32,
            flag: c_int,
            name: *mut c_char,
        }
        unsafe extern "C" fn keep(
            _: *mut c_void,
            word: *const c_char,
            key: c_int,
            _: *mut Args,
        ) -> c_int {
            // SAFETY: a string.
            let word = unsafe { CStr::from_ptr(word) };
            c_int::from(!(key == KEY_NONOPT && word == c"source"))
        }
        let opt = |template: &'static CStr, offset: usize, value| Opt {
            template: template.as_ptr(),
            offset: offset as c_ulong,
            value,
        };
        let table = [
            opt(c"-p %u", 0, 0),
            opt(c"flag", 4, 7),
            opt(c"name=%s", 8, 0),
            Opt {
                template: ptr::null(),
                offset: 0,
                value: 0,
            },
        ];
        let words = [
            c"x",
            c"source",
            c"-p",
            c"22",
            c"-o",
            c"flag,a\\,b,name=n,c",
            c"-d",
            c"target",
        ];
        let mut pointers = words.map(|word| word.as_ptr().cast_mut());
        let mut args = Args {
            argc: words.len() as c_int,
            argv: pointers.as_mut_ptr(),
            allocated: 0,
        };
        let mut data = Data {
            port: 0,
            flag: 0,
            name: ptr::null_mut(),
        };
        // SAFETY: all are what the header says.
        let left: Vec<_> = unsafe {
            let done = parse(
                &raw mut args,
                (&raw mut data).cast(),
                table.as_ptr(),
                Some(keep),
            );
            assert_eq!((done, data.port, data.flag), (0, 22, 7));
            assert_eq!(CStr::from_ptr(data.name), c"n");
            libc::free(data.name.cast());
            args.words()
                .iter()
                .map(|word| word.to_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(left, ["x", "-o", "a\\,b,c", "-d", "target"]);
        // SAFETY: the words are its own.
        unsafe { free_args(&raw mut args) };
    }
}
