//! inotify(7) on mounts, by `programs/watching.py` and by programs that people watch with.

use culvert_e2e::{Case, Driver, User, installed, on_each_driver, world};

/// Runs one part of the program in the mount. On `driven` the watch is on the directory behind it,
/// where the driver's own calls are told beside the program's: it opens directories at other times,
/// and keeps a removed node a little longer; so there the events of each operation are compared as
/// a set, without those.
fn part(case: &Case, name: &str) {
    let own_calls = match case.driver() {
        Some(Driver::Driven | Driver::NoDescriptor) => "sets",
        Some(Driver::Union | Driver::Casefold) => "sets names",
        _ => "",
    };
    let program = case.program("watching.py");
    case.good(&format!("cd $M && python3 {program} {name} {own_calls}"));
}

on_each_driver! {
    what_a_process_does_is_told |case: Case| part(&case, "here");
    what_a_child_does_is_told |case: Case| part(&case, "forked");
    what_other_programs_do_is_told |case: Case| part(&case, "programs");
    flags_errors_and_the_descriptor |case: Case| part(&case, "rules");
    who_may_watch |case: Case| part(&case, "users");
    files_opened_before_they_were_watched |case: Case| {
        // There no directory is open that was opened before: see `part`.
        if case.driver() != Some(Driver::Driven) {
            part(&case, "late");
        }
    };
    many_processes_in_one_directory |case: Case| part(&case, "crowd");
    files_opened_between_vfork_and_exec |case: Case| part(&case, "spawned");

    inotifywait |case: Case| {
        if installed("inotifywait") {
            // It says when it watches, and the last event ends it; what it does itself, opening
            // directories to watch them, is not asked for.
            case.good(
                script!("watching/inotifywait.sh"),
            );
        }
    };

    tail_follows |case: Case| {
        // Each step waits for the line of the one before. Without inotify it says that it looks
        // again and again.
        case.good(
            script!("watching/tail_follows.sh"),
        );
    };

    node_watches |case: Case| {
        if installed("node") {
            let script = "
                const fs = require('fs');
                fs.mkdirSync('d');
                fs.writeFileSync('d/old', 'text');
                const watcher = fs.watch('d', (event, name) => {
                    console.log(event, name);
                    if (name === 'end') { watcher.close(); process.exit(0); }
                });
                fs.writeFileSync('d/new', 'text'); fs.appendFileSync('d/old', 'more'); \
                fs.renameSync('d/new', 'd/moved');
                fs.unlinkSync('d/old'); fs.writeFileSync('d/end', '');";
            case.good(&format!("cd $M && node -e \"{script}\""));
        }
    };
}

/// Files whose bytes only the driver has, and a layer, which has no node of the kernel's.
#[test]
fn without_descriptors_and_through_a_layer() {
    let case = Case::new("watching-without", User::Me).directory(Driver::NoDescriptor);
    // Another program that inherits such a file looks for it in the whole tree, which is told.
    for which in ["here", "forked", "rules"] {
        part(&case, which);
    }
    let case = Case::new("watching-layered", User::Me).directory(Driver::Layered);
    for which in ["here", "programs", "rules"] {
        part(&case, which);
    }
}

/// Files are the kernel's there, directories nobody's but the run's: what is done to bytes is told
/// to who watches the file, and all else to who watches the directory, too, whichever process does
/// it.
#[test]
fn unions_and_names_in_any_case() {
    for driver in [Driver::Union, Driver::Casefold] {
        let case = Case::new("watching-names", User::Me).directory(driver);
        for which in ["here", "forked", "programs", "crowd", "spawned"] {
            part(&case, which);
        }
    }
}

/// What happens to a tree that never changes is that it is read.
#[test]
fn archives_are_read() {
    let case = Case::new("watching-archive", User::Me).odd();
    let program = case.program("watching.py");
    case.good(&format!("cd $M && python3 {program} immutable"));
}

/// fanotify(7) on a mount would be about the directory below it.
#[test]
fn fanotify_is_refused_with_a_reason() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Driven, Driver::Memory] {
        let case = Case::new("watching-fanotify", User::Me).directory(driver);
        let done = case.through_culvert(&[
            "bash",
            "-c",
            script!("watching/fanotify_is_refused_with_a_reason.sh"),
        ]);
        assert_eq!(
            done.text(),
            "-1 Operation not supported\n",
            "{}",
            done.report()
        );
    }
}
