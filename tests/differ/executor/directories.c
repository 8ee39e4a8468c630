/* Directories: lists, lists in pieces while names change, and everything below a directory. */
#include "executor.h"
#include "arguments.h"
#include <dirent.h>
#include <sys/xattr.h>

struct record {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

struct entry {
    char *name;
    uint8_t type;
    int64_t offset;
};

struct list {
    struct entry *entries;
    size_t count;
    /* Number of the step that began it. */
    int began;
    /* Where its descriptor stands: somebody else may move it, and then the list is not whole. */
    int64_t position;
    bool partial;
};

/* What `getdents` has read from each slot's description (or from any other descriptor) since it
 * stood at its start. */
static struct list lists[SLOTS + 1];

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Appends what one call returns; its result. */
static long read_some(int fd, long size, struct list *list)
{
    char *records = buffer(size, NULL);
    long got = syscall(SYS_getdents64, fd, records, size);
    for (long at = 0; at < got;) {
        struct record *record = (struct record *)(records + at);
        list->entries = realloc(list->entries, (list->count + 1) * sizeof *list->entries);
        list->entries[list->count++] = (struct entry){ strdup(record->name), record->type, record->offset };
        at += record->length;
    }
    return got;
}

static long read_all(int fd, long size, struct list *list)
{
    long got;
    while ((got = read_some(fd, size, list)) > 0)
        ;
    return got;
}

static bool changed_since(const char *name, int step)
{
    for (uint32_t i = 0; i < control->touched; i++)
        if (control->touch[i].step >= (uint32_t)step && !strcmp(control->touch[i].name, name))
            return true;
    return false;
}

/* Names are sorted: their order is the file system's own. A name twice is shown twice. */
static void show_list(struct list *list, bool only_unchanged)
{
    qsort(list->entries, list->count, sizeof *list->entries, by_name);
    for (size_t i = 0; i < list->count; i++) {
        /* A removed file that a server of libfuse still has open: whether it is seen in the rest of a list
         * is up to where that stood. */
        if (strncmp(list->entries[i].name, ".fuse_hidden", 12) == 0)
            continue;
        if (only_unchanged && changed_since(list->entries[i].name, list->began))
            continue;
        out(" ");
        out_name(list->entries[i].name);
        out(":%d", list->entries[i].type);
    }
}

/* The list of a slot, begun anew where its descriptor stands at the start. */
static struct list *continued(struct step *s, const char *word, int fd)
{
    struct list *list = &lists[word[0] >= 'a' && word[0] <= 'z' ? word[0] - 'a' : SLOTS];
    int64_t position = lseek(fd, 0, SEEK_CUR);
    if (position == 0)
        *list = (struct list){ .began = s->number };
    else if (position != list->position)
        list->partial = true;
    return list;
}

/* An offset taken in the middle leads back to the same rest. */
static void seek_back(int fd)
{
    struct list whole = { 0 }, rest = { 0 };
    if (result(lseek(fd, 0, SEEK_SET)) == -1 || read_all(fd, 4096, &whole) == -1 || whole.count < 2)
        return;
    size_t middle = whole.count / 2;
    lseek(fd, whole.entries[middle - 1].offset, SEEK_SET);
    outcome(read_all(fd, 300, &rest));
    bool same = rest.count == whole.count - middle;
    for (size_t i = 0; same && i < rest.count; i++)
        same = !strcmp(rest.entries[i].name, whole.entries[middle + i].name);
    out(same ? " consistent" : " inconsistent");
}

bool directory_operation(struct step *s, int at)
{
    if (IS("list", 3)) {
        struct list list = { 0 };
        int fd = openat(F(1), P(2), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (outcome(fd) == -1)
            return true;
        outcome(read_all(fd, N(3), &list));
        show_list(&list, false);
        close(fd);
    } else if (IS("opendir", 1)) {
        struct list list = { 0 };
        DIR *stream = opendir(P(1));
        if (outcome(stream ? 0 : -1) == -1)
            return true;
        for (struct dirent *entry; (entry = readdir(stream));) {
            list.entries = realloc(list.entries, (list.count + 1) * sizeof *list.entries);
            list.entries[list.count++] = (struct entry){ strdup(entry->d_name), entry->d_type, 0 };
        }
        closedir(stream);
        show_list(&list, false);
    } else if (IS("getdents", 2)) {
        struct list *list = continued(s, W(1), F(1));
        outcome(read_some(F(1), N(2), list));
        list->position = lseek(F(1), 0, SEEK_CUR);
    } else if (IS("rest", 1)) {
        /* POSIX: names that were neither made nor removed since the start appear exactly once. */
        struct list *list = continued(s, W(1), F(1));
        if (outcome(read_all(F(1), 4096, list)) != -1 && !list->partial)
            show_list(list, true);
        list->partial = true;
    } else if (IS("seekback", 1)) {
        seek_back(F(1));
    } else {
        return false;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void dump_attributes(const char *place)
{
    char names[4096], *found[64];
    size_t count = 0;
    long size = llistxattr(place, names, sizeof names);
    for (char *name = names; size > 0 && name < names + size && count < 64; name += strlen(name) + 1)
        if (strcmp(name, "security.selinux"))
            found[count++] = name;
    qsort(found, count, sizeof *found, by_text);
    for (size_t i = 0; i < count; i++) {
        char value[4096];
        long length = lgetxattr(place, found[i], value, sizeof value);
        out(" %s", found[i]);
        out_bytes(value, length > 0 ? length : 0);
    }
}

static void dump_content(const char *place)
{
    static char bytes[1 << 16];
    int fd = open(place, O_RDONLY | O_NONBLOCK);
    if (fd == -1) {
        result(-1);
        return;
    }
    long got, whole = 0;
    uint64_t hash = 14695981039346656037u;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        if (!whole)
            out_bytes(bytes, got < 4096 ? got : 4096);
        for (long i = 0; i < got; i++)
            hash = (hash ^ (uint8_t)bytes[i]) * 1099511628211u;
        whole += got;
        if (whole > 4 << 20)
            break;
    }
    out(" read=%ld %016lx", whole, hash);
    close(fd);
}

static void dump_below(const char *place, const char *shown, int depth)
{
    struct statx stat;
    if (syscall(SYS_statx, AT_FDCWD, place, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stat) == -1) {
        out("= ");
        out_name(shown);
        result(-1);
        out("\n");
        return;
    }
    out("= ");
    out_name(shown);
    out_stat(&stat);
    dump_attributes(place);
    if (S_ISLNK(stat.stx_mode)) {
        char target[PATH_MAX];
        long length = readlink(place, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        out(" -> ");
        out_name(target);
    } else if (S_ISREG(stat.stx_mode)) {
        dump_content(place);
    }
    struct list list = { 0 };
    int fd = S_ISDIR(stat.stx_mode) && depth < 40 ? open(place, O_RDONLY | O_DIRECTORY) : -1;
    if (fd == -1 && S_ISDIR(stat.stx_mode))
        result(-1);
    out("\n");
    if (fd == -1)
        return;
    read_all(fd, 4096, &list);
    close(fd);
    qsort(list.entries, list.count, sizeof *list.entries, by_name);
    for (size_t i = 0; i < list.count; i++) {
        char *name = list.entries[i].name, *inner, *inner_shown;
        if (strcmp(name, ".") && strcmp(name, "..") && asprintf(&inner, "%s/%s", place, name) > 0 &&
            asprintf(&inner_shown, "%s/%s", shown, name) > 0) {
            dump_below(inner, inner_shown, depth + 1);
            free(inner);
            free(inner_shown);
        }
    }
}

void dump(const char *root)
{
    now = -2;
    dump_below(root, strrchr(root, '/') ? strrchr(root, '/') + 1 : root, 0);
}
