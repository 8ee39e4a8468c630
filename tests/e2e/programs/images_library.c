/* A library with system calls of its own, for tests of images. VERSION tells one from the next. */
static long call(long number, long one, long two, long three) {
    long result;
    switch (number) {
    case 2:
        __asm__ volatile("mov $2,%%eax; syscall"
                         : "=a"(result)
                         : "D"(one), "S"(two), "d"(three)
                         : "rcx", "r11", "memory");
        break;
    default:
        __asm__ volatile("mov $3,%%eax; syscall"
                         : "=a"(result)
                         : "D"(one)
                         : "rcx", "r11", "memory");
    }
    return result;
}

int probe(const char *path) {
    long file = call(2, (long)path, 0, 0);
    if (file < 0) return file;
    call(3, file, 0, 0);
    return VERSION;
}
