cat > p.c << 'END'
__attribute__((constructor)) static void f(void) {
    __asm__ volatile("syscall"
        :
        : "a"(1), "D"(1), "S"("loaded\n"), "d"(7)
        : "rcx", "r11", "memory");
}
END
cc -shared -fPIC -nostdlib -o p.so p.c || exit
