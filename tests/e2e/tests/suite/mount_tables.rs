//! The tables of mounts and those of mappings, which are files of Culvert's own.

use culvert_e2e::on_each_driver;

on_each_driver! {
    changes_of_the_mount_table_are_told |case| {
        let program = case.program("mount_tables.py");
        case.good(&format!("exec python3 {program}"));
    };

    files_of_mappings_say_what_is_mapped |case| {
        let program = case.program("maps_files.py");
        case.good(&format!("exec python3 {program}"));
    };
}
