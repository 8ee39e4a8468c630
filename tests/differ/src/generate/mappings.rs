//! Steps on mapped files: what [`generate_mapped`](super::generate_mapped) does most of the time.

/// Steps behind the general prelude that give mappings something to meet: two files that are
/// mapped, and one of three megabytes, above the size that is filled at once.
pub const PRELUDE: [&str; 8] = [
    "openat d cwd big O_RDWR|O_CREAT 0644",
    "pwrite d 8192 1048576",
    "ftruncate d 3000000",
    "map m0 a PROT_READ|PROT_WRITE MAP_SHARED 0 8192",
    "fork 2",
    "map m1 a PROT_READ MAP_SHARED 0 20000",
    "map m2 d PROT_READ|PROT_WRITE MAP_SHARED 0 4194304",
    "thread 3",
];

/// As the general operations; and `%M` is a mapping, `%O` an offset in one, `%L` a length there,
/// `%F` a descriptor that is likely to be a file's.
pub const OPERATIONS: &[(usize, &str)] = &[
    (
        14,
        "map %M %F [PROT_READ;PROT_READ|PROT_WRITE;PROT_READ|PROT_WRITE;PROT_WRITE;PROT_NONE;PROT_READ|PROT_EXEC] [MAP_SHARED;MAP_SHARED;MAP_SHARED;MAP_PRIVATE;MAP_PRIVATE;MAP_SHARED_VALIDATE;MAP_SHARED|MAP_POPULATE;MAP_PRIVATE|MAP_NORESERVE;MAP_SHARED_VALIDATE|MAP_SYNC;0] [0;0;0;0;4096;8192;1048576;100] [1;100;4096;8192;20000;4194304;0]",
    ),
    (24, "load %M %O %L"),
    (24, "store %M %O %L"),
    (
        6,
        "msync %M %O %L [MS_SYNC;MS_SYNC;MS_ASYNC;MS_INVALIDATE;MS_SYNC|MS_INVALIDATE;MS_SYNC|MS_ASYNC;8]",
    ),
    (5, "unmap %M %O %L"),
    (2, "unmap %M 0 4194304"),
    (
        3,
        "remap %M %O [4096;8192;20000;0] [4096;8192;20000;4194304;0] [0;MREMAP_MAYMOVE]",
    ),
    (
        3,
        "remap %M %O [4096;8192;4194304;0] [4096;8192;20000;4194304] \
        [MREMAP_MAYMOVE|MREMAP_FIXED;MREMAP_MAYMOVE|MREMAP_FIXED;MREMAP_FIXED;MREMAP_MAYMOVE|MREMAP_FIXED|MREMAP_DONTUNMAP] %M",
    ),
    (
        4,
        "protect %M %O %L [PROT_READ;PROT_READ|PROT_WRITE;PROT_READ|PROT_WRITE;PROT_NONE;PROT_READ|PROT_EXEC]",
    ),
    (
        6,
        "advise %M %O %L [MADV_DONTNEED;MADV_DONTNEED;MADV_REMOVE;MADV_REMOVE;MADV_WILLNEED;MADV_SEQUENTIAL;MADV_POPULATE_READ;MADV_POPULATE_WRITE;MADV_DONTFORK;MADV_FREE]",
    ),
    (3, "writefrom %M %O %L %F %O"),
    (3, "readinto %M %O %L %F %O"),
    (6, "read %F %n"),
    (8, "pread %F %n %O"),
    (6, "write %F %n"),
    (8, "pwrite %F %n %O"),
    (
        3,
        "truncate [f;d/g;big;f] [0;100;4096;5000;10000;1048576;3000000]",
    ),
    (6, "ftruncate %F [0;100;4096;5000;10000;1048576;3000000]"),
    (
        3,
        "fallocate %F [0;FALLOC_FL_KEEP_SIZE;FALLOC_FL_PUNCH_HOLE|FALLOC_FL_KEEP_SIZE] \
        [0;100;4096;1048576] [100;4096;10000;1048576]",
    ),
    (
        3,
        "openat %s cwd [f;d/g;big;f] [O_RDONLY;O_RDWR;O_RDWR;O_WRONLY;O_RDWR|O_TRUNC;O_RDWR|O_APPEND;O_RDWR|O_CREAT] 0644",
    ),
    (3, "close %F"),
    (1, "dup %s %F"),
    (2, "[fsync;fdatasync] %F"),
    (2, "[unlink;stat] [f;d/g;big]"),
    (2, "rename [f;d/g;big] [f;d/g;big]"),
    (1, "copyrange %F [-;0;4096] %F [-;0;4096] %n"),
    (1, "sendfile %F %F [-;0;4096] %n"),
    (1, "chmod [f;d/g;big] [0644;0;0444;0600]"),
    (
        2,
        "vfork [load %M %O %L;store %M %O %L;msync %M %O %L MS_SYNC;write %F %n;ftruncate %F 100]",
    ),
    (
        1,
        "spawn none [read %F %n;write %F %n;ftruncate %F 0;ftruncate %F 5000;map m0 %F PROT_READ \
        MAP_SHARED 0 4096]",
    ),
    (
        1,
        "shell [head -c 9999 f > h;echo hello >> {m}/d/g;cp big h;cat f d/g > h]",
    ),
];

/// Scenes as the general ones.
pub const SCENES: &[&[&str]] = &[
    &[
        "A openat a cwd {m}/f O_RDWR|O_CREAT|O_TRUNC 0644",
        "A write a 5000",
        "A map m3 a PROT_READ|PROT_WRITE MAP_SHARED 0 8192",
        "A close a",
        "B openat e cwd {m}/f O_RDWR 0",
        "B map m4 e PROT_READ|PROT_WRITE MAP_SHARED 0 8192",
        "A store m3 100 200",
        "B load m4 0 400",
        "B pread e 400 0",
        "B ftruncate e 100",
        "A load m3 0 4096",
        "A load m3 4096 10",
        "B ftruncate e 8192",
        "A load m3 4000 200",
        "A store m3 8000 192",
        "B pread e 8192 0",
    ],
    &[
        "A openat e cwd {m}/d/g O_RDWR|O_CREAT 0600",
        "A ftruncate e 12288",
        "A map m5 e PROT_READ|PROT_WRITE MAP_SHARED 0 12288",
        "A store m5 0 12288",
        "A fork %N",
        "A unmap m5 4096 4096",
        "A load m5 0 12288",
        "B pread e 12288 0",
        "A exec plain",
        "B pread e 12288 0",
    ],
    &[
        "A openat e cwd {m}/big O_RDWR|O_CREAT 0644",
        "A ftruncate e 3000000",
        "A map m6 e PROT_READ|PROT_WRITE MAP_PRIVATE 0 3000000",
        "B openat h cwd {m}/big O_RDWR 0",
        "B pwrite h 100 2000000",
        "A load m6 1999900 300",
        "A store m6 2000000 10",
        "B pwrite h 100 2000050",
        "A load m6 1999900 300",
        "B pread h 300 1999900",
    ],
    &[
        "A openat e cwd {m}/new O_RDWR|O_CREAT 0644",
        "A ftruncate e 10000",
        "A map m7 e PROT_READ|PROT_WRITE MAP_SHARED 0 10000",
        "A unlink {m}/new",
        "A store m7 0 5000",
        "A close e",
        "A load m7 4990 20",
        "A unmap m7 0 10000",
        "A load m7 0 1",
    ],
];
