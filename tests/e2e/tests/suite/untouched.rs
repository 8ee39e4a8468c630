//! Never worse than absent: a program that touches no mount runs as if culvert were not there.

use culvert_e2e::{Case, User, as_each_user, not_tested, world};

as_each_user! {
    its_environment_and_descriptors |case| {
        let case = case.odd().strict();
        let environment = case.program("environment");
        case.good(&format!("env -i A=1 B= {environment} one 'two words' ''"));
        case.good(&format!("exec 7</dev/null; env -i PATH=$PATH LD_LIBRARY_PATH=/nowhere {environment}; env | grep -E '^(CULVERT|LD_)'; set | grep -E '^(CULVERT|LD_)'; ls /proc/self/fd | wc -l"));
    };

    its_output |case| { case.odd().strict().script(
        "cd /; ls -l /etc/passwd; cat /etc/hostname; echo x > $W/f; cat $W/f; find /usr/include/linux -name 'f*.h' | sort; mkdir -p $W/a/b; mv $W/a $W/c; ls $W; cp /etc/passwd $W; cmp /etc/passwd $W/passwd; rm -r $W/c; ln -s f $W/l; readlink $W/l; stat -c '%n %s %h %m' $W/f; chmod 600 $W/f; dd if=/dev/zero of=$W/z bs=4096 count=100 status=none; wc -c $W/z; truncate -s 10 $W/z; sort /etc/passwd | md5sum; tar cf $W/t.tar -C /usr/include/linux . && tar tf $W/t.tar | wc -l
         python3 --version; python3 -c 'import os, sys; print(sys.argv, os.getcwd(), os.listdir(\"/sys\") != [])'; bash -c 'echo $BASH_VERSION; type cat; ulimit -n; umask'; test -e $M/nothing || echo nothing; seq 100000 | sort -R | sort -n | md5sum; id -u; yes | head -n 100000 | md5sum; git --version; cc --version | head -n 1; pwd; kill -0 $$; exit 42",
    ); };
}

/// System calls that a program makes are not multiplied: `strace` counts those that reach the kernel.
#[test]
fn its_system_calls_reach_the_kernel_as_they_are() {
    if world().only_native {
        return;
    }
    let case = Case::new("strace", User::Me);
    let program = "exec 3< /etc/passwd; for i in 1 2 3 4 5 6 7 8 9 10; do read -r x <&3; cd /tmp; test -e /etc/hostname; done";
    let count = |argv: &[&str]| {
        let done = case.natively(argv);
        let calls = done
            .errors()
            .lines()
            .filter(|line| {
                ["chdir(", "/etc/hostname", "dup2(", "lseek(0"]
                    .iter()
                    .any(|call| line.contains(call))
            })
            .count();
        (calls, done)
    };
    let available = case.natively(&["strace", "-V"]);
    if available.status != "exit 0" {
        not_tested("strace is not installed");
        return;
    }
    let (native, _) = count(&["strace", "-f", "bash", "-c", program]);
    let culvert = world().culvert.to_str().expect("plain").to_owned();
    let (ours, done) = count(&["strace", "-f", &culvert, "run", "--", "bash", "-c", program]);
    // A handful more is starting up; each call of the loop twice would be many.
    assert!(
        ours <= native + 10,
        "native {native}, culvert {ours}\n{}",
        done.report()
    );
}
