#define _GNU_SOURCE
/* One file that greets, and counts how often it was opened: all programs of a run see one count.
 *
 *     cc -shared -fPIC -I include -o libhello.so hello.c
 *     culvert run --mount type=./libhello.so,source=world,target=/tmp/hello -- cat /tmp/hello/hello
 */
#include <culvert/driver.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hello {
    char whom[200];
    atomic_int opened;
};

static int init(const struct culvert_mount *mount, void **state)
{
    struct hello *hello = calloc(1, sizeof *hello);
    if (!hello)
        return ENOMEM;
    snprintf(hello->whom, sizeof hello->whom, "%s", mount->source);
    *state = hello;
    return 0;
}

static void finalize(void *state)
{
    free(state);
}

static int getattr(void *state, const char *path, struct stat *found)
{
    (void)state;
    if (!*path) {
        found->st_mode = S_IFDIR | 0555;
    } else if (!strcmp(path, "hello")) {
        found->st_mode = S_IFREG | 0444;
    } else {
        return ENOENT;
    }
    return 0;
}

static int getdirents(void *state, const char *path, struct culvert_dirent *entries, size_t capacity,
                      size_t *count)
{
    (void)state, (void)path;
    *count = 1;
    if (capacity) {
        entries->type = S_IFREG;
        strcpy(entries->name, "hello");
    }
    return 0;
}

/* The greeting of one opening. */
static int open_file(void *state, const char *path, int flags, mode_t mode, void **file)
{
    struct hello *hello = state;
    char *text;
    (void)path, (void)flags, (void)mode;
    if (asprintf(&text, "Hello, %s! (%d)\n", hello->whom, ++hello->opened) < 0)
        return ENOMEM;
    *file = text;
    return 0;
}

static int close_file(void *state, void *file)
{
    (void)state;
    free(file);
    return 0;
}

static int read_file(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *done)
{
    size_t length = strlen(file);
    (void)state;
    if ((size_t)offset < length) {
        *done = length - offset < size ? length - offset : size;
        memcpy(buffer, (char *)file + offset, *done);
    }
    return 0;
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_NO_CACHE,
    .init = init,
    .finalize = finalize,
    .open = open_file,
    .close = close_file,
    .read = read_file,
    .getattr = getattr,
    .getdirents = getdirents,
};
