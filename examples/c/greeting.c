/* A file system for libfuse's interface, version 3: one file, whose words are an option.
 *
 *   cc -shared -fPIC $(culvert config --cflags) greeting.c -o greeting.so
 *   culvert run --mount type=./greeting.so,target=/mnt,words=hello -- cat /mnt/greeting
 *   culvert mount -t ./greeting.so none /mnt
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fuse.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct { char *words; } options;

static int is_file(const char *path)
{
    return strcmp(path, "/greeting") == 0;
}

static int attributes(const char *path, struct stat *found, struct fuse_file_info *file)
{
    (void)file;
    memset(found, 0, sizeof *found);
    found->st_mode = is_file(path) ? S_IFREG | 0444 : S_IFDIR | 0755;
    found->st_nlink = is_file(path) ? 1 : 2;
    found->st_size = is_file(path) ? (off_t)strlen(options.words) + 1 : 0;
    return is_file(path) || strcmp(path, "/") == 0 ? 0 : -ENOENT;
}

static int list(const char *path, void *into, fuse_fill_dir_t fill, off_t offset,
                struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)path, (void)offset, (void)file, (void)flags;
    const char *names[] = {".", "..", "greeting"};
    for (int at = 0; at < 3; at++)
        fill(into, names[at], NULL, 0, FUSE_FILL_DIR_DEFAULTS);
    return 0;
}

static int content(const char *path, char *into, size_t size, off_t offset,
                   struct fuse_file_info *file)
{
    (void)path, (void)file;
    size_t length = strlen(options.words) + 1;
    if ((size_t)offset >= length)
        return 0;
    size = size < length - offset ? size : length - offset;
    memcpy(into, options.words + offset, size);
    if (offset + size == length)
        into[size - 1] = '\n';
    return (int)size;
}

static const struct fuse_operations operations = {
    .getattr = attributes,
    .readdir = list,
    .read = content,
};

int main(int argc, char **argv)
{
    const struct fuse_opt known[] = {{"words=%s", offsetof(__typeof__(options), words), 0}, FUSE_OPT_END};
    struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
    options.words = strdup("hello");
    if (fuse_opt_parse(&args, &options, known, NULL) == -1)
        return 1;
    return fuse_main(args.argc, args.argv, &operations, NULL);
}
