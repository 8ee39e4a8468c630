//! What may differ, and why: nothing else may.

mod lists;
mod refusals;
mod specification;
mod steps;
mod words;

use crate::mount::Mount;
use crate::program::{Program, Step};
pub use lists::lists_alike;
pub use refusals::{ends, refused_alike};
use std::sync::OnceLock;
use steps::{KEEPS_LOCK_FILES, LEFT_OUT};
use words::ACCEPTED;
pub use words::times_alike;

/// The program as it is run on `mount` and natively, to be compared.
pub fn suited(program: &Program, mount: &Mount) -> Program {
    let Some(specification) = specification::of(mount) else {
        return program.clone();
    };
    let left_out = |step: &Step| LEFT_OUT.iter().any(|rule| rule.is(step, &specification));
    let mut program = program.clone();
    program.steps.retain(|step| !left_out(step));
    if specification.contains(KEEPS_LOCK_FILES) {
        suited_to_lock_files(&mut program);
        suited_to_order(&mut program);
    }
    if copies_to_itself(&specification) {
        program.steps.retain(|step| !sends_to_itself(step));
    }
    let elsewhere = ["layer=", "descriptor=no", "type=memory,kernel", "=memory:"];
    if elsewhere.iter().any(|part| specification.contains(part)) {
        suited_to_pages(&mut program);
    }
    program
}

/// Whether a file is sent to itself by reading and writing it.
fn copies_to_itself(specification: &str) -> bool {
    let kernel = specification.contains("kernel");
    ["type=plfs", "type=memory"]
        .iter()
        .any(|kind| specification.contains(kind) && !kernel)
}

/// A sendfile(2) from a descriptor to itself: what comes of parts that overlap is up to how the
/// kernel copies within a page, which it has in hand as the source while it fills it.
fn sends_to_itself(step: &Step) -> bool {
    let mut words = step.words.iter().skip_while(|word| *word != "sendfile");
    words.next().is_some() && words.next().is_some_and(|to| words.next() == Some(to))
}

/// Without locks where processes share a table of descriptors.
fn suited_to_lock_files(program: &mut Program) {
    let shares = |step: &Step| step.words.iter().any(|word| word == "clonefiles");
    if program.steps.iter().any(shares) {
        let locks = |step: &Step| step.words.iter().any(|word| word == "lock");
        program.steps.retain(|step| !locks(step));
    }
}

/// Without lists by small parts where a name needs a large one: which names come before it is the
/// file system's own affair.
fn suited_to_order(program: &mut Program) {
    let is_long = |step: &Step| step.words.iter().any(|word| word.contains(":255}"));
    if program.steps.iter().any(is_long) {
        let small = |word: &String| matches!(word.as_str(), "24" | "32" | "60" | "100" | "120");
        let lists = |step: &Step| {
            let mut words = step.words.iter();
            words.any(|word| word == "list" || word == "getdents") && words.any(small)
        };
        program.steps.retain(|step| !lists(step));
    }
}

/// What is different in programs that map files, where pages are brought and taken away by somebody
/// else than the kernel's own file system: what is stored behind the end of a file, in its last
/// page, may be gone when it is looked at again (mmap(2)), so that stores stay within the file; and
/// whether a hole that was loaded from is still a hole is tmpfs's own affair.
fn suited_to_pages(program: &mut Program) {
    if !program.steps.iter().any(|step| step.operation() == "map") {
        return;
    }
    let hole = |word: &String| matches!(word.as_str(), "SEEK_DATA" | "SEEK_HOLE");
    program.steps.retain(|step| !step.words.iter().any(hole));
    for word in program.steps.iter_mut().flat_map(|step| &mut step.words) {
        match word.as_str() {
            "store" => *word = "storewithin".to_owned(),
            "readinto" => *word = "readwithin".to_owned(),
            _ => {}
        }
    }
}

/// What else is left out of programs on a disk: what O_DIRECT wants aligned is the disk's own
/// affair; drivers do not ask for anything (open(2)).
pub fn suited_to_disk(program: &Program) -> Program {
    let direct = |word: &String| word.split('|').any(|flag| flag == "O_DIRECT");
    let mut program = program.clone();
    program.steps.retain(|step| !step.words.iter().any(direct));
    program
}

/// The type and mode of a file, `-2755`, without those bits; of bindfs's without the sticky one,
/// which it makes nothing with either.
pub fn without_set_id(word: &str, specification: &str) -> String {
    let digits = word.strip_prefix('-').filter(|digits| digits.len() == 4);
    let bits = match specification.contains("beside=bindfs") {
        true => 0o777,
        false => 0o1777,
    };
    match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) {
        Some(mode) => format!("-{:04o}", mode & bits),
        None => word.to_owned(),
    }
}

/// Whether the numbers of new descriptors are not compared: a descriptor that is kept open for the
/// sake of record locks, which its close would drop, may have a low one: a thread's, or those on a
/// file that is removed after exec.
pub fn shifts_numbers(program: &Program, mount: &Mount) -> bool {
    let is = |name: &str| {
        let has = |step: &Step| step.words.iter().any(|word| word == name);
        program.steps.iter().any(has)
    };
    let specification = specification::of(mount).unwrap_or_default();
    let is_left = is("thread") || is("exec") && refusals::removes(program);
    specification.contains(KEEPS_LOCK_FILES) && is("lock") && is_left
}

/// Whether `step` may have another result for that reason alone: a number that the program has not
/// may be that of a descriptor that is kept, and one that it has another one here.
pub fn is_shifted_number(step: &Step, (native, ours): (&str, &str)) -> bool {
    let has_not = |line: &str| line.split(' ').nth(1) == Some("-EBADF");
    has_not(native) || has_not(ours) && step.words.iter().any(|word| word.starts_with('#'))
}

/// Whether set-user-ID and set-group-ID of files are not compared, as what is stored into a mapping
/// gets to the driver as a write, which clears them.
pub fn stores_clear_set_id(program: &Program, mount: &Mount) -> bool {
    let maps = |step: &Step| step.words.iter().any(|word| word.starts_with("map"));
    let specification = specification::of(mount).unwrap_or_default();
    specification.contains("type=plfs") && program.steps.iter().any(maps)
}

/// A line without the words whose difference is accepted for `mount`.
pub fn without_accepted(line: &str, mount: &Mount) -> String {
    let specification = specification::of(mount).unwrap_or_default();
    // Of a removed file those bits are shown alone: nothing can be done with them any more.
    let is_removed = line.split(' ').any(|word| word == "nlink=0");
    let set_id = specification::clears_set_id(&specification)
        || is_removed && specification.contains("type=plfs");
    let is_directory = |word: &str| {
        let digits = word.strip_prefix('d').unwrap_or_default();
        digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let links = specification::adds_links(&specification) && line.split(' ').any(is_directory);
    line.split(' ')
        .filter(|word| !links || !word.starts_with("nlink="))
        .filter(|word| {
            !ACCEPTED.iter().any(|accepted| {
                specification.contains(accepted.mount) && word.starts_with(accepted.word)
            })
        })
        .filter(|word| !by_hand().iter().any(|ignored| word.starts_with(ignored)))
        .map(|word| match set_id {
            true => without_set_id(word, &specification),
            false => word.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Beginnings of words that whoever runs the fuzzer by hand looks past, to see what else there is
/// behind a known defect: `DIFFER_IGNORE=fd=,id=`. The tests never set it.
fn by_hand() -> &'static [String] {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        std::env::var("DIFFER_IGNORE")
            .unwrap_or_default()
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_kept_are_no_numbers() {
        let shifted = |text: &str, lines| {
            let program: Program = text.parse().expect("a program");
            is_shifted_number(&program.steps[0], lines)
        };
        assert!(shifted("0 fstat a", ("0 -EBADF", "0 0")));
        assert!(shifted("0 spawn none fstat #7", ("0 0", "0 -EBADF")));
        assert!(!shifted("0 fstat a", ("0 0", "0 -EBADF")));
        assert!(!shifted("0 fstat #7", ("0 0", "0 -EIO")));
    }
}
