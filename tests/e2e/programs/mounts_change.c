/* A program that gives itself another root, and then names a file above a mount, which is not there:
 * mounts_change MOUNT NEW, beside which lies the file "beside"; NEW is an empty directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void look(const char *what, const char *mount, const char *rest) {
    char path[4096];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", mount, rest);
    int result = stat(path, &found);
    printf("%s: %s\n", what, result ? strerror(errno) : S_ISREG(found.st_mode) ? "file" : "other");
}

int main(int count, char **words) {
    const char *mount_point = words[1], *new_root = words[2];
    char old[4096];
    if (count != 3) return 2;
    look("before", mount_point, "/../beside");
    look("inside", mount_point, "/file");
    snprintf(old, sizeof old, "%s/old", new_root);
    if (unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) ||
        mount("new", new_root, "tmpfs", 0, 0) || mkdir(old, 0755) ||
        syscall(SYS_pivot_root, new_root, old) || chdir("/")) {
        perror("another root");
        return 1;
    }
    look("after", mount_point, "/../beside");
    look("above", mount_point, "/../../beside");
    return 0;
}
