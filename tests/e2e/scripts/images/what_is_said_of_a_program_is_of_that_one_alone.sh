cat > $W/own.c <<'END'
/* Says what is in a file, by system calls of its own. */
#include <fcntl.h>
#include <sys/syscall.h>
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}
int main(int argc, char **argv) {
    char bytes[64];
    long file = call(SYS_open, (long)argv[argc - 1], O_RDONLY, 0);
    call(SYS_write, 1, (long)bytes, call(SYS_read, file, (long)bytes, sizeof bytes));
    return file < 0;
}
END
cc -O1 -o $W/own $W/own.c
cp /bin/cat $W/p
settle
run sh -c "$W/p $W/b/f; $W/own $W/b/f; :"
run sh -c "
    $W/p /proc/self/environ | tr '\0' '\n' | grep '^CULVERT_RUN=.*,p' > $W/said
    wc -l < $W/said
    env \$(cat $W/said) $W/p $W/b/f
    env \$(cat $W/said) $W/own $W/b/f
    mv $W/own $W/p
    env \$(cat $W/said) $W/p $W/b/f"
