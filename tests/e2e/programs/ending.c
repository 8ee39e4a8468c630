/* Programs that end with files open: ending DIRECTORY HOW [WORD...]. */
#include "probe.h"
#include <pthread.h>

static void *last(void *unused)
{
    (void)unused;
    /* The main thread ends by itself; this one is the last. */
    char text[256] = "";
    do {
        int status = open("/proc/self/stat", O_RDONLY);
        text[read(status, text, sizeof text - 1)] = 0;
        close(status);
        sched_yield();
    } while (!strstr(text, ") Z "));
    syscall(SYS_exit, 0);
    return NULL;
}

int main(int count, char **words)
{
    const char *how = count > 2 ? words[2] : "";
    if (count < 3 || chdir(words[1]) != 0)
        return 2;
    int file = open("f", O_RDWR | O_CREAT, 0644);
    int other = dup(file);
    if (write(other, "1", 1) != 1)
        return 3;
    if (!strcmp(how, "return"))
        return 0;
    if (!strcmp(how, "exit_group"))
        syscall(SYS_exit_group, 0);
    if (!strcmp(how, "exit"))
        syscall(SYS_exit, 0);
    if (!strcmp(how, "last")) {
        pthread_t thread;
        pthread_create(&thread, NULL, last, NULL);
        syscall(SYS_exit, 0);
    }
    if (!strcmp(how, "mapped")) {
        char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        bytes[0] = '2';
        close(file);
        close(other);
        return 0;
    }
    if (!strcmp(how, "child")) {
        if (fork() == 0)
            _exit(0);
        wait(NULL);
        close(other);
        close(file);
        return 0;
    }
    if (!strcmp(how, "close_range")) {
        syscall(SYS_close_range, file, ~0U, 0);
        return 0;
    }
    if (!strcmp(how, "exec")) {
        fcntl(other, F_SETFD, FD_CLOEXEC);
        execl("/nowhere", "nowhere", NULL);
        execl("/bin/true", "true", NULL);
    }
    return 4;
}
