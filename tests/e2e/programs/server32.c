/* A FUSE server of 32 bits without a C library, for a directory with the one file "file". It opens
 * /dev/fuse and mounts as libfuse does: server32 TARGET.
 *
 *     cc -m32 -O1 -ffreestanding -fno-stack-protector -fno-pie -no-pie -nostdlib -static */
#include <linux/fuse.h>
#include <stddef.h>

enum { exit_ = 1, read_ = 3, write_ = 4, open_ = 5, mount_ = 21 };

static long call(long number, long a, long b, long c, long d, long e)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
                     : "memory");
    return result;
}

void *memset(void *at, int byte, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ((char *)at)[i] = byte;
    return at;
}

void *memcpy(void *at, const void *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ((char *)at)[i] = ((const char *)from)[i];
    return at;
}

static const char text[] = "from 32 bits\n";
static char request[200000] __attribute__((aligned(8)));
static struct {
    struct fuse_out_header head;
    char body[1000] __attribute__((aligned(8)));
} answer;
static unsigned length;

static void *put(unsigned size)
{
    void *at = answer.body + length;
    length += size;
    return memset(at, 0, size);
}

static void attributes(struct fuse_attr *to, unsigned long long node)
{
    to->ino = node;
    to->mode = node == 1 ? 040755 : 0100444;
    to->nlink = 1;
    to->size = node == 1 ? 0 : sizeof text - 1;
    to->blksize = 4096;
}

static int equal(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static int serve(const struct fuse_in_header *head, const void *body)
{
    switch (head->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out *init = put(sizeof *init);
        init->major = 7;
        init->minor = 31;
        init->max_write = 65536;
        return 0;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out *entry;
        if (!equal(body, "file"))
            return -2;
        entry = put(sizeof *entry);
        entry->nodeid = 2;
        attributes(&entry->attr, 2);
        return 0;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out *out = put(sizeof *out);
        attributes(&out->attr, head->nodeid);
        return 0;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        put(sizeof(struct fuse_open_out));
        return 0;
    case FUSE_READ: {
        const struct fuse_read_in *in = body;
        unsigned at = in->offset < sizeof text - 1 ? in->offset : sizeof text - 1;
        unsigned count = sizeof text - 1 - at < in->size ? sizeof text - 1 - at : in->size;
        memcpy(put(count), text + at, count);
        return 0;
    }
    case FUSE_READDIR: {
        const struct fuse_read_in *in = body;
        struct fuse_dirent *entry;
        if (in->offset)
            return 0;
        entry = put(FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 4));
        entry->ino = 2;
        entry->off = 1;
        entry->namelen = 4;
        entry->type = 8;
        memcpy(entry->name, "file", 4);
        return 0;
    }
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
    case FUSE_DESTROY:
        return 0;
    }
    return -38;
}

__attribute__((used)) static void run(long *stack)
{
    char *target = (char *)stack[2];
    long device = call(open_, (long)"/dev/fuse", 2, 0, 0, 0);
    if (device < 0 || call(mount_, (long)"server32", (long)target, (long)"fuse.server32", 0, (long)"fd=3"))
        call(exit_, 3, 0, 0, 0, 0);
    for (;;) {
        const struct fuse_in_header *head = (const void *)request;
        long count = call(read_, device, (long)request, sizeof request, 0, 0);
        if (count < (long)sizeof *head)
            call(exit_, 0, 0, 0, 0, 0);
        if (head->opcode == FUSE_FORGET || head->opcode == FUSE_BATCH_FORGET)
            continue;
        length = 0;
        answer.head.error = serve(head, head + 1);
        answer.head.unique = head->unique;
        answer.head.len = sizeof answer.head + length;
        call(write_, device, (long)&answer, answer.head.len, 0, 0);
        if (head->opcode == FUSE_DESTROY)
            call(exit_, 0, 0, 0, 0, 0);
    }
}

__asm__(".globl _start\n_start: mov %esp, %eax\n push %eax\n call run\n");
