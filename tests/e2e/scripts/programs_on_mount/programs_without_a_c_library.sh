printf '__thread volatile int local = 7; static long __attribute__((noinline)) call(volatile long n, long a, long b, long c) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r; }
             void _start(void) { char text[64]; long f = call(2, (long)"f", 0, 0), n = call(0, f, (long)text, 64); call(1, 1, (long)text, n); call(60, local, 0, 0); }' > p.c
echo content > f
alone() { cc -O1 -nostdlib -fno-stack-protector -fno-asynchronous-unwind-tables -o $* p.c; }
alone bin/id -fpie -pie
alone bin/none -fpie -pie -Wl,--build-id=none
for p in id none; do
    bin/$p
    echo $?
    env -i $M/bin/$p
    echo $?
    LD_PRELOAD=libc.so.6 bin/$p
    echo $?
    /lib64/ld-linux-x86-64.so.2 bin/$p
    echo $?
done
cp bin/none $W/none
$W/none
echo $?
/lib64/ld-linux-x86-64.so.2 --argv0 x $W/none
echo $?
