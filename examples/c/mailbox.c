#define _GNU_SOURCE
/* Mailboxes: writing puts a message into a file, reading takes the first one. It shows the functions that
 * wait and tell: poll(2), flock(2), directories that keep their names, changes by others.
 *
 *     cc -shared -fPIC -I include -o libmailbox.so mailbox.c -pthread
 *     culvert mount -t ./libmailbox.so none /mnt
 */
#include <culvert/driver.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { BOXES = 16, OWNERS = 16 };

struct message {
    struct message *next;
    size_t size;
    char text[];
};

struct opened;

static struct box {
    char name[256];
    struct message *first;
    struct opened *open;
    /* Who has a lock on it, and which: LOCK_SH or LOCK_EX. */
    uint64_t owners[OWNERS];
    int how[OWNERS];
} boxes[BOXES];

/* An open file of a box. */
struct opened {
    struct opened *next;
    struct box *box;
    struct culvert_waker *waker;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct culvert_observer *observer;

static int done(int result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

static struct box *box(const char *name)
{
    for (int i = 0; i < BOXES; i++)
        if (!strcmp(boxes[i].name, name))
            return &boxes[i];
    return NULL;
}

static int mailbox_getattr(void *state, const char *path, struct stat *found)
{
    (void)state;
    found->st_mode = S_IFDIR | 0755;
    if (!*path)
        return 0;
    pthread_mutex_lock(&lock);
    found->st_mode = S_IFREG | 0666;
    return done(box(path) ? 0 : ENOENT);
}

static int mailbox_open(void *state, const char *path, int flags, mode_t mode, void **file)
{
    struct opened *made = calloc(1, sizeof *made);
    (void)state, (void)mode;
    if (!made)
        return ENOMEM;
    pthread_mutex_lock(&lock);
    made->box = box(path);
    if (made->box && flags & O_CREAT) {
        free(made);
        return done(EEXIST);
    }
    if (!made->box && flags & O_CREAT && (made->box = box("")))
        strncpy(made->box->name, path, sizeof made->box->name - 1);
    if (!made->box) {
        free(made);
        return done(flags & O_CREAT ? ENOSPC : ENOENT);
    }
    made->next = made->box->open;
    made->box->open = made;
    *file = made;
    return done(0);
}

static int mailbox_close(void *state, void *file)
{
    struct opened *open = file, **at;
    (void)state;
    pthread_mutex_lock(&lock);
    for (at = &open->box->open; *at != open; at = &(*at)->next)
        ;
    *at = open->next;
    pthread_mutex_unlock(&lock);
    if (open->waker)
        open->waker->drop(open->waker);
    free(open);
    return 0;
}

static int mailbox_write(void *state, void *file, const void *text, size_t size, off_t offset,
                         size_t *taken)
{
    struct opened *open = file;
    struct message *made = malloc(sizeof *made + size), **end;
    (void)state, (void)offset;
    if (!made)
        return ENOMEM;
    made->next = NULL;
    made->size = size;
    memcpy(made->text, text, size);
    pthread_mutex_lock(&lock);
    for (end = &open->box->first; *end; end = &(*end)->next)
        ;
    *end = made;
    for (struct opened *one = open->box->open; one; one = one->next)
        if (one->waker)
            one->waker->wake(one->waker);
    if (observer)
        observer->tell(observer, CULVERT_CONTENT, open->box->name);
    *taken = size;
    return done(0);
}

static int mailbox_read(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *given)
{
    struct opened *open = file;
    struct message *first;
    (void)state, (void)offset;
    pthread_mutex_lock(&lock);
    first = open->box->first;
    if (!first)
        return done(0);
    if (first->size > size)
        return done(EMSGSIZE);
    memcpy(buffer, first->text, *given = first->size);
    open->box->first = first->next;
    free(first);
    return done(0);
}

/* A shell's > asks for it. Messages stay. */
static int mailbox_truncate(void *state, const char *path, off_t size)
{
    (void)state, (void)path;
    return size ? EINVAL : 0;
}

static int mailbox_poll(void *state, void *file, struct culvert_waker *waker, unsigned *events)
{
    struct opened *open = file;
    struct culvert_waker *before = NULL;
    (void)state;
    pthread_mutex_lock(&lock);
    *events = POLLOUT | POLLWRNORM | (open->box->first ? POLLIN | POLLRDNORM : 0);
    if (waker) {
        before = open->waker;
        open->waker = waker;
    }
    pthread_mutex_unlock(&lock);
    if (before)
        before->drop(before);
    return 0;
}

/* 0, or EAGAIN where somebody else has it. */
static int try_flock(struct box *of, uint64_t owner, int operation)
{
    int place = -1;
    for (int i = 0; i < OWNERS; i++)
        if (of->how[i] && of->owners[i] == owner)
            of->how[i] = 0;
    for (int i = 0; i < OWNERS && operation != LOCK_UN; i++) {
        if (of->how[i] && (operation == LOCK_EX || of->how[i] == LOCK_EX))
            return EAGAIN;
        if (!of->how[i])
            place = i;
    }
    if (operation == LOCK_UN)
        return 0;
    if (place < 0)
        return ENOLCK;
    of->owners[place] = owner;
    of->how[place] = operation;
    return 0;
}

static int mailbox_flock(void *state, void *file, uint64_t owner, int operation,
                         const struct culvert_wait *wait)
{
    struct opened *open = file;
    (void)state;
    for (;;) {
        struct timespec moment = { 0, 10 * 1000 * 1000 };
        int result;
        pthread_mutex_lock(&lock);
        result = done(try_flock(open->box, owner, operation));
        if (result != EAGAIN || !wait)
            return result;
        if (wait->interrupted(wait))
            return EINTR;
        nanosleep(&moment, NULL);
    }
}

/* An open directory: the names at that time. */
struct names {
    size_t count;
    struct culvert_dirent all[BOXES];
};

static int mailbox_opendir(void *state, const char *path, void **directory)
{
    struct names *made = calloc(1, sizeof *made);
    (void)state, (void)path;
    if (!made)
        return ENOMEM;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BOXES; i++) {
        if (!*boxes[i].name)
            continue;
        made->all[made->count].type = S_IFREG;
        strcpy(made->all[made->count++].name, boxes[i].name);
    }
    *directory = made;
    return done(0);
}

static int mailbox_listdir(void *state, void *directory, struct culvert_dirent *entries,
                           size_t capacity, size_t *count)
{
    const struct names *kept = directory;
    (void)state;
    *count = kept->count;
    memcpy(entries, kept->all, (kept->count < capacity ? kept->count : capacity) * sizeof *entries);
    return 0;
}

static int mailbox_closedir(void *state, void *directory)
{
    (void)state;
    free(directory);
    return 0;
}

static int mailbox_observe(void *state, const struct culvert_observer *given)
{
    (void)state;
    observer = given;
    return 0;
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_NO_CACHE,
    .open = mailbox_open,
    .close = mailbox_close,
    .read = mailbox_read,
    .write = mailbox_write,
    .getattr = mailbox_getattr,
    .truncate = mailbox_truncate,
    .poll = mailbox_poll,
    .flock = mailbox_flock,
    .opendir = mailbox_opendir,
    .listdir = mailbox_listdir,
    .closedir = mailbox_closedir,
    .observe = mailbox_observe,
};
