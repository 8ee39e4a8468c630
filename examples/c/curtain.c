/* Planets that can be hidden: a program inside the kernel (extensions/example) tells others than root
 * that there is no such name, and the driver is not asked. Which names these are the driver puts into
 * a map that both have. Writing NAME into `curtain` hides it, -NAME shows it again, reading lists who is
 * hidden.
 *
 *     cc -shared -fPIC $(culvert config --cflags) curtain.c -o curtain.so
 *     culvert mount -t ./curtain.so --allow-other -o hide=mars,extend=/PATH/example.o,valid=0 none /mnt
 *     echo venus >/mnt/curtain
 */
#include <culvert/driver.h>
#include <errno.h>
#include <string.h>

enum { NAMES = 3, NAME = 64 };

static const char *const names[NAMES] = { "curtain", "mars", "venus" };
/* A value of the map `hidden`; its keys are names, the rest 0. */
static const uint32_t is_hidden = 1;

static const struct culvert_maps *maps;
/* What is hidden from the beginning: an option. */
static char first[NAME];

static int curtain_init(const struct culvert_mount *mount, void **state)
{
    (void)state;
    for (size_t i = 0; i < mount->option_count; i++)
        if (!strncmp(mount->options[i], "hide=", 5))
            strncpy(first, mount->options[i] + 5, NAME - 1);
    return 0;
}

static int hide(const char *name)
{
    char key[NAME] = { 0 };
    strncpy(key, name, NAME - 1);
    return maps->put(maps, "hidden", key, NAME, &is_hidden, sizeof is_hidden);
}

static int show(const char *name)
{
    char key[NAME] = { 0 };
    strncpy(key, name, NAME - 1);
    return maps->remove(maps, "hidden", key, NAME);
}

static int curtain_extended(void *state, const struct culvert_maps *given)
{
    size_t key_size, value_size;
    int wrong = given->sizes(given, "hidden", &key_size, &value_size);
    (void)state;
    if (!wrong && (key_size != NAME || value_size != sizeof is_hidden))
        wrong = EINVAL;
    if (wrong)
        return wrong;
    maps = given;
    return *first ? hide(first) : 0;
}

static int curtain_getattr(void *state, const char *path, struct stat *found)
{
    (void)state;
    found->st_mode = S_IFDIR | 0755;
    if (!*path)
        return 0;
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(path, names[i]))
            continue;
        found->st_mode = S_IFREG | (i ? 0444 : 0644);
        return 0;
    }
    return ENOENT;
}

static int curtain_getdirents(void *state, const char *path, struct culvert_dirent *entries,
                              size_t capacity, size_t *count)
{
    (void)state, (void)path;
    for (size_t i = 0; i < NAMES && i < capacity; i++) {
        entries[i].inode = 0;
        entries[i].type = S_IFREG;
        strcpy(entries[i].name, names[i]);
    }
    *count = NAMES;
    return 0;
}

static int curtain_open(void *state, const char *path, int flags, mode_t mode, void **file)
{
    (void)state, (void)flags, (void)mode;
    *file = strcmp(path, names[0]) ? NULL : &maps;
    return 0;
}

/* The names that are hidden, a line each. */
static int curtain_read(void *state, void *file, void *buffer, size_t size, off_t offset, size_t *done)
{
    char key[NAME], text[NAMES * NAME];
    size_t length = 0;
    const void *after = NULL;
    uint32_t value;
    (void)state;
    *done = 0;
    if (!file)
        return 0;
    if (!maps)
        return EOPNOTSUPP;
    while (length + NAME < sizeof text && !maps->next(maps, "hidden", after, key, NAME)) {
        after = key;
        if (maps->get(maps, "hidden", key, NAME, &value, sizeof value))
            continue;
        strcpy(text + length, key);
        length += strlen(key);
        text[length++] = '\n';
    }
    if ((size_t)offset < length) {
        *done = size < length - offset ? size : length - offset;
        memcpy(buffer, text + offset, *done);
    }
    return 0;
}

static int curtain_write(void *state, void *file, const void *text, size_t size, off_t offset,
                         size_t *done)
{
    char name[NAME] = { 0 };
    (void)state, (void)offset;
    if (!file)
        return EACCES;
    if (!maps)
        return EOPNOTSUPP;
    if (size >= NAME)
        return EINVAL;
    memcpy(name, text, size);
    name[strcspn(name, "\n")] = 0;
    *done = size;
    return *name == '-' ? show(name + 1) : hide(name);
}

/* A shell's > asks for it. */
static int curtain_truncate(void *state, const char *path, off_t size)
{
    (void)state, (void)path, (void)size;
    return 0;
}

const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_NO_CACHE,
    .init = curtain_init,
    .open = curtain_open,
    .read = curtain_read,
    .write = curtain_write,
    .getattr = curtain_getattr,
    .getdirents = curtain_getdirents,
    .truncate = curtain_truncate,
    .extended = curtain_extended,
};
