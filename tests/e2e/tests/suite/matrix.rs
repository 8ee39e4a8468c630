//! The process matrix: every way of making a child, of executing, of handing a descriptor over and
//! of using it, in a directory of the kernel and through each driver.

use culvert_e2e::{Case, Driver, User, world};
use std::collections::BTreeMap;
use std::time::Duration;

/// Cells of `programs/matrix.c`: 6 ways of making a child, 4 of executing, 5 of handing over, 10 of
/// using; posix_spawn always executes.
const CELLS: usize = 6 * 4 * 5 * 10 - 5 * 10;

/// Drivers that are called for every operation.
const CALLED: &[Driver] = &[
    Driver::Driven,
    Driver::NoDescriptor,
    Driver::Memory,
    Driver::Backed,
];

/// Cells that are not what they are natively: drivers, words that the cell's name holds, and why.
/// docs/SEMANTICS.md says so too.
const DIFFERENT: &[(&[Driver], &[&str], &str)] = &[
    (
        CALLED,
        &["/static/", "/scm_rights/directory"],
        "what a program that nobody intercepts gets through a socket was not made for it: ENOTDIR \
        for a directory that only a driver can list",
    ),
    (
        &[Driver::Memory],
        &["/static/", "/shared"],
        script!("matrix/script.sh"),
    ),
    (
        &[Driver::NoDescriptor],
        &["vfork/none/", "/shared"],
        "a child of vfork gets no new shared mapping that can be written: ENODEV",
    ),
];

/// A program that nobody intercepts lists a directory that only a driver can list from where its
/// parent was, and does not move the parent: what it has read the parent reads, too.
fn position_is_its_own(driver: Driver, name: &str) -> bool {
    CALLED.contains(&driver) && name.contains("/static/") && name.contains("/directory")
}

/// What a cell of those has to have in common with the native one: what the child found, and that
/// nothing is missing.
fn without_position(found: &str) -> (&str, bool) {
    let child = found.split("; after").next().unwrap_or(found);
    (child, found.contains(" missing 0 "))
}

fn matrix(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let case = Case::new(&format!("matrix-{}-{user:?}", driver.name()), user)
        .directory(driver)
        .limit(Duration::from_secs(120));
    let (program, fixed) = (case.program("matrix"), case.program("matrix-static"));
    let script = script!("matrix/matrix.sh", program, fixed);
    let (native, ours) = (
        case.natively(&["bash", "-c", &script]),
        case.through_culvert(&["bash", "-c", &script]),
    );
    let cells = |text: &str| -> BTreeMap<String, String> {
        text.lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, found)| (name.to_owned(), found.to_owned()))
            .collect()
    };
    let (expected, found) = (cells(&native.text()), cells(&ours.text()));
    assert_eq!(expected.len(), CELLS, "{}", native.report());
    let mut report = Vec::new();
    for (name, expected) in &expected {
        let explained = DIFFERENT.iter().any(|(drivers, words, _)| {
            drivers.contains(&driver) && words.iter().all(|word| name.contains(word))
        });
        match found.get(name) {
            Some(found) if found == expected => {}
            Some(found)
                if position_is_its_own(driver, name)
                    && without_position(found) == without_position(expected) => {}
            _ if explained => {}
            found => report.push(format!(
                "{name}\n  native:  {expected}\n  culvert: {}\n",
                found.map_or("NOT REACHED", String::as_str)
            )),
        }
    }
    assert!(
        report.is_empty(),
        "{} cells differ\n{}\n[{}]\n{}",
        report.len(),
        report[..report.len().min(40)].concat(),
        ours.status,
        ours.errors()
    );
    assert_eq!(ours.status, native.status, "{}", ours.report());
}

macro_rules! matrix {
    ($($name:ident $driver:ident $user:ident;)*) => {
        mod cells { $(
            #[test]
            fn $name() { super::matrix(super::Driver::$driver, super::User::$user); }
        )* }
    };
}

matrix! {
    passthrough_as_self Passthrough Me;
    passthrough_as_nobody Passthrough Nobody;
    bound_as_self Bound Me;
    driven_as_self Driven Me;
    driven_as_nobody Driven Nobody;
    no_descriptor_as_self NoDescriptor Me;
    no_descriptor_as_nobody NoDescriptor Nobody;
    backed_as_self Backed Me;
    backed_as_nobody Backed Nobody;
    memory_as_self Memory Me;
    memory_as_nobody Memory Nobody;
}
