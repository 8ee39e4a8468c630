mkdir -p $B/programs/kinds
chmod 755 $B/programs/kinds
printf '#!/usr/bin/env busybox\nsh\n' > $B/programs/kinds/by-env
printf '#!/bin/busybox sh\n' > $B/programs/kinds/static
printf '#!%s/programs/kinds/static\n' $B > $B/programs/kinds/twice
chmod 755 $B/programs/kinds/*
cp /bin/true $B/programs/kinds/group
chmod 2755 $B/programs/kinds/group
cp /bin/true $B/programs/kinds/owner
chmod 4755 $B/programs/kinds/owner
: > $B/programs/kinds/unreadable
chmod 711 $B/programs/kinds/unreadable
printf '#include <linux/io_uring.h>\n#include <sys/syscall.h>\nint main(void) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(425), "D"(1), "S"(0) : "rcx", "r11", "memory"); return r == 1; }' > r.c
cc -o $B/programs/kinds/rings r.c
cp $B/programs/kinds/rings $B/programs/kinds/bwrap
