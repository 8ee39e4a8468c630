/* The null file system in C, by culvert/driver.h: one directory of names, sizes and modes, whose files
 * read as zeroes and keep nothing of what is written. Null.java and the others do the same. */
#define _GNU_SOURCE
#include <culvert/driver.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 14 };

struct node {
    struct node *next;
    uint64_t inode;
    off_t size;
    mode_t mode;
    int users;
    char name[256];
};

static struct node *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inodes = 1;
static size_t count;

static struct node **place(const char *path)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
    struct node **at = &buckets[hash % BUCKETS];
    while (*at && strcmp((*at)->name, path))
        at = &(*at)->next;
    return at;
}

static void fill(const struct node *node, struct stat *found)
{
    memset(found, 0, sizeof *found);
    found->st_ino = node ? node->inode : 1;
    found->st_mode = node ? node->mode : S_IFDIR | 0777;
    found->st_nlink = node ? 1 : 2;
    found->st_size = node ? node->size : 0;
}

static int null_getattr(void *state, const char *path, struct stat *found)
{
    (void)state;
    pthread_mutex_lock(&lock);
    const struct node *node = *path ? *place(path) : NULL;
    if (node || !*path)
        fill(node, found);
    pthread_mutex_unlock(&lock);
    return node || !*path ? 0 : ENOENT;
}

static int null_fgetattr(void *state, void *file, struct stat *found)
{
    (void)state;
    fill(file, found);
    return 0;
}

static int null_open(void *state, const char *path, int flags, mode_t mode, void **file)
{
    (void)state;
    pthread_mutex_lock(&lock);
    struct node **at = place(path);
    if (!*at && flags & O_CREAT) {
        *at = calloc(1, sizeof **at);
        strncpy((*at)->name, path, sizeof (*at)->name - 1);
        (*at)->inode = ++inodes;
        (*at)->mode = S_IFREG | mode;
        count++;
    }
    struct node *node = *at;
    if (node) {
        node->users++;
        if (flags & O_TRUNC)
            node->size = 0;
    }
    pthread_mutex_unlock(&lock);
    *file = node;
    return node ? 0 : ENOENT;
}

static int null_close(void *state, void *file)
{
    (void)state;
    struct node *node = file;
    pthread_mutex_lock(&lock);
    int gone = --node->users == 0 && !node->inode;
    pthread_mutex_unlock(&lock);
    if (gone)
        free(node);
    return 0;
}

static int null_read(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *done)
{
    (void)state;
    off_t left = ((struct node *)file)->size - offset;
    size_t found = left <= 0 ? 0 : (size_t)left < size ? (size_t)left : size;
    memset(buffer, 0, found);
    *done = found;
    return 0;
}

static int null_write(void *state, void *file, const void *buffer, size_t size, off_t offset,
                      size_t *done)
{
    (void)state, (void)buffer;
    struct node *node = file;
    pthread_mutex_lock(&lock);
    if (node->size < offset + (off_t)size)
        node->size = offset + size;
    pthread_mutex_unlock(&lock);
    *done = size;
    return 0;
}

static int null_ftruncate(void *state, void *file, off_t size)
{
    (void)state;
    ((struct node *)file)->size = size;
    return 0;
}

static int null_truncate(void *state, const char *path, off_t size)
{
    (void)state;
    pthread_mutex_lock(&lock);
    struct node *node = *place(path);
    if (node)
        node->size = size;
    pthread_mutex_unlock(&lock);
    return node ? 0 : ENOENT;
}

static void forget(struct node **at)
{
    struct node *node = *at;
    *at = node->next;
    node->inode = 0;
    count--;
    if (!node->users)
        free(node);
}

static int null_unlink(void *state, const char *path)
{
    (void)state;
    pthread_mutex_lock(&lock);
    struct node **at = place(path);
    int error = *at ? 0 : ENOENT;
    if (!error)
        forget(at);
    pthread_mutex_unlock(&lock);
    return error;
}

static int null_rename(void *state, const char *from, const char *to, unsigned flags)
{
    (void)state, (void)flags;
    pthread_mutex_lock(&lock);
    struct node **at = place(from), *node = *at;
    if (node) {
        *at = node->next;
        if (*(at = place(to)))
            forget(at);
        strncpy(node->name, to, sizeof node->name - 1);
        at = place(to);
        node->next = NULL;
        *at = node;
    }
    pthread_mutex_unlock(&lock);
    return node ? 0 : ENOENT;
}

static int null_chmod(void *state, const char *path, mode_t mode)
{
    (void)state;
    pthread_mutex_lock(&lock);
    struct node *node = *path ? *place(path) : NULL;
    if (node)
        node->mode = S_IFREG | mode;
    pthread_mutex_unlock(&lock);
    return node || !*path ? 0 : ENOENT;
}

static int null_utime(void *state, const char *path, const struct timespec times[2])
{
    (void)state, (void)path, (void)times;
    return 0;
}

static int null_getdirents(void *state, const char *path, struct culvert_dirent *entries,
                           size_t capacity, size_t *found)
{
    (void)state, (void)path;
    size_t at = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct node *node = buckets[i]; node && at < capacity; node = node->next, at++) {
            entries[at].inode = node->inode;
            entries[at].type = S_IFREG;
            strcpy(entries[at].name, node->name);
        }
    *found = count;
    pthread_mutex_unlock(&lock);
    return 0;
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof(struct culvert_driver),
    .flags = CULVERT_KEEPS_UNLINKED,
    .open = null_open,
    .close = null_close,
    .read = null_read,
    .write = null_write,
    .ftruncate = null_ftruncate,
    .fgetattr = null_fgetattr,
    .getattr = null_getattr,
    .truncate = null_truncate,
    .unlink = null_unlink,
    .getdirents = null_getdirents,
    .chmod = null_chmod,
    .rename = null_rename,
    .utime = null_utime,
};
