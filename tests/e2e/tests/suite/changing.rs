//! Every call that changes something is refused as on any read-only mount, errno for errno.

use culvert_e2e::as_each_user;

as_each_user! {
    changing_calls_are_refused |case| {
        if !case.native_is_read_only() {
            eprintln!("not compared: without unshare(1) there is no read-only mount to compare \
                with");
            return;
        }
        let case = case.odd();
        let changing = case.program("changing");
        case.good(&format!("cd $M && exec {changing} $W"));
    };

    shell_programs_say_so |case| {
        if !case.native_is_read_only() {
            return;
        }
        case.odd().script(
            script!("changing/shell_programs_say_so.sh"),
        );
    };
}
