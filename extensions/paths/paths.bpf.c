// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * An example of handlers by path: what is at a path that the server puts into `hidden` is not there
 * for others than root, and a file whose path is in `closed` is not opened by them.
 */
#define CULVERT_PATHS 4096
#include <culvert/extend.h>

struct key {
	char text[256];
};

CULVERT_MAP(hidden, BPF_MAP_TYPE_HASH, struct key, __u32, 1024, 0);
CULVERT_MAP(closed, BPF_MAP_TYPE_HASH, struct key, __u32, 1024, 0);

static __always_inline int lookup(struct culvert_request **context)
{
	struct culvert_path *path;

	if (!culvert_again(context)->uid)
		return CULVERT_UPCALL;
	path = culvert_path_below(context);
	return path && bpf_map_lookup_elem(&hidden, path->text) ? -ENOENT : CULVERT_UPCALL;
}

static __always_inline int opens(struct culvert_request **context)
{
	struct culvert_path *path;

	if (!culvert_again(context)->uid)
		return CULVERT_UPCALL;
	path = culvert_path_of(culvert_again(context)->nodeid);
	return path && bpf_map_lookup_elem(&closed, path->text) ? -EACCES : CULVERT_UPCALL;
}

/* Which source the object was made of: extensions/build. */
static const char culvert_source[] SEC("source") = CULVERT_SOURCE;

SEC("culvert") int culvert_extension(struct culvert_request **context)
{
	switch (culvert_again(context)->opcode) {
	case FUSE_LOOKUP:
		return lookup(context);
	case FUSE_OPEN:
		return opens(context);
	}
	return CULVERT_UPCALL;
}
char culvert_license[] SEC("license") = "GPL";
