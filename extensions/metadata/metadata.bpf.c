// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * The extension `metadata`: names, those that are not there too, attributes, and xattrs that are
 * not there are answered from tables that the server fills. Stale answers cannot come: the server
 * makes a record invalid before it changes what the record tells, and an answer counts only if the
 * record has not changed while it was read.
 */
#include <culvert/extend.h>

#include "tables.h"

CULVERT_MAP(settings, BPF_MAP_TYPE_ARRAY, __u32, struct metadata_settings, 1, BPF_F_MMAPABLE);
CULVERT_MAP(names, BPF_MAP_TYPE_ARRAY, __u32, struct metadata_name, 65536, BPF_F_MMAPABLE);
CULVERT_MAP(nodes, BPF_MAP_TYPE_ARRAY, __u32, struct metadata_node, 65536, BPF_F_MMAPABLE);

#define SECOND 1000000000ull
#define EVER (~0ull)

/* As tables.rs does it. */
static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static __always_inline void left(__u64 until, __u64 now, __u64 *seconds, __u32 *nanoseconds)
{
	*seconds = until == EVER ? EVER : (until - now) / SECOND;
	*nanoseconds = until == EVER ? 0 : (until - now) % SECOND;
}

static __always_inline struct metadata_settings *all(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&settings, &first);
}

/* Where the attributes of `id` are, if anywhere. */
static __always_inline struct metadata_node *node_of(struct metadata_settings *general, __u64 id)
{
	__u32 index = mixed(0, id) & culvert_read(general->nodes_mask);

	return bpf_map_lookup_elem(&nodes, &index);
}

/* Whether attributes of `id` lie in `node`, for now; `state` tells later whether they still do. */
static __always_inline int is_there(struct metadata_node *node, __u64 id, __u64 epoch, __u64 now,
				    __u64 *state)
{
	*state = culvert_read(node->state);
	culvert_barrier();
	return !(*state >> 32 & 1) && culvert_read(node->node) == id &&
		culvert_read(node->epoch) == epoch && culvert_read(node->until) > now;
}

/* The node of a request, if its attributes are known. */
static __always_inline struct metadata_node *known(struct culvert_request *request, __u64 now,
						   __u64 *state)
{
	struct metadata_settings *general = all();
	struct metadata_node *node;

	if (!general)
		return 0;
	node = node_of(general, request->nodeid);
	if (!node || !is_there(node, request->nodeid, culvert_read(general->epoch), now, state))
		return 0;
	return node;
}

static __always_inline int lookup(struct culvert_request *request)
{
	struct metadata_settings *general = all();
	const __u64 *asked = (const void *)request->name;
	struct metadata_name *name;
	struct metadata_node *parent, *node;
	struct fuse_entry_out *out;
	__u64 hash = mixed(0, request->nodeid), now = bpf_ktime_get_ns();
	__u64 version, id, until, state, epoch;
	__u32 index;
	int i;

	if (!general || request->name_length >= sizeof(name->words))
		return CULVERT_UPCALL;
#pragma unroll
	for (i = 0; i < 8; i++)
		hash = mixed(hash, asked[i]);
	index = hash & culvert_read(general->names_mask);
	name = bpf_map_lookup_elem(&names, &index);
	if (!name)
		return CULVERT_UPCALL;
	version = culvert_read(name->version);
	culvert_barrier();
	if (version & 1 || culvert_read(name->parent) != request->nodeid)
		return CULVERT_UPCALL;
#pragma unroll
	for (i = 0; i < 8; i++) {
		if (culvert_read(name->words[i]) != asked[i])
			return CULVERT_UPCALL;
	}
	id = culvert_read(name->node);
	until = culvert_read(name->until);
	parent = node_of(general, request->nodeid);
	/* Nobody has watched the directory since the driver let go of it. */
	if (until <= now || !parent || culvert_read(parent->gone) != culvert_read(name->parent_gone))
		return CULVERT_UPCALL;
	out = culvert_out(request, fuse_entry_out);
	left(until, now, &out->entry_valid, &out->entry_valid_nsec);
	if (!id) {
		culvert_barrier();
		return culvert_read(name->version) == version ? CULVERT_REPLY : CULVERT_UPCALL;
	}
	node = node_of(general, id);
	epoch = culvert_read(general->epoch);
	if (!node || !is_there(node, id, epoch, now, &state) || (__u32)state >> 31)
		return CULVERT_UPCALL;
	/* The number is that of another file by now. Read after `state`, which changes with it. */
	culvert_barrier();
	if (culvert_read(node->gone) != culvert_read(name->node_gone))
		return CULVERT_UPCALL;
	out->nodeid = id;
	left(culvert_read(node->until), now, &out->attr_valid, &out->attr_valid_nsec);
	out->attr = node->attr;
	culvert_barrier();
	if (culvert_read(name->version) != version || culvert_read(general->epoch) != epoch)
		return CULVERT_UPCALL;
	/* The kernel will forget the node so often more. */
	if (__sync_val_compare_and_swap(&node->state, state, state + 1) != state)
		return CULVERT_UPCALL;
	return CULVERT_REPLY;
}

static __always_inline int getattr(struct culvert_request *request)
{
	__u64 now = bpf_ktime_get_ns(), state;
	struct metadata_node *node = known(request, now, &state);
	struct fuse_attr_out *out;

	if (!node)
		return CULVERT_UPCALL;
	out = culvert_out(request, fuse_attr_out);
	left(culvert_read(node->until), now, &out->attr_valid, &out->attr_valid_nsec);
	out->attr = node->attr;
	culvert_barrier();
	return (culvert_read(node->state) ^ state) >> 32 ? CULVERT_UPCALL : CULVERT_REPLY;
}

/* Which of the xattrs that everybody asks for; 64: another one. */
static __always_inline int xattr(struct culvert_request *request)
{
	static const char names[4][32] = {
		"security.capability", "security.selinux",
		"system.posix_acl_access", "system.posix_acl_default",
	};
	const __u64 *asked = (const void *)request->name;
	int i;

	if (request->name_length >= 32)
		return 64;
#pragma unroll
	for (i = 0; i < 4; i++) {
		__u64 words[4];

		__builtin_memcpy(words, names[i], 32);
		if (!((asked[0] ^ words[0]) | (asked[1] ^ words[1]) | (asked[2] ^ words[2]) |
		      (asked[3] ^ words[3])))
			return i;
	}
	return 64;
}

static __always_inline int getxattr(struct culvert_request *request)
{
	__u64 now = bpf_ktime_get_ns(), state;
	struct metadata_node *node = known(request, now, &state);
	int which = xattr(request);
	__u64 absent;

	if (!node || which >= 64)
		return CULVERT_UPCALL;
	absent = culvert_read(node->absent);
	culvert_barrier();
	if ((culvert_read(node->state) ^ state) >> 32 || !(absent >> which & 1))
		return CULVERT_UPCALL;
	return -ENODATA;
}

/* Which source the object was made of: metadata/build. */
static const char culvert_source[] SEC("source") = CULVERT_SOURCE;

CULVERT_EXTENSION(
	CULVERT_ON(LOOKUP, lookup)
	CULVERT_ON(GETATTR, getattr)
	CULVERT_ON(GETXATTR, getxattr)
)
