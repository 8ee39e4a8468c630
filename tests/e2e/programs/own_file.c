// What a program learns of the place from which it was started.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <errno.h>

static void link_of(const char *name) {
    char to[5000];
    ssize_t length = readlink(name, to, sizeof to - 1);
    if (length < 0) { printf("%s: %s\n", name, strerror(errno)); return; }
    to[length] = 0;
    printf("%s -> %s\n", name, to);
}

static int object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size; (void)data;
    printf("object %s\n", info->dlpi_name);
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    char path[100], text[5000];
    link_of("/proc/self/exe");
    snprintf(path, sizeof path, "/proc/%d/exe", getpid());
    readlink(path, text, sizeof text) ;
    char *real = realpath("/proc/self/exe", NULL);
    printf("realpath %s\n", real ? real : strerror(errno));
    struct stat opened, named, byargv;
    int fd = open("/proc/self/exe", O_RDONLY);
    printf("open %s\n", fd >= 0 ? "good" : strerror(errno));
    if (fd >= 0) {
        char head[4];
        fstat(fd, &opened);
        printf("head %d\n", pread(fd, head, 4, 0) == 4 && memcmp(head, "\177ELF", 4) == 0);
    }
    printf("stat %d lstat %d\n", stat("/proc/self/exe", &named), lstat("/proc/self/exe", &byargv));
    printf("link %d\n", S_ISLNK(byargv.st_mode));
    printf("same as opened %d\n", opened.st_dev == named.st_dev && opened.st_ino == named.st_ino);
    printf("size %d mode %o\n", named.st_size > 1000, named.st_mode);
    if (real && stat(real, &byargv) == 0)
        printf("same as real %d %d %d\n", byargv.st_dev == named.st_dev, byargv.st_ino == named.st_ino, byargv.st_size == named.st_size);
    printf("execfn %s\n", (char *)getauxval(AT_EXECFN));
    printf("argv0 %s invocation %s\n", argv[0], program_invocation_name);
    dl_iterate_phdr(object, NULL);
    Dl_info info;
    if (dladdr(main, &info)) printf("main in %s\n", info.dli_fname);
    char comm[50] = ""; FILE *c = fopen("/proc/self/comm", "r"); fgets(comm, 50, c); printf("comm %s", comm);
    char cl[5000]; int cfd = open("/proc/self/cmdline", O_RDONLY); ssize_t n = read(cfd, cl, sizeof cl); for (int i = 0; i < n - 1; i++) if (!cl[i]) cl[i] = ' '; printf("cmdline %.*s\n", (int)n - 1, cl);
    snprintf(path, sizeof path, "%d", access("/proc/self/exe", X_OK)); printf("x_ok %s\n", path);
    return 0;
}
