/* What both interfaces, by paths and by nodes, have. */
#ifndef CULVERT_FUSE_COMMON_H
#define CULVERT_FUSE_COMMON_H

#include <stdint.h>
#include <sys/types.h>

#include "fuse_log.h"
#include "fuse_opt.h"

#define FUSE_MAKE_VERSION(major, minor) \
    ((major) < 3 ? (major) * 10 + (minor) : (major) * 100 + (minor))
#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 29
#endif
#if FUSE_USE_VERSION < 22
#error "FUSE_USE_VERSION is older than 22, the oldest interface that Culvert has"
#endif

#if FUSE_USE_VERSION < 30
#define FUSE_MAJOR_VERSION 2
#define FUSE_MINOR_VERSION 9
#else
#define FUSE_MAJOR_VERSION 3
#define FUSE_MINOR_VERSION 14
#define FUSE_HOTFIX_VERSION 0
#endif
#define FUSE_VERSION FUSE_MAKE_VERSION(FUSE_MAJOR_VERSION, FUSE_MINOR_VERSION)

#if defined(_FILE_OFFSET_BITS) && _FILE_OFFSET_BITS != 64
#error "sizes of files have 64 bits: -D_FILE_OFFSET_BITS=64"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An open file or directory. */
struct fuse_file_info {
    int flags;
    int writepage;
    unsigned int direct_io : 1;
    unsigned int keep_cache : 1;
    unsigned int flush : 1;
    unsigned int nonseekable : 1;
    unsigned int flock_release : 1;
    unsigned int cache_readdir : 1;
    unsigned int noflush : 1;
    unsigned int parallel_direct_writes : 1;
    unsigned int padding : 24;
    uint32_t poll_events;
    unsigned long fh_old;
    uint64_t fh;
    uint64_t lock_owner;
};

#define FUSE_CAP_ASYNC_READ (1 << 0)
#define FUSE_CAP_POSIX_LOCKS (1 << 1)
#define FUSE_CAP_ATOMIC_O_TRUNC (1 << 3)
#define FUSE_CAP_EXPORT_SUPPORT (1 << 4)
#define FUSE_CAP_BIG_WRITES (1 << 5)
#define FUSE_CAP_DONT_MASK (1 << 6)
#define FUSE_CAP_SPLICE_WRITE (1 << 7)
#define FUSE_CAP_SPLICE_MOVE (1 << 8)
#define FUSE_CAP_SPLICE_READ (1 << 9)
#define FUSE_CAP_FLOCK_LOCKS (1 << 10)
#define FUSE_CAP_IOCTL_DIR (1 << 11)
#define FUSE_CAP_AUTO_INVAL_DATA (1 << 12)
#define FUSE_CAP_READDIRPLUS (1 << 13)
#define FUSE_CAP_READDIRPLUS_AUTO (1 << 14)
#define FUSE_CAP_ASYNC_DIO (1 << 15)
#define FUSE_CAP_WRITEBACK_CACHE (1 << 16)
#define FUSE_CAP_NO_OPEN_SUPPORT (1 << 17)
#define FUSE_CAP_PARALLEL_DIROPS (1 << 18)
#define FUSE_CAP_POSIX_ACL (1 << 19)
#define FUSE_CAP_HANDLE_KILLPRIV (1 << 20)
#define FUSE_CAP_CACHE_SYMLINKS (1 << 23)
#define FUSE_CAP_NO_OPENDIR_SUPPORT (1 << 24)
#define FUSE_CAP_EXPLICIT_INVAL_DATA (1 << 25)
#define FUSE_CAP_EXPIRE_ONLY (1 << 26)

#define FUSE_IOCTL_COMPAT (1 << 0)
#define FUSE_IOCTL_UNRESTRICTED (1 << 1)
#define FUSE_IOCTL_RETRY (1 << 2)
#define FUSE_IOCTL_DIR (1 << 4)
#define FUSE_IOCTL_MAX_IOV 256

/* The connection: what the kernel can (`capable`) and the file system wants of it (`want`). */
struct fuse_conn_info {
    unsigned int proto_major;
    unsigned int proto_minor;
    unsigned int async_read;
    unsigned int max_write;
    unsigned int max_read;
    unsigned int max_readahead;
    unsigned int capable;
    unsigned int want;
    unsigned int max_background;
    unsigned int congestion_threshold;
    unsigned int time_gran;
    unsigned int reserved[21];
};

struct fuse_session;
struct fuse_chan;
struct fuse_pollhandle;
struct fuse_conn_info_opts;

void fuse_pollhandle_destroy(struct fuse_pollhandle *handle) CULVERT_FUSE("pollhandle_destroy");
int fuse_set_signal_handlers(struct fuse_session *session) CULVERT_FUSE("set_signal_handlers");
void fuse_remove_signal_handlers(struct fuse_session *session)
    CULVERT_FUSE("remove_signal_handlers");

#if FUSE_USE_VERSION < 30
int fuse_daemonize(int foreground) CULVERT_FUSE("daemonize_2");
/* Versions 22 to 25 have fuse_main alone: these had other arguments there. */
#if FUSE_USE_VERSION >= 26
struct fuse_chan *fuse_mount(const char *target, struct fuse_args *args) CULVERT_FUSE("mount_2");
void fuse_unmount(const char *target, struct fuse_chan *channel) CULVERT_FUSE("unmount_2");
#endif
int fuse_parse_cmdline(struct fuse_args *args, char **target, int *multithreaded, int *foreground)
    CULVERT_FUSE("parse_cmdline_2");
int fuse_version(void) CULVERT_FUSE("version_2");
#else
int fuse_daemonize(int foreground) CULVERT_FUSE("daemonize_3");
int fuse_version(void) CULVERT_FUSE("version_3");
const char *fuse_pkgversion(void) CULVERT_FUSE("pkgversion");
struct fuse_conn_info_opts *fuse_parse_conn_info_opts(struct fuse_args *args)
    CULVERT_FUSE("parse_conn_info_opts");
void fuse_apply_conn_info_opts(struct fuse_conn_info_opts *opts, struct fuse_conn_info *connection)
    CULVERT_FUSE("apply_conn_info_opts");

/* How a loop of several threads runs; from 3.12 on functions alone say what is in it. */
#if FUSE_USE_VERSION >= 312
struct fuse_loop_config;
#else
struct fuse_loop_config {
    int clone_fd;
    unsigned int max_idle_threads;
};
#endif
struct fuse_loop_config *fuse_loop_cfg_create(void) CULVERT_FUSE("loop_cfg_create");
void fuse_loop_cfg_destroy(struct fuse_loop_config *config) CULVERT_FUSE("loop_cfg_destroy");
void fuse_loop_cfg_set_idle_threads(struct fuse_loop_config *config, unsigned int value)
    CULVERT_FUSE("loop_cfg_set_idle_threads");
void fuse_loop_cfg_set_max_threads(struct fuse_loop_config *config, unsigned int value)
    CULVERT_FUSE("loop_cfg_set_max_threads");
void fuse_loop_cfg_set_clone_fd(struct fuse_loop_config *config, unsigned int value)
    CULVERT_FUSE("loop_cfg_set_clone_fd");
#endif

/* Bytes in memory, or behind a descriptor. */
enum fuse_buf_flags {
    FUSE_BUF_IS_FD = (1 << 1),
    FUSE_BUF_FD_SEEK = (1 << 2),
    FUSE_BUF_FD_RETRY = (1 << 3)
};

enum fuse_buf_copy_flags {
    FUSE_BUF_NO_SPLICE = (1 << 1),
    FUSE_BUF_FORCE_SPLICE = (1 << 2),
    FUSE_BUF_SPLICE_MOVE = (1 << 3),
    FUSE_BUF_SPLICE_NONBLOCK = (1 << 4)
};

struct fuse_buf {
    size_t size;
    enum fuse_buf_flags flags;
    void *mem;
    int fd;
    off_t pos;
    size_t mem_size;
};

struct fuse_bufvec {
    size_t count;
    size_t idx;
    size_t off;
    struct fuse_buf buf[1];
};

#ifdef __cplusplus
#define CULVERT_FUSE_NO_FLAGS static_cast<enum fuse_buf_flags>(0)
#else
#define CULVERT_FUSE_NO_FLAGS ((enum fuse_buf_flags)0)
#endif
#define FUSE_BUFVEC_INIT(size) \
    ((struct fuse_bufvec){1, 0, 0, {{(size), CULVERT_FUSE_NO_FLAGS, NULL, -1, 0, 0}}})

size_t fuse_buf_size(const struct fuse_bufvec *vector) CULVERT_FUSE("buf_size");
ssize_t fuse_buf_copy(struct fuse_bufvec *to, struct fuse_bufvec *from,
                      enum fuse_buf_copy_flags flags) CULVERT_FUSE("buf_copy");

#ifdef __cplusplus
}
#endif
#endif
