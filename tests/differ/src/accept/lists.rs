//! Lists of directories that may differ.

use crate::mount::Mount;
use crate::program::{Program, Step};

/// Whether the lists of `step`, natively and on `mount`, differ as they may.
pub fn lists_alike(
    program: &Program,
    step: &Step,
    mount: &Mount,
    (native, ours): (&str, &str),
) -> bool {
    let specification = super::specification::of(mount).unwrap_or_default();
    let does = |operation: &str| step.words.iter().any(|word| word == operation);
    let lists = ["list", "opendir", "rest"].into_iter().any(does);
    if !lists || !specification.contains("type=plfs") {
        return false;
    }
    are_of_other_types(program, native, ours)
        || does("rest") && natively_one_less(program, native, ours)
}

/// Containers are directories of the back end. Who may read the directory above, and not search it,
/// cannot look whether they are containers.
fn are_of_other_types(program: &Program, native: &str, ours: &str) -> bool {
    let alike = |(native, ours): (&str, &str)| {
        native == ours
            || native
                .strip_suffix(":8")
                .is_some_and(|name| ours.strip_suffix(":4") == Some(name))
    };
    let (native, ours): (Vec<_>, Vec<_>) = (native.split(' ').collect(), ours.split(' ').collect());
    program.nobody && native.len() == ours.len() && native.into_iter().zip(ours).all(alike)
}

/// tmpfs leaves names out of a list in pieces when another name, which was renamed over a file
/// meanwhile and so got its position, is removed (Linux 6.18; POSIX wants them): ours has each once.
fn natively_one_less(program: &Program, native: &str, ours: &str) -> bool {
    let renames = |step: &Step| step.words.iter().any(|word| word.starts_with("rename"));
    let (mut rest, mut last) = (native.split(' ').peekable(), "");
    let once = ours.split(' ').all(|word| {
        rest.next_if_eq(&word);
        core::mem::replace(&mut last, word) != word
    });
    program.steps.iter().any(renames) && once && rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(program: &str, native: &str, ours: &str) -> bool {
        let program: Program = program.parse().unwrap();
        let (step, mount) = (program.steps.last().unwrap(), "plfs".parse().unwrap());
        lists_alike(&program, step, &mount, (native, ours))
    }

    #[test]
    fn names_are_there_once() {
        let renames = "0 rename l d/g\n0 rest c";
        let native = "9 ok .:4 ..:4 e:4";
        assert!(alike(renames, native, "9 ok .:4 ..:4 e:4 up:10"));
        assert!(
            !alike(renames, native, "9 ok .:4 ..:4 up:10"),
            "e is missing"
        );
        assert!(
            !alike(renames, native, "9 ok .:4 ..:4 e:4 e:4"),
            "e is there twice"
        );
        assert!(!alike("0 rest c", native, "9 ok .:4 ..:4 e:4 up:10"));
        assert!(!alike(renames, "9 -ENOENT", "9 ok .:4 ..:4"));
    }

    #[test]
    fn containers_may_be_directories_to_who_may_not_search() {
        let (program, native) = ("#! user nobody\n0 list cwd d 4096", "9 ok ok .:4 g:8");
        assert!(alike(program, native, "9 ok ok .:4 g:4"));
        assert!(!alike(program, native, "9 ok ok .:4 g:10"));
        assert!(!alike(program, native, "9 ok ok .:4 h:4"));
        assert!(!alike("0 list cwd d 4096", native, "9 ok ok .:4 g:4"));
        assert!(!alike(
            "#! user nobody\n0 list cwd d 4096",
            "9 g:4",
            "9 g:8"
        ));
    }
}
