//! Libraries with much static thread-local storage, which ld.so gives little room under an auditor.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};
use std::path::Path;

/// Compiles the program into `$W`: `large` and `small` need a library of that name, `foreign` uses
/// another's variable itself, `load` opens libraries.
const BUILD: &str = script!(part "static_tls/build.sh");

fn same(case: Case, script: &str) {
    let source = include_str!("../../programs/static_tls.c");
    case.variable("SOURCE", source)
        .good(&format!("{BUILD}{script}"));
}

as_each_user! {
    programs_get_the_room_that_they_have_natively |case| same(case.odd(),
        script!("static_tls/programs_get_the_room_that_they_have_natively.sh"));

    what_the_user_says_of_static_tls_stays |case| same(case.odd(),
        script!("static_tls/what_the_user_says_of_static_tls_stays.sh"));

    scripts_and_loaders_keep_their_arguments |case| same(case.odd(),
        script!("static_tls/scripts_and_loaders_keep_their_arguments.sh"));

    libraries_opened_later_find_as_much_room |case| same(case.odd(),
        script!("static_tls/libraries_opened_later_find_as_much_room.sh"));
}

on_each_driver! {
    of_a_program_on_a_mount |case| same(case,
        script!("static_tls/of_a_program_on_a_mount.sh"));
}

/// rustc's own libraries need 24 KB.
#[test]
fn rustc_compiles_without_any_variable() {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return;
    };
    let rustc = Path::new(&cargo).with_file_name("rustc");
    let case = Case::new("static-tls-rustc", User::Me).directory(Driver::Memory);
    case.good(&format!(
        "cd $M; echo 'fn main() {{ println!(\"compiled\"); }}' > p.rs; {} p.rs && ./p",
        rustc.display()
    ));
}
