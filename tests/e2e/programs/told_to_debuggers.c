// What ld.so tells debuggers of namespaces, before and after the program makes one of its own:
// told_to_debuggers
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

// `struct r_debug_extended`, which older headers lack.
struct told {
    struct r_debug base;
    struct told *next;
};

// Where debuggers find it; `_r_debug` may be a copy that the linker has made.
static void tell(void) {
    struct told *told = 0;
    for (ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag; entry++)
        if (entry->d_tag == DT_DEBUG) told = (struct told *)entry->d_un.d_ptr;
    printf("the program's own: version %d; ", _r_debug.r_version);
    int namespaces = 1, objects = 0;
    if (told->base.r_version > 1)
        for (struct told *next = told->next; next; next = next->next) namespaces++;
    for (struct link_map *map = told->base.r_map; map; map = map->l_next) objects++;
    printf("version %d, %d namespaces, %d objects, state %d\n", told->base.r_version, namespaces, objects, told->base.r_state);
}

int main(void) {
    tell();
    if (!dlopen("libm.so.6", RTLD_NOW)) puts("no libm");
    tell();
    void *other = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
    tell();
    if (other) dlclose(other);
    tell();
    return 0;
}
