// A file that is larger than all room there is for its mapped pages: each page is right or a
// signal, at once. mapped_full FILE MEGABYTES
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static sigjmp_buf back;
static void on_fault(int number) { siglongjmp(back, number); }

int main(int count, char **words) {
    if (count != 3) return 64;
    size_t length = (size_t)atol(words[2]) << 20;
    uint64_t *content = malloc(length);
    for (size_t i = 0; i < length / 8; i++) content[i] = i * 8;
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, content, length) != (ssize_t)length) err(2, "%s", words[1]);
    signal(SIGBUS, on_fault);
    alarm(180);
    char *at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        printf("mmap: %s\n", strerrorname_np(errno));
        at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        printf("one page of it: %s\n", at == MAP_FAILED ? strerrorname_np(errno) : "mapped");
    } else {
        volatile size_t right = 0, wrong = 0, signals = 0, stored = 0;
        for (volatile size_t page = 0; page < length; page += PAGE) {
            if (sigsetjmp(back, 1)) {
                signals++;
                continue;
            }
            if (*(volatile uint64_t *)(at + page + 8) == page + 8) right++;
            else wrong++;
            if (page / PAGE % 7 == 0) {
                *(volatile uint64_t *)(at + page) = ~page;
                stored++;
            }
        }
        printf("%s right, %zu wrong, %s\n", right > 100 ? "many" : "few", wrong, signals ? "signals" : "no signals");
        errno = 0;
        printf("munmap: %d\n", munmap(at, length));
        // What was stored is in the file, and what was not is as before.
        size_t stores = 0, others = 0;
        if (pread(fd, content, length, 0) != (ssize_t)length) err(2, "pread");
        for (size_t page = 0; page < length; page += PAGE) {
            if (page / PAGE % 7 == 0 && content[page / 8] == ~page) stores++;
            else if (content[page / 8] != page) others++;
        }
        printf("%s, %zu wrong in the file\n", stores == stored ? "all stores" : "stores are missing", others);
    }
}
