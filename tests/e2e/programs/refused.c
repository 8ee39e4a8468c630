/* What is answered with an error, or left alone, as long as a mount is there. Usage: refused FILE
 * */
#include "probe.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    char buffer[256];
    struct file_handle *handle = (void *)buffer;
    int mount_id, fd = must_open(argv[1], O_RDONLY);
    handle->handle_bytes = 100;
    /* A handle, or none: but never that of another file. */
    if (name_to_handle_at(AT_FDCWD, argv[1], handle, &mount_id, 0) == 0) {
        int again = open_by_handle_at(fd, handle, O_RDONLY);
        struct stat one, two;
        fstat(fd, &one);
        printf("handle %s\n", again < 0 ? "not opened" : fstat(again, &two) == 0 && one.st_ino == two.st_ino ? "right" : "WRONG");
    } else {
        printf("handle %s\n", errno == EOPNOTSUPP || errno == ENOSYS ? "none" : error_name(errno));
    }
    /* The same file after the process gave up what it could. */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    struct stat st;
    printf("stat %d\n", stat(argv[1], &st));
    printf("read %zd\n", read(fd, buffer, 5));
    return 0;
}
