/* The interface by nodes. Each request is answered once, by a function fuse_reply_*. */
#ifndef CULVERT_FUSE_LOWLEVEL_H
#define CULVERT_FUSE_LOWLEVEL_H

#include "fuse_common.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <utime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSE_ROOT_ID 1

typedef uint64_t fuse_ino_t;
typedef struct fuse_req *fuse_req_t;

/* A node; each reply with one is a lookup that `forget` gives back. Times are in seconds. */
struct fuse_entry_param {
    fuse_ino_t ino;
    uint64_t generation;
    struct stat attr;
    double attr_timeout;
    double entry_timeout;
};

/* Who asks. */
struct fuse_ctx {
    uid_t uid;
    gid_t gid;
    pid_t pid;
    mode_t umask;
};

struct fuse_forget_data {
    fuse_ino_t ino;
    uint64_t nlookup;
};

struct fuse_custom_io {
    ssize_t (*writev)(int fd, struct iovec *parts, int count, void *data);
    ssize_t (*read)(int fd, void *buffer, size_t length, void *data);
    ssize_t (*splice_receive)(int from, off_t *from_offset, int to, off_t *to_offset, size_t length,
                              unsigned int flags, void *data);
    ssize_t (*splice_send)(int from, off_t *from_offset, int to, off_t *to_offset, size_t length,
                           unsigned int flags, void *data);
};

#define FUSE_SET_ATTR_MODE (1 << 0)
#define FUSE_SET_ATTR_UID (1 << 1)
#define FUSE_SET_ATTR_GID (1 << 2)
#define FUSE_SET_ATTR_SIZE (1 << 3)
#define FUSE_SET_ATTR_ATIME (1 << 4)
#define FUSE_SET_ATTR_MTIME (1 << 5)
#define FUSE_SET_ATTR_ATIME_NOW (1 << 7)
#define FUSE_SET_ATTR_MTIME_NOW (1 << 8)
#define FUSE_SET_ATTR_FORCE (1 << 9)
#define FUSE_SET_ATTR_CTIME (1 << 10)
#define FUSE_SET_ATTR_KILL_SUID (1 << 11)
#define FUSE_SET_ATTR_KILL_SGID (1 << 12)
#define FUSE_SET_ATTR_FILE (1 << 13)
#define FUSE_SET_ATTR_KILL_PRIV (1 << 14)
#define FUSE_SET_ATTR_OPEN (1 << 15)
#define FUSE_SET_ATTR_TIMES_SET (1 << 16)

#if FUSE_USE_VERSION >= 30
#define CULVERT_FUSE_FLAGS_LL , unsigned int flags
typedef uint64_t culvert_fuse_lookups;
#else
#define CULVERT_FUSE_FLAGS_LL
typedef unsigned long culvert_fuse_lookups;
#endif

struct fuse_lowlevel_ops {
    void (*init)(void *data, struct fuse_conn_info *connection);
    void (*destroy)(void *data);
    void (*lookup)(fuse_req_t req, fuse_ino_t parent, const char *name);
    void (*forget)(fuse_req_t req, fuse_ino_t ino, culvert_fuse_lookups count);
    void (*getattr)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*setattr)(fuse_req_t req, fuse_ino_t ino, struct stat *attributes, int to_set,
                    struct fuse_file_info *file);
    void (*readlink)(fuse_req_t req, fuse_ino_t ino);
    void (*mknod)(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
    void (*mkdir)(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
    void (*unlink)(fuse_req_t req, fuse_ino_t parent, const char *name);
    void (*rmdir)(fuse_req_t req, fuse_ino_t parent, const char *name);
    void (*symlink)(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
    void (*rename)(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                   const char *new_name CULVERT_FUSE_FLAGS_LL);
    void (*link)(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);
    void (*open)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*read)(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                 struct fuse_file_info *file);
    void (*write)(fuse_req_t req, fuse_ino_t ino, const char *buffer, size_t size, off_t offset,
                  struct fuse_file_info *file);
    void (*flush)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*release)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*fsync)(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *file);
    void (*opendir)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*readdir)(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *file);
    void (*releasedir)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
    void (*fsyncdir)(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *file);
    void (*statfs)(fuse_req_t req, fuse_ino_t ino);
    void (*setxattr)(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                     size_t size, int flags);
    void (*getxattr)(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
    void (*listxattr)(fuse_req_t req, fuse_ino_t ino, size_t size);
    void (*removexattr)(fuse_req_t req, fuse_ino_t ino, const char *name);
    void (*access)(fuse_req_t req, fuse_ino_t ino, int mask);
    void (*create)(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                   struct fuse_file_info *file);
    void (*getlk)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock);
    void (*setlk)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock,
                  int sleep);
    void (*bmap)(fuse_req_t req, fuse_ino_t ino, size_t block_size, uint64_t index);
#if FUSE_USE_VERSION >= 35
    void (*ioctl)(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *argument,
                  struct fuse_file_info *file, unsigned flags, const void *in, size_t in_size,
                  size_t out_size);
#else
    void (*ioctl)(fuse_req_t req, fuse_ino_t ino, int command, void *argument,
                  struct fuse_file_info *file, unsigned flags, const void *in, size_t in_size,
                  size_t out_size);
#endif
    void (*poll)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file,
                 struct fuse_pollhandle *handle);
    void (*write_buf)(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *buffer, off_t offset,
                      struct fuse_file_info *file);
    void (*retrieve_reply)(fuse_req_t req, void *cookie, fuse_ino_t ino, off_t offset,
                           struct fuse_bufvec *buffer);
    void (*forget_multi)(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
    void (*flock)(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, int operation);
    void (*fallocate)(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                      struct fuse_file_info *file);
    void (*readdirplus)(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                        struct fuse_file_info *file);
    void (*copy_file_range)(fuse_req_t req, fuse_ino_t ino, off_t offset,
                            struct fuse_file_info *file, fuse_ino_t to, off_t to_offset,
                            struct fuse_file_info *to_file, size_t size, int flags);
    void (*lseek)(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                  struct fuse_file_info *file);
};

int fuse_reply_err(fuse_req_t req, int error) CULVERT_FUSE("reply_err");
void fuse_reply_none(fuse_req_t req) CULVERT_FUSE("reply_none");
int fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
    CULVERT_FUSE("reply_entry");
int fuse_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
                      const struct fuse_file_info *file) CULVERT_FUSE("reply_create");
int fuse_reply_attr(fuse_req_t req, const struct stat *attributes, double timeout)
    CULVERT_FUSE("reply_attr");
int fuse_reply_readlink(fuse_req_t req, const char *target) CULVERT_FUSE("reply_readlink");
int fuse_reply_open(fuse_req_t req, const struct fuse_file_info *file) CULVERT_FUSE("reply_open");
int fuse_reply_write(fuse_req_t req, size_t count) CULVERT_FUSE("reply_write");
int fuse_reply_buf(fuse_req_t req, const char *buffer, size_t size) CULVERT_FUSE("reply_buf");
int fuse_reply_data(fuse_req_t req, struct fuse_bufvec *buffer, enum fuse_buf_copy_flags flags)
    CULVERT_FUSE("reply_data");
int fuse_reply_iov(fuse_req_t req, const struct iovec *parts, int count) CULVERT_FUSE("reply_iov");
int fuse_reply_statfs(fuse_req_t req, const struct statvfs *system) CULVERT_FUSE("reply_statfs");
int fuse_reply_xattr(fuse_req_t req, size_t count) CULVERT_FUSE("reply_xattr");
int fuse_reply_lock(fuse_req_t req, const struct flock *lock) CULVERT_FUSE("reply_lock");
int fuse_reply_bmap(fuse_req_t req, uint64_t index) CULVERT_FUSE("reply_bmap");
int fuse_reply_ioctl(fuse_req_t req, int result, const void *buffer, size_t size)
    CULVERT_FUSE("reply_ioctl");
int fuse_reply_ioctl_iov(fuse_req_t req, int result, const struct iovec *parts, int count)
    CULVERT_FUSE("reply_ioctl_iov");
int fuse_reply_ioctl_retry(fuse_req_t req, const struct iovec *in, size_t in_count,
                           const struct iovec *out, size_t out_count)
    CULVERT_FUSE("reply_ioctl_retry");
int fuse_reply_poll(fuse_req_t req, unsigned ready) CULVERT_FUSE("reply_poll");
int fuse_reply_lseek(fuse_req_t req, off_t offset) CULVERT_FUSE("reply_lseek");
size_t fuse_add_direntry(fuse_req_t req, char *buffer, size_t size, const char *name,
                         const struct stat *attributes, off_t offset) CULVERT_FUSE("add_direntry");
size_t fuse_add_direntry_plus(fuse_req_t req, char *buffer, size_t size, const char *name,
                              const struct fuse_entry_param *entry, off_t offset)
    CULVERT_FUSE("add_direntry_plus");

void *fuse_req_userdata(fuse_req_t req) CULVERT_FUSE("req_userdata");
const struct fuse_ctx *fuse_req_ctx(fuse_req_t req) CULVERT_FUSE("req_ctx");
int fuse_req_getgroups(fuse_req_t req, int size, gid_t list[]) CULVERT_FUSE("req_getgroups");
typedef void (*fuse_interrupt_func_t)(fuse_req_t req, void *data);
void fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t function, void *data)
    CULVERT_FUSE("req_interrupt_func");
int fuse_req_interrupted(fuse_req_t req) CULVERT_FUSE("req_interrupted");

int fuse_lowlevel_notify_poll(struct fuse_pollhandle *handle) CULVERT_FUSE("notify_poll");
/* Of both versions: a session, or a channel, which is its session's. */
#if FUSE_USE_VERSION >= 30
#define CULVERT_FUSE_TO struct fuse_session *session
#else
#define CULVERT_FUSE_TO struct fuse_chan *channel
#endif
int fuse_lowlevel_notify_inval_inode(CULVERT_FUSE_TO, fuse_ino_t ino, off_t offset, off_t length)
    CULVERT_FUSE("notify_inval_inode");
int fuse_lowlevel_notify_inval_entry(CULVERT_FUSE_TO, fuse_ino_t parent, const char *name,
                                     size_t length) CULVERT_FUSE("notify_inval_entry");
/* Some versions have flags behind the length, of which there is one. */
enum fuse_expire_flags { FUSE_LL_EXPIRE_ONLY = (1 << 0) };
int fuse_lowlevel_notify_expire_entry(CULVERT_FUSE_TO, fuse_ino_t parent, const char *name,
                                      size_t length, ...) CULVERT_FUSE("notify_expire_entry");
int fuse_lowlevel_notify_delete(CULVERT_FUSE_TO, fuse_ino_t parent, fuse_ino_t child,
                                const char *name, size_t length) CULVERT_FUSE("notify_delete");
int fuse_lowlevel_notify_store(CULVERT_FUSE_TO, fuse_ino_t ino, off_t offset,
                               struct fuse_bufvec *buffer, enum fuse_buf_copy_flags flags)
    CULVERT_FUSE("notify_store");
int fuse_lowlevel_notify_retrieve(CULVERT_FUSE_TO, fuse_ino_t ino, size_t size, off_t offset,
                                  void *cookie) CULVERT_FUSE("notify_retrieve");

void fuse_session_destroy(struct fuse_session *session) CULVERT_FUSE("session_destroy");
void fuse_session_exit(struct fuse_session *session) CULVERT_FUSE("session_exit");
void fuse_session_reset(struct fuse_session *session) CULVERT_FUSE("session_reset");
int fuse_session_exited(struct fuse_session *session) CULVERT_FUSE("session_exited");
int fuse_session_loop(struct fuse_session *session) CULVERT_FUSE("session_loop");
struct fuse_session *culvert_fuse_session_new(struct fuse_args *args,
                                              const struct fuse_lowlevel_ops *operations,
                                              size_t size, void *data, int version);

#if FUSE_USE_VERSION >= 30
#define fuse_session_new(args, operations, size, data) \
    culvert_fuse_session_new(args, operations, size, data, FUSE_USE_VERSION)
struct fuse_cmdline_opts {
    int singlethread;
    int foreground;
    int debug;
    int nodefault_subtype;
    char *mountpoint;
    int show_version;
    int show_help;
    int clone_fd;
    unsigned int max_idle_threads;
    unsigned int max_threads;
};
int fuse_parse_cmdline(struct fuse_args *args, struct fuse_cmdline_opts *opts)
    CULVERT_FUSE("parse_cmdline_3");
void fuse_cmdline_help(void) CULVERT_FUSE("cmdline_help");
void fuse_lowlevel_help(void) CULVERT_FUSE("lowlevel_help");
void fuse_lowlevel_version(void) CULVERT_FUSE("lowlevel_version");
int fuse_session_mount(struct fuse_session *session, const char *target)
    CULVERT_FUSE("session_mount");
void fuse_session_unmount(struct fuse_session *session) CULVERT_FUSE("session_unmount");
#if FUSE_USE_VERSION < 32
int fuse_session_loop_mt(struct fuse_session *session, int clone_fd)
    CULVERT_FUSE("session_loop_mt_31");
#elif FUSE_USE_VERSION < 312
int fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config)
    CULVERT_FUSE("session_loop_mt_32");
#else
int fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config)
    CULVERT_FUSE("session_loop_mt_312");
#endif
int fuse_session_fd(struct fuse_session *session) CULVERT_FUSE("session_fd");
int fuse_session_receive_buf(struct fuse_session *session, struct fuse_buf *buffer)
    CULVERT_FUSE("session_receive_buf");
void fuse_session_process_buf(struct fuse_session *session, const struct fuse_buf *buffer)
    CULVERT_FUSE("session_process_buf");
int fuse_session_custom_io(struct fuse_session *session, const struct fuse_custom_io *io, int fd)
    CULVERT_FUSE("session_custom_io");
#else
#define fuse_lowlevel_new(args, operations, size, data) \
    culvert_fuse_session_new(args, operations, size, data, FUSE_USE_VERSION)
int fuse_session_loop_mt(struct fuse_session *session) CULVERT_FUSE("session_loop_mt_2");
void fuse_session_add_chan(struct fuse_session *session, struct fuse_chan *channel)
    CULVERT_FUSE("session_add_chan");
void fuse_session_remove_chan(struct fuse_chan *channel) CULVERT_FUSE("session_remove_chan");
struct fuse_chan *fuse_session_next_chan(struct fuse_session *session, struct fuse_chan *channel)
    CULVERT_FUSE("session_next_chan");
void *fuse_session_data(struct fuse_session *session) CULVERT_FUSE("session_data");
void fuse_session_process(struct fuse_session *session, const char *buffer, size_t length,
                          struct fuse_chan *channel) CULVERT_FUSE("session_process");
int fuse_chan_fd(struct fuse_chan *channel) CULVERT_FUSE("chan_fd");
size_t fuse_chan_bufsize(struct fuse_chan *channel) CULVERT_FUSE("chan_bufsize");
void *fuse_chan_data(struct fuse_chan *channel) CULVERT_FUSE("chan_data");
struct fuse_session *fuse_chan_session(struct fuse_chan *channel) CULVERT_FUSE("chan_session");
int fuse_chan_recv(struct fuse_chan **channel, char *buffer, size_t size)
    CULVERT_FUSE("chan_recv");
void fuse_chan_destroy(struct fuse_chan *channel) CULVERT_FUSE("chan_destroy");
#endif

#ifdef __cplusplus
}
#endif
#endif
