// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * An example: names that the server puts into `hidden` are not there for others than root, which
 * costs the server no request; how often who looked it finds in `looks`. Nodes that it puts into
 * `closed` are not opened by others than root, and which these are it cannot read.
 */
#include <culvert/extend.h>

struct name {
	__u64 words[8];
};

CULVERT_MAP(hidden, BPF_MAP_TYPE_HASH, struct name, __u32, 1024, 0);
CULVERT_MAP(looks, BPF_MAP_TYPE_LRU_HASH, __u32, __u64, 1024, 0);

CULVERT_INODE_MAP(closed, __u32, 1024);

static __always_inline int lookup(struct culvert_request *request)
{
	const __u64 *asked = (const void *)request->name;
	__u32 user = request->uid;
	int is_long = request->name_length >= sizeof(struct name), i;
	struct name name;
	__u64 first = 1, *count;

#pragma unroll
	for (i = 0; i < 8; i++)
		name.words[i] = asked[i];
	count = bpf_map_lookup_elem(&looks, &user);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&looks, &user, &first, BPF_ANY);
	if (user && !is_long && bpf_map_lookup_elem(&hidden, &name))
		return -ENOENT;
	return CULVERT_UPCALL;
}

static __always_inline int opens(struct culvert_request *request)
{
	__u64 node = request->nodeid;

	if (request->uid && bpf_map_lookup_elem(&closed, &node))
		return -EACCES;
	return CULVERT_UPCALL;
}

/* Which source the object was made of: extensions/build. */
static const char culvert_source[] SEC("source") = CULVERT_SOURCE;

CULVERT_EXTENSION(
	CULVERT_ON(LOOKUP, lookup)
	CULVERT_ON(OPEN, opens)
	CULVERT_ON(OPENDIR, opens)
)
