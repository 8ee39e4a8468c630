/* Calls on a descriptor itself, without a path, that only few programs make: on a directory, a
 * file, and a file opened with O_PATH. What the kernel says of a file of its own does not matter:
 * what stands for a descriptor of a mount must not be answered for. Usage: by_descriptor DIRECTORY
 * */
#include "probe.h"

enum { OPEN_TREE_ATTR = 467, FILE_GETATTR = 468, FILE_SETATTR = 469, GETXATTRAT = 464, LISTXATTRAT = 465, REMOVEXATTRAT = 466, DUPFD_QUERY = 1027, CREATED_QUERY = 1028 };

static void say(const char *what, long result)
{
    printf(" %s %s", what, result == -1 ? error_name(errno) : "works");
}

int main(int argc, char **argv)
{
    char path[PATH_MAX], buffer[256] = "";
    snprintf(path, sizeof path, "%s/file", argv[1]);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    int descriptors[] = { must_open(argv[1], O_RDONLY | O_DIRECTORY), file, must_open(path, O_PATH) };
    const char *names[] = { "directory", "file", "path" };
    struct { uint64_t value; uint32_t size, flags; } xattr = { (uintptr_t)buffer, 10, 0 };
    uint64_t set_nosuid[4] = { 2, 0, 0, 0 };
    for (int i = 0; i < 3; i++) {
        int fd = descriptors[i];
        printf("%s:", names[i]);
        say("open_tree", syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH));
        say("open_tree-clone", syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | 1));
        say("open_tree_attr", syscall(OPEN_TREE_ATTR, fd, "", AT_EMPTY_PATH, set_nosuid, sizeof set_nosuid));
        say("mount_setattr", syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, set_nosuid, sizeof set_nosuid));
        say("fspick", syscall(SYS_fspick, fd, "", 8));
        say("file_getattr", syscall(FILE_GETATTR, fd, "", buffer, 24, AT_EMPTY_PATH));
        say("file_setattr", syscall(FILE_SETATTR, fd, "", buffer, 24, AT_EMPTY_PATH));
        say("name_to_handle_at", syscall(SYS_name_to_handle_at, fd, "", buffer, buffer + 128, AT_EMPTY_PATH));
        printf("\n  ");
        say("getxattrat", syscall(GETXATTRAT, fd, "", AT_EMPTY_PATH, "user.none", &xattr, sizeof xattr));
        say("listxattrat", syscall(LISTXATTRAT, fd, "", AT_EMPTY_PATH, buffer, sizeof buffer));
        say("removexattrat", syscall(REMOVEXATTRAT, fd, "", AT_EMPTY_PATH, "user.none"));
        say("same", fcntl(fd, DUPFD_QUERY, fd));
        say("created", fcntl(fd, CREATED_QUERY));
        printf("\n");
    }
    return 0;
}
