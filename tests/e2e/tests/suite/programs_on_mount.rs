//! Programs, libraries and interpreters that live on a mount.

use culvert_e2e::{Case, as_each_user, can_be_made, installed, on_each_driver};
use std::time::Duration;

/// Runs `script` in the directory mounted, where `bin` holds the programs `own` (shows what it
/// knows of its own file), `again` and `again-static`.
fn same(case: &Case, script: &str) {
    let [own, again, fixed] =
        ["own_file", "start_again", "start_again-static"].map(|name| case.program(name));
    case.good(&script!(
        "programs_on_mount/same.sh",
        own,
        again,
        fixed,
        script
    ));
}

on_each_driver! {
    a_program_knows_its_own_file |case| same(&case,
        script!("programs_on_mount/a_program_knows_its_own_file.sh"));

    a_program_starts_itself |case| same(&case,
        script!("programs_on_mount/a_program_starts_itself.sh"));

    a_file_that_becomes_a_program |case| same(&case,
        script!("programs_on_mount/a_file_that_becomes_a_program.sh"));

    // ext4 gives the number of a removed file to the next one at once.
    a_number_that_is_used_again |case| same(&case,
        script!("programs_on_mount/a_number_that_is_used_again.sh"));

    libraries_are_found |case| same(&case,
        script!("programs_on_mount/libraries_are_found.sh"));

    // What is in the source of a directory that is not bound is executed there.
    libraries_found_by_origin_are_named_by_the_mount |case| if case.driver() != Some(culvert_e2e::Driver::Passthrough) { same(&case,
        script!("programs_on_mount/libraries_found_by_origin_are_named_by_the_mount.sh")); };

    the_program_of_another_process |case| if case.driver() != Some(culvert_e2e::Driver::Passthrough) {
        same(&case, script!("programs_on_mount/the_program_of_another_process.sh"));
    };

    what_a_child_of_vfork_holds_survives_that_it_closes_all |case| same(&case,
        script!("programs_on_mount/what_a_child_of_vfork_holds_survives_that_it_closes_all.sh"));

    programs_without_a_c_library |case| same(&case,
        script!("programs_on_mount/programs_without_a_c_library.sh"));

    under_valgrind |case| if installed("valgrind") && case.driver() == Some(culvert_e2e::Driver::Driven) {
        same(&case, script!("programs_on_mount/under_valgrind.sh"));
    };

    scripts_and_their_interpreters |case| same(&case,
        script!(part "programs_on_mount/scripts_and_their_interpreters.sh"));

    an_interpreter_of_programs_on_the_mount |case| same(&case,
        script!("programs_on_mount/an_interpreter_of_programs_on_the_mount.sh"));

    a_program_changed_in_place_is_the_new_one |case| same(&case,
        script!("programs_on_mount/a_program_changed_in_place_is_the_new_one.sh"));

    what_is_executed_is_not_written_and_what_is_written_not_executed |case| {
        let busy = case.program("busy.py");
        case.good(&format!("python3 {busy} $M $(type -P busybox)"));
    };

    set_user_id_bits_mean_nothing_new |case| same(&case,
        "cp /usr/bin/id .; chmod u+s id; ./id -u; ./id -ru; chmod 6755 id; ./id -un");
}

/// An environment seen at `$M`, from an archive of this kind.
fn environment(case: Case, tree: &str, kind: &str, script: &str) {
    if can_be_made(tree) {
        case.limit(Duration::from_secs(120))
            .mount(tree, kind, "mnt")
            .good(script);
    }
}

as_each_user! {
    a_python_virtual_environment |case| environment(case.variable("PYTHONDONTWRITEBYTECODE", "1"), "venv", "tar.zst",
        script!("programs_on_mount/a_python_virtual_environment.sh"));

    a_java_development_kit |case| environment(case, "jdk", "zip",
        script!("programs_on_mount/a_java_development_kit.sh"));

    a_c_toolchain |case| environment(case, "toolchain", "tar",
        script!("programs_on_mount/a_c_toolchain.sh"));

    a_native_module_of_node |case| if installed("node") && installed("../include/node/node_api.h") {
        case.directory(culvert_e2e::Driver::Memory).good(
            script!("programs_on_mount/a_native_module_of_node.sh"));
    };
}

/// The kernel is given a copy of such a program, which must not run where the program itself would
/// not.
#[test]
fn one_without_the_right_to_execute_whose_interpreter_is_there() {
    let case = culvert_e2e::Case::new("programs-on-mount::refused", culvert_e2e::User::Me);
    case.directory(culvert_e2e::Driver::Passthrough)
        .good(script!(
            "programs_on_mount/one_without_the_right_to_execute_whose_interpreter_is_there.sh"
        ));
}
