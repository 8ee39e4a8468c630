// A mapping that could not be put over another leaves that one as it was: pages that nobody has
// touched yet, too. usage: mapped_over FILE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 4 << 20 };

int main(int count, char **words) {
    static char content[LENGTH];
    if (count != 2) return 64;
    memset(content, 'x', LENGTH);
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, content, LENGTH) != LENGTH) err(2, "%s", words[1]);
    char *bytes = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) err(2, "mmap");
    bytes[0] = '1';
    alarm(55);
    if (mmap(bytes, LENGTH, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) != MAP_FAILED || errno != EBADF) err(1, "mapped");
    printf("%c%c\n", bytes[0], bytes[3 << 20]);
    bytes[LENGTH - 1] = '2';
    munmap(bytes, LENGTH);
    if (pread(fd, content, LENGTH, 0) != LENGTH) err(2, "pread");
    printf("%c%c\n", content[0], content[LENGTH - 1]);
}
