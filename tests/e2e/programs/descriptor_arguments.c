/* A file's descriptor in the arguments of calls on other files. Usage: descriptor_arguments FILE */
#include "probe.h"
#include <linux/loop.h>
#include <linux/prctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static void on_loop(int fd)
{
    char name[40], bytes[9] = "";
    int control = open("/dev/loop-control", O_RDWR), number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) {
        puts("no loop device");
        return;
    }
    snprintf(name, sizeof name, "/dev/loop%d", number);
    int loop = open(name, O_RDWR);
    struct loop_config configuration = { .fd = fd, .info.lo_flags = LO_FLAGS_READ_ONLY };
    WORKS(ioctl(loop, LOOP_CONFIGURE, &configuration));
    printf("%zd %s\n", pread(loop, bytes, 8, 512), bytes);
    ioctl(loop, LOOP_CLR_FD, 0);
    close(loop);
    loop = open(name, O_RDONLY);
    WORKS(ioctl(loop, LOOP_SET_FD, fd));
    memset(bytes, 0, sizeof bytes);
    printf("%zd %s\n", pread(loop, bytes, 8, 512), bytes);
    ioctl(loop, LOOP_CLR_FD, 0);
}

int main(int argc, char **argv)
{
    int fd = must_open(argv[1], O_RDWR | O_CREAT | O_TRUNC);
    (void)argc;
    fchmod(fd, 0600);
    if (ftruncate(fd, 1 << 20) != 0 || pwrite(fd, "contents", 8, 512) != 8)
        die(argv[1]);
    on_loop(fd);
    /* The child has made it known to the kernel, where it can be. */
    fflush(stdout);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    on_loop(fd);
    char handle[sizeof(struct file_handle) + 128] = "";
    ((struct file_handle *)handle)->handle_bytes = 24;
    ((struct file_handle *)handle)->handle_type = 1;
    WORKS(open_by_handle_at(fd, (struct file_handle *)handle, O_RDONLY));
    WORKS(prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, fd, 0, 0));
    int context = syscall(430 /* fsopen */, "tmpfs", 0);
    WORKS(syscall(431 /* fsconfig */, context, 5 /* FSCONFIG_SET_FD */, "source", NULL, fd));
    /* UDMABUF_CREATE, of a descriptor that is no such device. */
    struct { unsigned fd, flags; uint64_t offset, size; } buffer = { fd, 0, 0, 4096 };
    WORKS(ioctl(open("/dev/null", O_RDWR), 0x40187542, &buffer));
    return 0;
}
