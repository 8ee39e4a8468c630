/* A baseline: a library for LD_PRELOAD that puts its functions in place of libc's, with a table of
 * descriptors of its own, as DEFUSE's paper measures it. It knows what bench/programs/files.c calls. */
#define _GNU_SOURCE
#include "table.h"
#include <dlfcn.h>

#define NEXT(name) ((__typeof__(&name))next(#name, &next_##name))
#define KEPT(name) static void *next_##name

static void *next(const char *name, void **kept)
{
    if (!*kept)
        *kept = dlsym(RTLD_NEXT, name);
    return *kept;
}

KEPT(open);
int open(const char *path, int flags, ...)
{
    char place[4096];
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return is_inside(path, place) ? table_open(place, flags, mode) : NEXT(open)(path, flags, mode);
}

KEPT(close);
int close(int fd)
{
    struct entry *found = entry(fd);
    return found ? table_close(found) : NEXT(close)(fd);
}

KEPT(read);
ssize_t read(int fd, void *buffer, size_t size)
{
    struct entry *found = entry(fd);
    return found ? table_read(found, buffer, size) : NEXT(read)(fd, buffer, size);
}

KEPT(write);
ssize_t write(int fd, const void *buffer, size_t size)
{
    struct entry *found = entry(fd);
    return found ? table_write(found, buffer, size) : NEXT(write)(fd, buffer, size);
}

KEPT(pread);
ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    struct entry *found = entry(fd);
    return found ? told(direct.read(found->file, buffer, size, offset))
                 : NEXT(pread)(fd, buffer, size, offset);
}

KEPT(pwrite);
ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
    struct entry *found = entry(fd);
    return found ? told(direct.write(found->file, buffer, size, offset))
                 : NEXT(pwrite)(fd, buffer, size, offset);
}

KEPT(lseek);
off_t lseek(int fd, off_t offset, int whence)
{
    struct entry *found = entry(fd);
    return found ? table_seek(found, offset, whence) : NEXT(lseek)(fd, offset, whence);
}

KEPT(fstat);
int fstat(int fd, struct stat *about)
{
    struct entry *found = entry(fd);
    return found ? (int)told(direct.fgetattr(found->file, about)) : NEXT(fstat)(fd, about);
}

KEPT(unlink);
int unlink(const char *path)
{
    char place[4096];
    return is_inside(path, place) ? (int)told(direct.unlink(place)) : NEXT(unlink)(path);
}
