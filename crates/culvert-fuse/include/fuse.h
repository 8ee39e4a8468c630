/* The interface by paths. A function returns 0 or more, or a negated errno. */
#ifndef CULVERT_FUSE_H
#define CULVERT_FUSE_H

#include "fuse_common.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <utime.h>
#if FUSE_USE_VERSION < 25
#include <sys/statfs.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct fuse;
struct flock;

#if FUSE_USE_VERSION >= 30
enum fuse_readdir_flags { FUSE_READDIR_DEFAULTS = 0, FUSE_READDIR_PLUS = (1 << 0) };
enum fuse_fill_dir_flags { FUSE_FILL_DIR_DEFAULTS = 0, FUSE_FILL_DIR_PLUS = (1 << 1) };
/* 1: there is no room for the name. */
typedef int (*fuse_fill_dir_t)(void *buffer, const char *name, const struct stat *attributes,
                               off_t offset, enum fuse_fill_dir_flags flags);

/* What the file system sets in `init`. Times are in seconds. */
struct fuse_config {
    int set_gid;
    unsigned int gid;
    int set_uid;
    unsigned int uid;
    int set_mode;
    unsigned int umask;
    double entry_timeout;
    double negative_timeout;
    double attr_timeout;
    int intr;
    int intr_signal;
    int remember;
    int hard_remove;
    int use_ino;
    int readdir_ino;
    int direct_io;
    int kernel_cache;
    int auto_cache;
    int no_rofd_flush;
    int ac_attr_timeout_set;
    double ac_attr_timeout;
    int nullpath_ok;
    int parallel_direct_writes;
    int show_help;
    char *modules;
    int debug;
};
#else
typedef int (*fuse_fill_dir_t)(void *buffer, const char *name, const struct stat *attributes,
                               off_t offset);
typedef struct fuse_dirhandle *fuse_dirh_t;
typedef int (*fuse_dirfil_t)(fuse_dirh_t handle, const char *name, int type, ino_t inode);
#endif

#if FUSE_USE_VERSION >= 30
#define CULVERT_FUSE_FILE , struct fuse_file_info *file
#define CULVERT_FUSE_FLAGS , unsigned int flags
#else
#define CULVERT_FUSE_FILE
#define CULVERT_FUSE_FLAGS
#endif

/* All versions have one table; a function that a version does not have is null in it. */
struct fuse_operations {
    int (*getattr)(const char *path, struct stat *attributes CULVERT_FUSE_FILE);
    int (*readlink)(const char *path, char *target, size_t size);
#if FUSE_USE_VERSION < 30
    int (*getdir)(const char *path, fuse_dirh_t handle, fuse_dirfil_t fill);
#else
    void (*reserved_getdir)(void);
#endif
    int (*mknod)(const char *path, mode_t mode, dev_t device);
    int (*mkdir)(const char *path, mode_t mode);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
    int (*symlink)(const char *target, const char *path);
    int (*rename)(const char *from, const char *to CULVERT_FUSE_FLAGS);
    int (*link)(const char *from, const char *to);
    int (*chmod)(const char *path, mode_t mode CULVERT_FUSE_FILE);
    int (*chown)(const char *path, uid_t uid, gid_t gid CULVERT_FUSE_FILE);
    int (*truncate)(const char *path, off_t size CULVERT_FUSE_FILE);
#if FUSE_USE_VERSION < 30
    int (*utime)(const char *path, struct utimbuf *times);
#else
    void (*reserved_utime)(void);
#endif
    int (*open)(const char *path, struct fuse_file_info *file);
    int (*read)(const char *path, char *buffer, size_t size, off_t offset,
                struct fuse_file_info *file);
    int (*write)(const char *path, const char *buffer, size_t size, off_t offset,
                 struct fuse_file_info *file);
#if FUSE_USE_VERSION < 25
    int (*statfs)(const char *path, struct statfs *system);
#else
    int (*statfs)(const char *path, struct statvfs *system);
#endif
    int (*flush)(const char *path, struct fuse_file_info *file);
    int (*release)(const char *path, struct fuse_file_info *file);
    int (*fsync)(const char *path, int data_only, struct fuse_file_info *file);
    int (*setxattr)(const char *path, const char *name, const char *value, size_t size, int flags);
    int (*getxattr)(const char *path, const char *name, char *value, size_t size);
    int (*listxattr)(const char *path, char *names, size_t size);
    int (*removexattr)(const char *path, const char *name);
    int (*opendir)(const char *path, struct fuse_file_info *file);
#if FUSE_USE_VERSION >= 30
    int (*readdir)(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                   struct fuse_file_info *file, enum fuse_readdir_flags flags);
#else
    int (*readdir)(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                   struct fuse_file_info *file);
#endif
    int (*releasedir)(const char *path, struct fuse_file_info *file);
    int (*fsyncdir)(const char *path, int data_only, struct fuse_file_info *file);
#if FUSE_USE_VERSION >= 30
    void *(*init)(struct fuse_conn_info *connection, struct fuse_config *config);
#elif FUSE_USE_VERSION >= 26
    void *(*init)(struct fuse_conn_info *connection);
#else
    void *(*init)(void);
#endif
    void (*destroy)(void *data);
    int (*access)(const char *path, int mask);
    int (*create)(const char *path, mode_t mode, struct fuse_file_info *file);
#if FUSE_USE_VERSION < 30
    int (*ftruncate)(const char *path, off_t size, struct fuse_file_info *file);
    int (*fgetattr)(const char *path, struct stat *attributes, struct fuse_file_info *file);
#else
    void (*reserved_ftruncate)(void);
    void (*reserved_fgetattr)(void);
#endif
    int (*lock)(const char *path, struct fuse_file_info *file, int command, struct flock *lock);
    int (*utimens)(const char *path, const struct timespec times[2] CULVERT_FUSE_FILE);
    int (*bmap)(const char *path, size_t block_size, uint64_t *index);
    unsigned int flag_nullpath_ok : 1;
    unsigned int flag_nopath : 1;
    unsigned int flag_utime_omit_ok : 1;
    unsigned int flag_reserved : 29;
    unsigned int reserved_flags;
#if FUSE_USE_VERSION >= 35
    int (*ioctl)(const char *path, unsigned int command, void *argument,
                 struct fuse_file_info *file, unsigned int flags, void *data);
#else
    int (*ioctl)(const char *path, int command, void *argument, struct fuse_file_info *file,
                 unsigned int flags, void *data);
#endif
    int (*poll)(const char *path, struct fuse_file_info *file, struct fuse_pollhandle *handle,
                unsigned *ready);
    int (*write_buf)(const char *path, struct fuse_bufvec *buffer, off_t offset,
                     struct fuse_file_info *file);
    int (*read_buf)(const char *path, struct fuse_bufvec **buffer, size_t size, off_t offset,
                    struct fuse_file_info *file);
    int (*flock)(const char *path, struct fuse_file_info *file, int operation);
    int (*fallocate)(const char *path, int mode, off_t offset, off_t length,
                     struct fuse_file_info *file);
    ssize_t (*copy_file_range)(const char *from, struct fuse_file_info *from_file,
                               off_t from_offset, const char *to, struct fuse_file_info *to_file,
                               off_t to_offset, size_t size, int flags);
    off_t (*lseek)(const char *path, off_t offset, int whence, struct fuse_file_info *file);
};

/* Who asks, for the length of a call. */
struct fuse_context {
    struct fuse *fuse;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    void *private_data;
    mode_t umask;
};

int culvert_fuse_main(int argc, char *argv[], const void *operations, size_t size, void *data,
                      int version);
struct fuse *culvert_fuse_new(struct fuse_chan *channel, struct fuse_args *args,
                              const void *operations, size_t size, void *data, int version);

#define fuse_main_real(argc, argv, operations, size, data) \
    culvert_fuse_main(argc, argv, operations, size, data, FUSE_USE_VERSION)
#if FUSE_USE_VERSION >= 26
#define fuse_main(argc, argv, operations, data) \
    fuse_main_real(argc, argv, operations, sizeof(*(operations)), data)
#else
#define fuse_main(argc, argv, operations) \
    fuse_main_real(argc, argv, operations, sizeof(*(operations)), NULL)
#endif
#if FUSE_USE_VERSION >= 30
#define fuse_new(args, operations, size, data) \
    culvert_fuse_new(NULL, args, operations, size, data, FUSE_USE_VERSION)
int fuse_mount(struct fuse *fuse, const char *target) CULVERT_FUSE("mount_3");
void fuse_unmount(struct fuse *fuse) CULVERT_FUSE("unmount_3");
#if FUSE_USE_VERSION < 32
int fuse_loop_mt(struct fuse *fuse, int clone_fd) CULVERT_FUSE("loop_mt_31");
#elif FUSE_USE_VERSION < 312
int fuse_loop_mt(struct fuse *fuse, struct fuse_loop_config *config) CULVERT_FUSE("loop_mt_32");
#else
int fuse_loop_mt(struct fuse *fuse, struct fuse_loop_config *config) CULVERT_FUSE("loop_mt_312");
#endif
void fuse_lib_help(struct fuse_args *args) CULVERT_FUSE("lib_help");
int fuse_invalidate_path(struct fuse *fuse, const char *path) CULVERT_FUSE("invalidate_path");
#else
/* Versions 22 to 25 have fuse_main alone: these had other arguments there. */
#if FUSE_USE_VERSION >= 26
#define fuse_new(channel, args, operations, size, data) \
    culvert_fuse_new(channel, args, operations, size, data, FUSE_USE_VERSION)
struct fuse *culvert_fuse_setup(int argc, char *argv[], const void *operations, size_t size,
                                char **target, int *multithreaded, void *data, int version);
#define fuse_setup(argc, argv, operations, size, target, multithreaded, data) \
    culvert_fuse_setup(argc, argv, operations, size, target, multithreaded, data, FUSE_USE_VERSION)
void fuse_teardown(struct fuse *fuse, char *target) CULVERT_FUSE("teardown");
#endif
int fuse_loop_mt(struct fuse *fuse) CULVERT_FUSE("loop_mt_2");
int fuse_is_lib_option(const char *option) CULVERT_FUSE("is_lib_option");
int fuse_invalidate(struct fuse *fuse, const char *path) CULVERT_FUSE("invalidate_path");
#endif

void fuse_destroy(struct fuse *fuse) CULVERT_FUSE("destroy");
int fuse_loop(struct fuse *fuse) CULVERT_FUSE("loop");
void fuse_exit(struct fuse *fuse) CULVERT_FUSE("exit");
struct fuse_context *fuse_get_context(void) CULVERT_FUSE("get_context");
int fuse_getgroups(int size, gid_t list[]) CULVERT_FUSE("getgroups");
int fuse_interrupted(void) CULVERT_FUSE("interrupted");
int fuse_notify_poll(struct fuse_pollhandle *handle) CULVERT_FUSE("notify_poll");
struct fuse_session *fuse_get_session(struct fuse *fuse) CULVERT_FUSE("get_session");
int fuse_start_cleanup_thread(struct fuse *fuse) CULVERT_FUSE("start_cleanup_thread");
void fuse_stop_cleanup_thread(struct fuse *fuse) CULVERT_FUSE("stop_cleanup_thread");
int fuse_clean_cache(struct fuse *fuse) CULVERT_FUSE("clean_cache");

#ifdef __cplusplus
}
#endif
#endif
