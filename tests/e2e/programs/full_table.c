/* How many descriptors can be open, and what works when there are no more. Usage: full_table LIMIT
 * HARD, in a directory that can be written. */
#include "probe.h"
#include <sys/resource.h>

static int opened[70000], count;

static int fill(int way)
{
    int fd, last = -1, own = open("file", O_RDONLY);
    opened[0] = own;
    for (count = 1;; count++) {
        switch (way) {
        case 0: fd = open("file", O_RDWR); break;
        case 1: fd = open("/dev/null", O_RDWR); break;
        case 2: fd = dup(own); break;
        case 3: fd = fcntl(own, F_DUPFD, 0); break;
        case 4: fd = open("made", O_RDWR | O_CREAT, 0600); break;
        case 5: fd = open(".", O_RDONLY | O_DIRECTORY); break;
        case 6: fd = open("file", O_PATH); break;
        default: fd = open(count % 2 ? "file" : "/etc/passwd", O_RDONLY); break;
        }
        if (fd < 0)
            break;
        if (count > 1 && fd != last + 1)
            printf("%d after %d\n", fd, last);
        last = fd;
        opened[count] = fd;
    }
    printf("%s, %d open, the last %d\n", error_name(errno), count, last);
    return own;
}

static void empty(void)
{
    for (int i = 0; i < count; i++)
        close(opened[i]);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct rlimit limit = { (rlim_t)atoi(argv[1]), (rlim_t)atoi(argv[2]) }, now;
    char text[20] = "";
    struct stat found;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    int fd = open("file", O_CREAT | O_RDWR, 0644);
    SHOW(write(fd, "0123456789", 10));
    close(fd);
    mkdir("d", 0755);
    for (int way = 0; way < 8; way++) {
        printf("== way %d\n", way);
        int own = fill(way);
        WORKS(stat("file", &found));
        WORKS(stat("d/../d/../file", &found));
        WORKS(open("d", O_RDONLY));
        SHOW(read(own, text, 3));
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            SHOW(read(own, text, 3));
            printf("%s\n", text);
            SHOW(open("file", O_RDONLY));
            SHOW(fstat(own, &found));
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        SHOW(lseek(own, 0, SEEK_CUR));
        fflush(stdout);
        child = fork();
        if (child == 0) {
            dup2(own, 0);
            for (int i = 20; i < 70000; i++)
                close(i);
            execl("/bin/sh", "sh", "-c", "head -c 4; echo; ulimit -Sn; ulimit -Hn", NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
        getrlimit(RLIMIT_NOFILE, &now);
        printf("limit %s\n", now.rlim_cur == limit.rlim_cur && now.rlim_max == limit.rlim_max ? "kept" : "changed");
        empty();
    }
    return 0;
}
