//! What general random programs are made of: the steps, their weights, scenes of several steps, and
//! names.

/// Steps that give the others something to work on.
pub const PRELUDE: [&str; 12] = [
    "mkdir d 0755",
    "mkdir d/e 0755",
    "openat a cwd f O_RDWR|O_CREAT 0644",
    "write a 5000",
    "openat b cwd d/g O_RDWR|O_CREAT|O_APPEND 0600",
    "write b 100",
    "symlink f l",
    "symlink {m}/d k",
    "symlink ../f d/up",
    "symlink {o} out",
    "openat c cwd d O_RDONLY|O_DIRECTORY 0",
    "fork 1",
];

/// Operations, each with its weight. What stands for the random parts: `%s` a slot to fill, `%f` a
/// descriptor, `%d` a directory for relative paths, `%p` a path, `%t` a link's text, `%o` open
/// flags, `%m` a mode, `%n` a length, `%k` an offset, `%z` a size, `%b` a kind of buffer, `%A`
/// another actor, `[A;B]` one of them.
pub const OPERATIONS: &[(usize, &str)] = &[
    (14, "openat %s %d %p %o %m"),
    (6, "open %s %p %o %m"),
    (2, "creat %s %p %m"),
    (
        4,
        "openat2 %s %d %p %o [0;0644] [0;RESOLVE_BENEATH;RESOLVE_IN_ROOT;RESOLVE_NO_SYMLINKS;RESOLVE_NO_MAGICLINKS;RESOLVE_NO_XDEV;RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS;64]",
    ),
    (10, "read %f %n %b"),
    (6, "pread %f %n %k %b"),
    (2, "readv %f %n %n %b"),
    (
        2,
        "preadv2 %f %n [-1;0;100] [0;RWF_NOWAIT;RWF_HIPRI;0x40000000]",
    ),
    (12, "write %f %n %b"),
    (6, "pwrite %f %n %k %b"),
    (2, "writev %f %n %n %b"),
    (
        3,
        "pwritev2 %f %n [-1;0;100] [0;RWF_APPEND;RWF_DSYNC;RWF_SYNC;RWF_NOWAIT;0x40000000]",
    ),
    (2, "stdio %p [r;w;a;r+;w+;a+;wx;re] [0;1;3;300]"),
    (
        6,
        "lseek %f %k [SEEK_SET;SEEK_CUR;SEEK_END;SEEK_DATA;SEEK_HOLE;7]",
    ),
    (3, "truncate %p %z"),
    (4, "ftruncate %f %z"),
    (
        4,
        "fallocate %f [0;FALLOC_FL_KEEP_SIZE;FALLOC_FL_PUNCH_HOLE|FALLOC_FL_KEEP_SIZE;FALLOC_FL_ZERO_RANGE;FALLOC_FL_ZERO_RANGE|FALLOC_FL_KEEP_SIZE;FALLOC_FL_PUNCH_HOLE;FALLOC_FL_COLLAPSE_RANGE;FALLOC_FL_INSERT_RANGE;256] [0;100;4096;8192;-1] [0;100;4096;10000;-1]",
    ),
    (1, "[fsync;fdatasync] %f"),
    (1, "sync_range %f 0 4096"),
    (1, "[fadvise;readahead] %f 0 4096"),
    (3, "mapread %f [0;0;4096;100] [1;4096;20000;0]"),
    (2, "mapwrite %f [0;0;4096] [1;100;5000]"),
    (1, "poll %f POLLIN|POLLOUT"),
    (1, "fionread %f"),
    (2, "sendfile %f %f [-;0;100;-1] %n"),
    (2, "splice %f [-;-;0] %f [-;-;0] %n"),
    (3, "copyrange %f [-;0;100] %f [-;0;4096] %n"),
    (1, "clone %f %f"),
    (1, "pipe %s %s"),
    (2, "send %A %f"),
    (3, "receive %s [0;1]"),
    (3, "dup %s %f"),
    (2, "dup2 %s %f [%f;#5;#9;#1024;#-1]"),
    (1, "dup3 %s %f [%f;#5;#9] [0;O_CLOEXEC;1]"),
    (2, "dupfd %s %f [0;3;10;1024;-1] [0;1]"),
    (6, "close %f"),
    (
        1,
        "closerange [#5;#8;%f] [#6;#20;%f;#100] [0;CLOSE_RANGE_CLOEXEC;CLOSE_RANGE_UNSHARE;8]",
    ),
    (2, "getfl %f"),
    (
        2,
        "setfl %f [0;O_APPEND;O_NONBLOCK;O_APPEND|O_NONBLOCK;O_DIRECT;O_NOATIME;O_SYNC]",
    ),
    (1, "getfd %f"),
    (1, "setfd %f [0;FD_CLOEXEC]"),
    (
        6,
        "lock %f [F_SETLK;F_GETLK;F_OFD_SETLK;F_OFD_GETLK] [F_RDLCK;F_WRLCK;F_UNLCK] \
        [0;10;100;-5] [0;10;100] [SEEK_SET;SEEK_SET;SEEK_CUR;SEEK_END]",
    ),
    (
        4,
        "flock %f [LOCK_SH|LOCK_NB;LOCK_EX|LOCK_NB;LOCK_UN;LOCK_NB]",
    ),
    (4, "stat %p"),
    (4, "lstat %p"),
    (4, "fstat %f"),
    (
        3,
        "fstatat %d %p [0;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;AT_NO_AUTOMOUNT;1]",
    ),
    (
        3,
        "statx %d %p [0;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;AT_STATX_FORCE_SYNC;AT_STATX_FORCE_SYNC|AT_STATX_DONT_SYNC] [STATX_BASIC_STATS;STATX_ALL;STATX__RESERVED]",
    ),
    (3, "same %d %p %d %p"),
    (2, "access %p [F_OK;R_OK;W_OK;X_OK;R_OK|W_OK;8]"),
    (
        1,
        "faccessat2 %d %p [F_OK;R_OK;W_OK;X_OK] [0;AT_EACCESS;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;1]",
    ),
    (3, "chmod %p %m"),
    (2, "fchmod %f %m"),
    (1, "fchmodat %d %p %m"),
    (
        1,
        "fchmodat2 %d %p %m [0;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;1]",
    ),
    (
        2,
        "chown %d %p [-1;0;65534;1000] [-1;0;65534] [0;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;1]",
    ),
    (1, "fchown %f [-1;0;65534] [-1;0;65534]"),
    (
        2,
        "utimens %d [%p;{null}] [now;omit;1000;invalid;100000] [now;omit;1234;invalid] \
        [0;AT_SYMLINK_NOFOLLOW;AT_EMPTY_PATH;1]",
    ),
    (1, "futimens %f [now;omit;1000] [now;omit;2000]"),
    (1, "utimes %p"),
    (3, "link %p %p"),
    (
        2,
        "linkat %d %p %d %p [0;AT_SYMLINK_FOLLOW;AT_EMPTY_PATH;1]",
    ),
    (
        1,
        "linkat cwd /proc/self/fd/{fd:%s} cwd %p AT_SYMLINK_FOLLOW",
    ),
    (1, "linkat %f {} cwd %p AT_EMPTY_PATH"),
    (3, "symlink %t %p"),
    (1, "symlinkat %t %d %p"),
    (
        3,
        "readlink %d [%p;l;k;/proc/self/fd/{fd:%s};{}] [4096;3;0;-1] %b",
    ),
    (5, "rename %p %p"),
    (
        4,
        "renameat2 %d %p %d %p [0;RENAME_NOREPLACE;RENAME_EXCHANGE;RENAME_WHITEOUT;RENAME_NOREPLACE|RENAME_EXCHANGE;16]",
    ),
    (5, "unlink %p"),
    (2, "unlinkat %d %p [0;AT_REMOVEDIR;1]"),
    (3, "rmdir %p"),
    (4, "mkdir %p %m"),
    (2, "mkdirat %d %p %m"),
    (
        2,
        "mknod %d %p [S_IFIFO|0644;S_IFSOCK|0600;S_IFREG|0644;S_IFCHR|0600;S_IFDIR|0755;0644;0xf000]",
    ),
    (1, "bind %s %p"),
    (1, "connect %s %p"),
    (4, "list %d %p [32;100;4096;8;65536]"),
    (1, "opendir %p"),
    (4, "getdents %f [24;60;120;4096]"),
    (3, "rest %f"),
    (1, "seekback %f"),
    (3, "chdir %p"),
    (2, "chdir {m}"),
    (1, "fchdir %f"),
    (3, "getcwd [4096;10;0;1]"),
    (2, "realpath %p"),
    (1, "statfs %p"),
    (1, "umask [022;0;077;0177]"),
    (
        2,
        "setxattr %p [user.a;user.b;trusted.c;security.d;nonsense;user.;{user.x:1}] \
        [0;1;100;4000] [0;XATTR_CREATE;XATTR_REPLACE;3]",
    ),
    (
        1,
        "fsetxattr %f [user.a;user.b] [0;5] [0;XATTR_CREATE;XATTR_REPLACE]",
    ),
    (
        2,
        "[getxattr;lgetxattr] %p [user.a;user.b;trusted.c;nonsense] [0;1;100;5000]",
    ),
    (1, "fgetxattr %f user.a [0;100]"),
    (1, "listxattr %p [0;3;1000]"),
    (1, "flistxattr %f [0;1000]"),
    (1, "removexattr %p [user.a;user.b;trusted.c]"),
    (1, "fremovexattr %f user.a"),
    (
        3,
        "vfork [close %f;dup2 %s %f #7;chdir d;openat %s %d %p %o %m;write %f %n;lseek %f 3 \
        SEEK_CUR;mkdir %p 0755;lock %f F_SETLK F_WRLCK 0 0;umask 0]",
    ),
    (
        1,
        "vforkexec [fstat %f;write %f %n;read %f %n;getcwd 4096;rest %f;list cwd %p 4096]",
    ),
    (
        2,
        "spawn [none;dup2.%s.#7;close.%s;dup2.%s.#1,close.%s;open.#6.%p] [fstat #7;write #7 \
        %n;read %f %n;lseek %f 5 SEEK_CUR;getcwd 4096;openat %s %d %p %o %m;lock %f F_GETLK \
        F_WRLCK 0 0]",
    ),
    (
        2,
        "shell [head -c 9999 f > g;echo hello >> {m}/d/g;head -c 9999 < f > h;ls -a d > h;cp -r d \
        {m}/h;mv f d/f;rm -rf d;ln -s f h;test -f {m}/f;(echo a && (echo b)) > h;cd d && pwd > \
        p;ls -a > {m}/h;head -c 10 f >> f;exec 5<f && head -c 5 <&5 && head -c 99 <&5 > h]",
    ),
];

/// Operations by which actors come and go, once in so many steps.
pub const ACTORS: &[(usize, &str)] = &[
    (4, "fork %N"),
    (3, "thread %N"),
    (2, "clonefiles %N"),
    (1, "clonefs %N"),
    (4, "exec plain"),
    (2, "exec script"),
    (3, "exit"),
];

/// Scenes of several steps; each begins with the actor: `A` any, `B` another process.
pub const SCENES: &[&[&str]] = &[
    &[
        "A lock a F_SETLK F_WRLCK 0 0",
        "B start lock a F_SETLKW F_WRLCK 0 0",
        "A await B",
        "A lock a F_SETLK F_UNLCK 0 0",
        "B finish",
    ],
    &[
        "A lock a F_SETLK F_WRLCK 0 0",
        "B start lock a F_SETLKW F_RDLCK 0 0",
        "A await B",
        "A signal B interrupt",
        "B finish",
    ],
    &[
        "A lock a F_SETLK F_WRLCK 0 0",
        "B start lock a F_SETLKW F_RDLCK 0 0",
        "A await B",
        "A signal B restart",
        "A await B",
        "A close a",
        "B finish",
    ],
    &[
        "A lock a F_SETLK F_WRLCK 0 10",
        "B lock a F_SETLK F_WRLCK 10 10",
        "A start lock a F_SETLKW F_WRLCK 10 10",
        "B await A",
        "B start lock a F_SETLKW F_WRLCK 0 10",
        "B finish",
        "B lock a F_SETLK F_UNLCK 0 0",
        "A finish",
    ],
    &[
        "A openat e cwd f O_RDWR 0",
        "B openat h cwd f O_RDWR 0",
        "A flock e LOCK_EX|LOCK_NB",
        "B start flock h LOCK_EX",
        "A await B",
        "A close e",
        "B finish",
    ],
    &[
        "A openat e cwd f O_RDWR 0",
        "B openat h cwd f O_RDWR 0",
        "A lock e F_OFD_SETLK F_WRLCK 0 0",
        "B start lock h F_OFD_SETLKW F_WRLCK 0 0",
        "A await B",
        "A signal B interrupt",
        "B finish",
    ],
    &[
        "A mknod cwd {m}/p S_IFIFO|0644 ",
        "B start open h {m}/p O_RDONLY 0",
        "A await B",
        "A open e {m}/p O_WRONLY 0",
        "B finish",
        "A write e 10",
        "B read h 100",
        "A close e",
        "B read h 100",
    ],
    &[
        "A mknod cwd {m}/p S_IFIFO|0644 ",
        "B start open h {m}/p O_WRONLY 0",
        "A await B",
        "A signal B interrupt",
        "B finish",
    ],
    &[
        "A openat c cwd {m}/d O_RDONLY|O_DIRECTORY 0",
        "A getdents c 60",
        "B openat e cwd {m}/d/new O_CREAT|O_RDWR 0644",
        "B unlink {m}/d/g",
        "A rest c",
    ],
    &[
        "A openat e cwd . O_TMPFILE|O_RDWR 0600",
        "A write e 100",
        "A fork %N",
        "A linkat e {} cwd {m}/h AT_EMPTY_PATH",
        "B stat {m}/h",
    ],
    &[
        "A mkdir {m}/e 0755",
        "A chdir {m}/e",
        "B rmdir {m}/e",
        "A getcwd 4096",
        "A openat e cwd . O_RDONLY 0",
        "A mkdir x 0755",
        "A stat .",
        "A chdir ..",
    ],
    &[
        "A chdir {m}/d/e",
        "B rename {m}/d {m}/e",
        "A getcwd 4096",
        "A stat ../g",
        "A openat e cwd x O_CREAT|O_RDWR 0644",
        "A stat {m}/e/e/x",
    ],
    &[
        "A openat e cwd {m}/f O_RDWR 0",
        "B unlink {m}/f",
        "A write e 100",
        "A fstat e",
        "A pread e 50 20",
        "A open h /proc/self/fd/{fd:e} O_RDONLY 0",
        "A read h 100",
    ],
];

pub const NAMES: [&str; 17] = [
    "f", "f", "g", "d", "d", "e", "l", "k", "h", "p", "d/g", "d/f", "d/e", "e/f", "d/e/f", "d/up",
    "k/g",
];
