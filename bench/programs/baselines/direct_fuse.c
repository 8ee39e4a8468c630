/* A baseline: a library as Direct-FUSE is one. Paths are walked component by component, each by the
 * back end's getattr, as FUSE's high level and libsysio do; what was found is remembered for
 * directories. */
#define _GNU_SOURCE
#define DIRECT_FUSE
#include "table.h"
#include "direct_fuse.h"

/* Directories that were walked. */
static char known[64][4096];
static int count;

static int is_known(const char *directory)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(known[i], directory))
            return 1;
    return 0;
}

/* The directories above `place`, below the source, are directories: 0, or an errno, negative. */
static int walk(char place[4096])
{
    struct stat found;
    for (char *at = strchr(place + strlen(source) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (!is_known(place)) {
            int failed = direct.getattr(place, &found);
            if (!failed && !S_ISDIR(found.st_mode))
                failed = -ENOTDIR;
            if (failed) {
                *at = '/';
                return failed;
            }
            if (count < 64)
                strcpy(known[count++], place);
        }
        *at = '/';
    }
    return 0;
}

int linked_open(const char *path, int flags, ...)
{
    char place[4096];
    struct stat found;
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!is_inside(path, place))
        return open(path, flags, mode);
    int failed = walk(place);
    /* The last component is looked up, too: an open of FUSE follows a LOOKUP. */
    if (!failed)
        failed = direct.getattr(place, &found);
    if (failed == -ENOENT && flags & O_CREAT)
        failed = 0;
    return failed ? (int)told(failed) : table_open(place, flags, mode);
}

int linked_close(int fd)
{
    struct entry *found = entry(fd);
    return found ? table_close(found) : close(fd);
}

ssize_t linked_read(int fd, void *buffer, size_t size)
{
    struct entry *found = entry(fd);
    return found ? table_read(found, buffer, size) : read(fd, buffer, size);
}

ssize_t linked_write(int fd, const void *buffer, size_t size)
{
    struct entry *found = entry(fd);
    return found ? table_write(found, buffer, size) : write(fd, buffer, size);
}

ssize_t linked_pread(int fd, void *buffer, size_t size, off_t offset)
{
    struct entry *found = entry(fd);
    return found ? told(direct.read(found->file, buffer, size, offset)) : pread(fd, buffer, size, offset);
}

off_t linked_lseek(int fd, off_t offset, int whence)
{
    struct entry *found = entry(fd);
    return found ? table_seek(found, offset, whence) : lseek(fd, offset, whence);
}

int linked_unlink(const char *path)
{
    char place[4096];
    struct stat found;
    if (!is_inside(path, place))
        return unlink(path);
    int failed = walk(place);
    if (!failed)
        failed = direct.getattr(place, &found);
    return (int)told(failed ? failed : direct.unlink(place));
}
