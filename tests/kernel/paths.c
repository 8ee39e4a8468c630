/* examples/c/mirror.c with the program of extensions/paths: what `hide=PATH` and `close=PATH` say is
 * put into its maps. */
#define _GNU_SOURCE
#include <culvert/driver.h>
/* Its table has another name, or it would be the library's. */
extern const struct culvert_driver culvert_driver __asm__("mirror_driver");
#include "../../examples/c/mirror.c"

static char wanted[8][300];
static size_t count;

static int paths_init(const struct culvert_mount *mount, void **state)
{
    struct culvert_mount without = *mount;
    for (size_t i = 0; i < mount->option_count && count < 8; i++)
        strncpy(wanted[count++], mount->options[i], sizeof wanted[0] - 1);
    without.option_count = 0;
    return culvert_driver.init(&without, state);
}

static int paths_extended(void *state, const struct culvert_maps *maps)
{
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *map = strncmp(wanted[i], "hide=", 5) ? "closed" : "hidden";
        char key[256] = { 0 };
        unsigned value = 1;
        int wrong;
        strncpy(key, strchr(wanted[i], '=') + 1, sizeof key - 1);
        wrong = maps->put(maps, map, key, sizeof key, &value, sizeof value);
        if (wrong)
            return wrong;
    }
    return 0;
}

const struct culvert_driver *culvert_driver_for(const struct culvert_mount *mount)
{
    static struct culvert_driver table;
    (void)mount;
    table = culvert_driver;
    table.init = paths_init;
    table.extended = paths_extended;
    return &table;
}
