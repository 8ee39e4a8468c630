/* What both baselines are made of: a table of descriptors of their own, over one back end by paths,
 * which is a directory as it is. Paths below BASELINE_TARGET lead to BASELINE_SOURCE. */
#ifndef TABLE_H
#define TABLE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The back end: a result, or an errno, negative. */
struct operations {
    int (*getattr)(const char *path, struct stat *found);
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int file);
    ssize_t (*read)(int file, void *buffer, size_t size, off_t offset);
    ssize_t (*write)(int file, const void *buffer, size_t size, off_t offset);
    int (*fgetattr)(int file, struct stat *found);
    int (*unlink)(const char *path);
};

static long result(long done)
{
    return done < 0 ? -errno : done;
}

static int direct_getattr(const char *path, struct stat *found)
{
    return (int)result(syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW));
}

static int direct_open(const char *path, int flags, mode_t mode)
{
    return (int)result(syscall(SYS_openat, AT_FDCWD, path, flags & ~O_APPEND, mode));
}

static int direct_close(int file)
{
    return (int)result(syscall(SYS_close, file));
}

static ssize_t direct_read(int file, void *buffer, size_t size, off_t offset)
{
    return result(syscall(SYS_pread64, file, buffer, size, offset));
}

static ssize_t direct_write(int file, const void *buffer, size_t size, off_t offset)
{
    return result(syscall(SYS_pwrite64, file, buffer, size, offset));
}

static int direct_fgetattr(int file, struct stat *found)
{
    return (int)result(syscall(SYS_fstat, file, found));
}

static int direct_unlink(const char *path)
{
    return (int)result(syscall(SYS_unlink, path));
}

static const struct operations direct = {
    direct_getattr, direct_open, direct_close, direct_read, direct_write, direct_fgetattr, direct_unlink,
};

/* Descriptors of the table have numbers that the kernel gives nobody. */
enum { FIRST = 1 << 20, MOST = 1024 };

static struct entry {
    pthread_mutex_t lock;
    int used;
    int file;
    int flags;
    off_t offset;
} table[MOST];

static const char *target, *source;
static size_t target_length;

__attribute__((constructor)) static void begin(void)
{
    target = getenv("BASELINE_TARGET");
    source = getenv("BASELINE_SOURCE");
    target_length = target ? strlen(target) : 0;
    for (int i = 0; i < MOST; i++)
        pthread_mutex_init(&table[i].lock, NULL);
}

/* Whether the path lies below the target; where it lies below the source. */
static int is_inside(const char *path, char place[4096])
{
    if (!target || !source || strncmp(path, target, target_length) || path[target_length] != '/')
        return 0;
    return snprintf(place, 4096, "%s%s", source, path + target_length) < 4096;
}

static struct entry *entry(int fd)
{
    struct entry *found = fd >= FIRST && fd < FIRST + MOST ? &table[fd - FIRST] : NULL;
    return found && found->used ? found : NULL;
}

static long told(long done)
{
    if (done < 0) {
        errno = (int)-done;
        return -1;
    }
    return done;
}

static int table_open(const char *place, int flags, mode_t mode)
{
    for (int i = 0; i < MOST; i++) {
        int none = 0;
        if (!__atomic_compare_exchange_n(&table[i].used, &none, 1, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        int file = direct.open(place, flags, mode);
        if (file < 0) {
            table[i].used = 0;
            return (int)told(file);
        }
        table[i].file = file;
        table[i].flags = flags;
        table[i].offset = 0;
        return FIRST + i;
    }
    errno = EMFILE;
    return -1;
}

static int table_close(struct entry *open)
{
    int done = direct.close(open->file);
    __atomic_store_n(&open->used, 0, __ATOMIC_RELEASE);
    return (int)told(done);
}

static ssize_t table_read(struct entry *open, void *buffer, size_t size)
{
    pthread_mutex_lock(&open->lock);
    ssize_t done = direct.read(open->file, buffer, size, open->offset);
    open->offset += done > 0 ? done : 0;
    pthread_mutex_unlock(&open->lock);
    return told(done);
}

static ssize_t table_write(struct entry *open, const void *buffer, size_t size)
{
    struct stat found;
    pthread_mutex_lock(&open->lock);
    if (open->flags & O_APPEND && direct.fgetattr(open->file, &found) == 0)
        open->offset = found.st_size;
    ssize_t done = direct.write(open->file, buffer, size, open->offset);
    open->offset += done > 0 ? done : 0;
    pthread_mutex_unlock(&open->lock);
    return told(done);
}

static off_t table_seek(struct entry *open, off_t offset, int whence)
{
    struct stat found = { 0 };
    int failed = whence == SEEK_END ? direct.fgetattr(open->file, &found) : 0;
    if (failed)
        return told(failed);
    pthread_mutex_lock(&open->lock);
    open->offset = offset + (whence == SEEK_CUR ? open->offset : found.st_size);
    offset = open->offset;
    pthread_mutex_unlock(&open->lock);
    return offset;
}
#endif
