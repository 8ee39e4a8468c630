//! Every call that changes something is refused as on any read-only mount, errno for errno.

use culvert_e2e::as_each_user;

as_each_user! {
    changing_calls_are_refused |case| {
        if !case.native_is_read_only() {
            eprintln!("not compared: without unshare(1) there is no read-only mount to compare with");
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
            "cd $M
             touch new; touch hello.txt; mkdir d; rm hello.txt; rm -rf dir; rmdir dir/empty-dir; mv hello.txt other; cp hello.txt copy; ln -s a b; ln hello.txt hard2
             chmod 600 hello.txt; echo x >> hello.txt; echo x > new; truncate -s 0 hello.txt; mkfifo p; dd if=/dev/zero of=new count=1 status=none; tee hello.txt </dev/null; sed -i s/a/b/ hello.txt 2>&1 | cut -c 1-39
             mv hello.txt $W/moved; ls $W; cp -a dir $W/copy && find $W | sort",
        );
    };
}
