/* A driver in a shared library, for
 *
 *     culvert run --mount type=./libmine.so,source=SOURCE,target=TARGET -- PROGRAM
 *     culvert mount -t ./libmine.so SOURCE TARGET
 *
 *     cc -shared -fPIC -o libmine.so mine.c
 *
 * The library defines one symbol, culvert_driver or culvert_driver_for. It runs in a process of its
 * own, a host, which all programs of the run ask; or in each program itself, where it says
 * CULVERT_STATELESS and needs no libc (culvert/freestanding.h), which is faster. All functions are
 * optional; what is missing is refused as a file system refuses that has no such thing (EROFS, ENOSYS,
 * EPERM or EOPNOTSUPP).
 *
 * Results. Each function returns 0, or an errno, which is positive and below 512.
 * Paths are relative to the mount, without a slash at either end; "" is the root. Strings and buffers
 * belong to the caller and are valid during the call. What init and open put into *state and *file
 * belongs to the driver.
 * Threads. Calls come from several threads at once, unless CULVERT_ONE_AT_A_TIME is set. No unlink,
 * rmdir or rename runs while another call by path does.
 * Signals. SIGHUP, SIGINT and SIGTERM are blocked, SIGPIPE and SIGXFSZ ignored, and in a host what a
 * terminal's keys send. Programs that the library starts inherit that (sigprocmask(2), signal(7)).
 * Loading. Root loads only what is root's and nobody else may write, and by its descriptor: $ORIGIN
 * in it does not lead to its directory. Others load it by its path. The libraries that it needs
 * itself (DT_NEEDED) are found as dlopen(3) finds them, and are not checked.
 */
#ifndef CULVERT_DRIVER_H
#define CULVERT_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What culvert_driver.version is. A library of another version is refused. */
#define CULVERT_DRIVER_VERSION 1

/* The tree never changes: what was seen once is believed for ever. */
#define CULVERT_IMMUTABLE 1
/* An open file stays usable when its last name is removed. Without it such a file is renamed to a
 * hidden name until it is closed. */
#define CULVERT_KEEPS_UNLINKED 2
/* One call at a time. */
#define CULVERT_ONE_AT_A_TIME 4
/* The size in the attributes says nothing: each read asks the driver. */
#define CULVERT_NO_CACHE 8
/* What one call leaves in memory does not matter to another one, but for what init and open put
 * into *state and *file: each process of a run may have a state of its own. */
#define CULVERT_STATELESS 16
/* The first argument of all functions but init and finalize is a const struct culvert_caller *, whose
 * first member is the state. */
#define CULVERT_CALLERS 32
/* open follows no link and waits for nobody (O_NOFOLLOW, O_NONBLOCK), and fgetattr says what was opened,
 * with its st_ino: that is compared, and nothing is asked before. */
#define CULVERT_OPENS_FILES 2048
/* For capabilities alone: nothing can be changed; there are no extended attributes, no hard links;
 * modes and owners decide, though access is there. */
#define CULVERT_READ_ONLY 64
#define CULVERT_NO_XATTRS 128
#define CULVERT_NO_LINKS 256
#define CULVERT_NO_ACCESS 512
/* For capabilities alone: every file is always ready, though poll is there. */
#define CULVERT_NO_POLL 1024

/* On whose behalf a function is called. What concerns an open file is done for user, group and pid
 * 0, without groups: nobody says who. */
struct culvert_caller {
    void *state;
    uid_t uid;
    gid_t gid;
    /* Supplementary groups. In a host there are none: FUSE does not tell. */
    const gid_t *groups;
    size_t group_count;
    pid_t pid;
    /* Already applied to modes. */
    mode_t umask;
};

/* What is mounted. */
struct culvert_mount {
    /* An absolute path, where the source names a file that is there; else as the user wrote it. */
    const char *source;
    /* An absolute path. */
    const char *target;
    /* "NAME=VALUE" or "NAME", as many as option_count. */
    const char *const *options;
    size_t option_count;
    /* Nothing may be changed. */
    int read_only;
    /* Where init and culvert_driver_for may say in words why they fail. */
    char *reason;
    size_t reason_size;
};

/* A name in a directory, without "." and "..". */
struct culvert_dirent {
    /* The inode that getattr reports; 0 where it reports none. */
    uint64_t inode;
    /* S_IFREG, S_IFDIR, ... */
    uint32_t type;
    /* Ended by NUL. */
    char name[256];
};

/* Who waits for a file in poll. It is the library's from the call on, whatever the call returns. */
struct culvert_waker {
    /* More may be done than the call has said: ask again. Any number of times, by any thread, also
     * within a call and with the library's locks held. */
    void (*wake)(struct culvert_waker *waker);
    /* Once: it is not used any more. */
    void (*drop)(struct culvert_waker *waker);
};

/* How long a lock is waited for. Valid during the call. */
struct culvert_wait {
    /* Not 0: the waiter was interrupted, and the call returns EINTR. Asked again and again. */
    int (*interrupted)(const struct culvert_wait *wait);
};

/* What has changed: anything; what is at the path, or nothing is any more; its attributes; the content
 * of the file or the names in the directory. */
enum { CULVERT_EVERYTHING, CULVERT_NAME, CULVERT_ATTRIBUTES, CULVERT_CONTENT };

/* Who is told of changes that did not come through the mount. Valid until finalize has returned. */
struct culvert_observer {
    /* Returns at once. By any thread, also within a call and with the library's locks held. */
    void (*tell)(const struct culvert_observer *observer, int change, const char *path);
};

/* The maps of the mount's extension, by the names that its object has for them (culvert/extend.h).
 * Valid until finalize has returned; by any thread. What is made or changed is so as one, with the
 * kernel's program at work too.
 * Errors: ENXIO: there is no map of this name; ENOENT: no such key; EINVAL: keys or values of the map
 * have another size; E2BIG: it is full; EPERM: it may not be read (CULVERT_INODE_MAP). */
struct culvert_maps {
    /* Of keys and values, bytes. */
    int (*sizes)(const struct culvert_maps *maps, const char *map, size_t *key_size,
                 size_t *value_size);
    int (*get)(const struct culvert_maps *maps, const char *map, const void *key, size_t key_size,
               void *value, size_t value_size);
    /* Makes it, or changes it. */
    int (*put)(const struct culvert_maps *maps, const char *map, const void *key, size_t key_size,
               const void *value, size_t value_size);
    int (*remove)(const struct culvert_maps *maps, const char *map, const void *key,
                  size_t key_size);
    /* The key behind `key`, or the first one where that is NULL, into `next`, which may be `key`.
     * ENOENT: there are no more. Behind a key that is gone comes the first one. */
    int (*next)(const struct culvert_maps *maps, const char *map, const void *key, void *next,
                size_t key_size);
};

struct flock;

struct culvert_driver {
    /* CULVERT_DRIVER_VERSION. */
    uint32_t version;
    /* sizeof(struct culvert_driver), a multiple of 8: functions that a later header adds are missing
     * in an older one. */
    uint32_t size;
    /* CULVERT_IMMUTABLE and the others, or 0. */
    uint64_t flags;

    /* The mount begins. In programs: in each at its first use of the mount, and before that once in
     * the command, as a trial which finalize ends, so that what is wrong is told at once. */
    int (*init)(const struct culvert_mount *mount, void **state);
    /* It ends: files that are still open were closed, and no call follows. Called once, when the run
     * is over or the kernel mount is gone; not when a program ends or executes another one, not when
     * the host is killed, and not when a signal ends a kernel mount that is in use. In programs it is
     * not called, but at the end of the command's trial. */
    void (*finalize)(void *state);

    /* flags: as of open(2). With O_CREAT the file does not exist (EEXIST where it does), and mode has
     * the umask applied. */
    int (*open)(void *state, const char *path, int flags, mode_t mode, void **file);
    /* The last descriptor was closed. The result is ignored. */
    int (*close)(void *state, void *file);
    /* *done: how many bytes; 0 only at or behind the end. */
    int (*read)(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *done);
    int (*write)(void *state, void *file, const void *buffer, size_t size, off_t offset,
                 size_t *done);
    int (*fsync)(void *state, void *file, int data_only);
    int (*ftruncate)(void *state, void *file, off_t size);
    int (*fgetattr)(void *state, void *file, struct stat *attributes);

    /* In programs: what the next program, after execve(2), continues an open file with: *size says how
     * much there is room for (4,096 bytes), then how much there is. Nothing reaches restore of a file
     * that came another way: size is 0. In a host an open file is one for all. */
    int (*save)(void *state, void *file, void *buffer, size_t *size);
    int (*restore)(void *state, const char *path, int flags, const void *buffer, size_t size,
                   void **file);

    /* stat(2), links not followed. st_ino: stable, equal for hard links only; 0: none. What is 0 of
     * st_nlink and st_blksize is filled in. */
    int (*getattr)(void *state, const char *path, struct stat *attributes);
    int (*truncate)(void *state, const char *path, off_t size);
    /* The target with its NUL, in a buffer of size bytes. */
    int (*readlink)(void *state, const char *path, char *buffer, size_t size);
    int (*unlink)(void *state, const char *path);
    int (*mkdir)(void *state, const char *path, mode_t mode);
    int (*rmdir)(void *state, const char *path);
    /* How many names a directory has, about: for how many getdirents is asked first. */
    int (*getdirentcount)(void *state, const char *path, size_t *count);
    /* All names, capacity of them at most. *count: how many there are; called again with more
     * capacity where that was too little. More than 2^22 are EOVERFLOW. */
    int (*getdirents)(void *state, const char *path, struct culvert_dirent *entries,
                      size_t capacity, size_t *count);
    /* (uid_t)-1, (gid_t)-1: not changed. Set-user-ID of a file, and set-group-ID if its group may
     * execute it, are the library's to take off. */
    int (*chown)(void *state, const char *path, uid_t uid, gid_t gid);
    /* mode: 0 to 07777. */
    int (*chmod)(void *state, const char *path, mode_t mode);
    /* mode: R_OK, W_OK, X_OK. Where it is missing modes and owners decide. Where it is there, they do
     * not: it is asked by access(2), chdir(2) and execve(2), and before a file or directory is opened,
     * but not for the directories on the way, and functions that change something by its path judge
     * themselves (EACCES, EPERM). By a kernel mount it is asked before a file is opened, and modes
     * and owners must allow all besides. */
    int (*access)(void *state, const char *path, int mode);
    /* flags: of renameat2(2). */
    int (*rename)(void *state, const char *from, const char *to, unsigned flags);
    /* times: of access and of change; tv_nsec may be UTIME_OMIT. */
    int (*utime)(void *state, const char *path, const struct timespec times[2]);
    int (*symlink)(void *state, const char *target, const char *path);

    /* What POSIX has besides. */
    int (*link)(void *state, const char *path, const char *name);
    int (*mknod)(void *state, const char *path, mode_t mode, dev_t device);
    int (*statfs)(void *state, struct statvfs *found);
    /* A descriptor is being closed: an error reaches close(2). */
    int (*flush)(void *state, void *file);
    int (*fallocate)(void *state, void *file, int mode, off_t offset, off_t length);
    /* whence: SEEK_DATA or SEEK_HOLE. */
    int (*lseek)(void *state, void *file, off_t offset, int whence, off_t *found);
    /* *size: of the buffer, then of what is in it; ERANGE where that is too much. */
    int (*getxattr)(void *state, const char *path, const char *name, void *value, size_t *size);
    int (*setxattr)(void *state, const char *path, const char *name, const void *value, size_t size,
                    int flags);
    /* Names, each ended by NUL. */
    int (*listxattr)(void *state, const char *path, char *names, size_t *size);
    int (*removexattr)(void *state, const char *path, const char *name);

    /* Once, after init: more flags than the table has, CULVERT_IMMUTABLE and the others, are added to
     * *flags. */
    int (*capabilities)(void *state, uint64_t *flags);
    /* A descriptor of the kernel's whose file has the bytes of this one, open for the same, for as
     * long as the file is open: reads, writes and mappings are the kernel's own then. It stays the
     * driver's. ENOSYS here, and from fgetattr, ftruncate and lseek: as if the function were missing. */
    int (*descriptor)(void *state, void *file, int *fd);
    /* copy_file_range(2) between two open files. */
    int (*copy)(void *state, void *from, off_t offset, void *to, off_t to_offset, size_t length,
                size_t *done);
    /* argument: as many bytes as the request says, both ways (_IOC_SIZE). */
    int (*ioctl)(void *state, void *file, uint32_t request, void *argument, size_t size,
                 int *result);
    int (*fsyncdir)(void *state, const char *path, int data_only);
    int (*syncfs)(void *state);
    /* *how: 0: the kernel caches until the file changes; 1: across opens; 2: not at all. */
    int (*caching)(void *state, void *file, int *how);

    /* poll(2). *events: POLLIN, POLLOUT and the others, what may be done now without waiting. waker: NULL,
     * or somebody waits; it takes the place of an earlier one of the open file. Asked by kernel mounts:
     * in a run every file is ready. */
    int (*poll)(void *state, void *file, struct culvert_waker *waker, unsigned *events);
    /* Locks, by kernel mounts: in a run the run keeps them. Where these are missing, or return ENOSYS,
     * Culvert keeps them. owner: equal for two calls of one holder, a process or (F_OFD_SETLK, flock(2))
     * an open file. l_whence is SEEK_SET, l_len 0 up to the end however far it grows.
     * getlk: F_GETLK: a lock that is in the way, or l_type F_UNLCK. */
    int (*getlk)(void *state, void *file, uint64_t owner, struct flock *lock);
    /* F_SETLK, F_SETLKW. wait: NULL: EAGAIN where somebody else has it. With CULVERT_ONE_AT_A_TIME too
     * other calls come while one waits. */
    int (*setlk)(void *state, void *file, uint64_t owner, const struct flock *lock,
                 const struct culvert_wait *wait);
    /* operation: LOCK_SH, LOCK_EX, LOCK_UN. */
    int (*flock)(void *state, void *file, uint64_t owner, int operation,
                 const struct culvert_wait *wait);

    /* An open directory that keeps something. Missing, or ENOSYS: names are listed by getdirents. */
    int (*opendir)(void *state, const char *path, void **directory);
    /* As getdirents: at the start, and after rewinddir(3). */
    int (*listdir)(void *state, void *directory, struct culvert_dirent *entries, size_t capacity,
                   size_t *count);
    /* fsync(2) of it; missing: syncfs. */
    int (*syncdir)(void *state, void *directory, int data_only);
    /* The last descriptor was closed. The result is ignored. */
    int (*closedir)(void *state, void *directory);

    /* Once, after init: from here on the library tells of changes. ENOSYS: it does not. In a kernel
     * mount and in a host; in the programs nobody asks. */
    int (*observe)(void *state, const struct culvert_observer *observer);

    /* Once in each program, after init: the file system is the directory of the kernel's behind *fd, and
     * all that is below it: the same names, inodes and rights, nothing added. The descriptor stays the
     * library's, open for as long as the mount. In each program it is the same as in the command's
     * trial, or the mount fails (ESTALE). Programs are then served by the kernel itself, and reads and
     * writes are its own; no function but these is called: what else the library has is for hosts and
     * kernel mounts, which do not ask. ENOSYS: it is none, and the functions are called. */
    int (*tree)(void *state, int *fd);

    /* Once, after init, in a kernel mount that has an extension of the author's (extend=/PATH.o),
     * before anything is asked: what is put into its maps now is there when the kernel first asks. An
     * error: the extension is not used, and the mount goes on, which it says. ENOSYS, or missing: it
     * does without the driver. In runs there is none. */
    int (*extended)(void *state, const struct culvert_maps *maps);
};

/* What the library defines. */
extern const struct culvert_driver culvert_driver;

/* Or this, of a library in a host, where the functions depend on the mount: called once, before init.
 * The table is read when it returns; NULL: there is none. */
const struct culvert_driver *culvert_driver_for(const struct culvert_mount *mount);

#ifdef __cplusplus
}
#endif
#endif
