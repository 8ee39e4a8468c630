//! Who may read what: modes and owners are checked as on any mount.

use culvert_e2e::{Case, Driver, User, as_each_user, world};

as_each_user! {
    modes_of_ones_own_files |case| { case.odd().good(
        "cd $M/modes; for f in 600 644 755 000 444 111; do cat $f 2>&1; test -r $f; echo r $?; test -x $f; echo x $?; test -w $f; echo w $?; done
         for d in d700 d555 d1777 d000; do ls $d 2>&1; cat $d/file 2>&1; (cd $d && pwd) 2>&1; done; stat -c '%n %a %A %U' * | sort; find . -perm -4000; find . ! -readable | sort; true",
    ); };
}

/// A mount of somebody else's files: what natively is denied is denied here.
#[test]
fn modes_of_others_files() {
    if !world().is_root() {
        return;
    }
    // The user without rights reads the archive of a tree that belongs to root.
    let case = Case::new("others", User::Nobody).mount_of_tester("odd", "tar", "mnt");
    case.good(
        "cd $M/modes; for f in 600 644 755 000 444 111 4755 2755; do cat $f 2>&1; test -r $f; echo r $?; test -x $f; echo x $?; done
         for d in d700 d555 d1777 d000; do ls $d 2>&1; cat $d/file 2>&1; (cd $d && pwd) 2>&1; done; cat ../hello.txt; true",
    );
}

#[test]
fn a_process_that_changes_its_user() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("changes-user", User::Me).odd();
    case.good("cd $M; exec 5<lines.txt; read -r a <&5; setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'read -r b <&5; echo $b; cat <&5 | md5sum; id -u'; read -r c <&5 || echo end");
}

/// As daemons do: what was open stays so, also for those who have it open besides.
#[test]
fn a_process_that_gives_its_rights_up_goes_on_writing() {
    if !world().is_root() {
        return;
    }
    let drops = "import os
own = os.open('log', os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
os.write(own, b'first ')
child = os.fork()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
if child: os.waitpid(child, 0)
print(os.write(own, b'own '))
again = os.open('log', os.O_RDWR | os.O_APPEND)
print(os.write(again, b'again '), os.pread(own, 99, 0), os.fstat(again).st_size)";
    for driver in [Driver::Memory, Driver::Driven, Driver::NoDescriptor] {
        let name = format!("gives-up-{driver:?}");
        let case = Case::new(&name, User::Me).directory(driver);
        case.good(&format!(
            "umask 0; cd $M; chmod 777 .; python3 -c \"{drops}\"; cat log; rm log"
        ));
    }
}

/// And on mapping: stores where the driver's file is the kernel's, copies of what is private or never changes everywhere.
#[test]
fn a_process_that_gives_its_rights_up_goes_on_mapping() {
    if !world().is_root() {
        return;
    }
    let maps = "import mmap, os
own = open('mapped', 'r+b')
os.fstat(own.fileno())
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for file in own, open('mapped', 'rb'):
    print(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)[:])";
    let stores = "
shared = mmap.mmap(own.fileno(), 0)
shared[:3] = b'new'
print(os.pread(own.fileno(), 99, 0), mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])";
    for driver in [Driver::Memory, Driver::Driven, Driver::NoDescriptor] {
        let name = format!("gives-up-and-maps-{driver:?}");
        let case = Case::new(&name, User::Me).directory(driver);
        let stores = match driver {
            Driver::NoDescriptor => "",
            _ => stores,
        };
        case.good(&format!(
            "umask 0; cd $M; chmod 777 .; echo old text > mapped; python3 -c \"{maps}{stores}\"; cat mapped; rm mapped"
        ));
    }
}

/// What it had open when it changed its user takes no number any more when it is closed.
#[test]
fn a_process_that_gives_its_rights_up_has_all_its_descriptors() {
    if !world().is_root() {
        return;
    }
    let opens = "import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
files = [os.open(f'f{i}', os.O_RDWR | os.O_CREAT, 0o666) for i in range(100)]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for file in files: os.close(file)
print(len([os.open('f0', os.O_RDWR) for _ in range(350)]))";
    let case = Case::new("gives-up-descriptors", User::Me).directory(Driver::Memory);
    case.good(&format!(
        "umask 0; cd $M; chmod 777 .; python3 -c \"{opens}\"; rm f*"
    ));
}

#[test]
fn access_judges_by_the_real_user_all_the_way() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("real-user-{driver:?}"), User::Me).directory(driver);
        let program = case.program("real_user.py");
        case.good(&format!("chmod 755 $M; python3 {program} $M"));
    }
}

#[test]
fn a_mount_that_access_looks_at_first_is_opened_by_the_program_itself() {
    if !world().is_root() {
        return;
    }
    // The memory driver's file lies where the real user may not go.
    for driver in [Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("real-user-first-{driver:?}"), User::Me).directory(driver);
        let program = case.program("real_user.py");
        let done = case.good(&format!(
            "chmod 755 $M; umask 022; echo > $M/file; cd /; python3 {program} / $M/file"
        ));
        assert_eq!(done.text(), "ok EACCES ok\n");
    }
}
