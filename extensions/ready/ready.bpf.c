// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * The ready parts: `metadata` (names, those that are not there too, attributes), `xattr` (values,
 * absence and lists of extended attributes) and `log`. What is answered stands in tables that the
 * server fills. Stale answers cannot come: the server makes a record invalid before it changes what
 * the record tells, and an answer counts only if the record has not changed while it was read.
 */
#include <culvert/extend.h>

#include "tables.h"

CULVERT_MAP(settings, BPF_MAP_TYPE_ARRAY, __u32, struct ready_settings, 1, BPF_F_MMAPABLE);
CULVERT_MAP(names, BPF_MAP_TYPE_ARRAY, __u32, struct ready_name, 65536, BPF_F_MMAPABLE);
CULVERT_MAP(nodes, BPF_MAP_TYPE_ARRAY, __u32, struct ready_node, 65536, BPF_F_MMAPABLE);
CULVERT_MAP(xattrs, BPF_MAP_TYPE_ARRAY, __u32, struct ready_xattr, 65536, BPF_F_MMAPABLE);
CULVERT_RING(records, 1 << 20);

#define SECOND 1000000000ull
#define EVER (~0ull)

/* As tables.rs does it. */
static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static __always_inline __u64 named(__u64 node, const __u64 *words)
{
	__u64 hash = mixed(0, node);
	int i;

#pragma unroll
	for (i = 0; i < 8; i++)
		hash = mixed(hash, words[i]);
	return hash;
}

static __always_inline int is_other(const __u64 *kept, const __u64 *asked)
{
	int i;

#pragma unroll
	for (i = 0; i < 8; i++) {
		if (culvert_read(kept[i]) != asked[i])
			return 1;
	}
	return 0;
}

static __always_inline void left(__u64 until, __u64 now, uint64_t *seconds, uint32_t *nanoseconds)
{
	*seconds = until == EVER ? EVER : (until - now) / SECOND;
	*nanoseconds = until == EVER ? 0 : (until - now) % SECOND;
}

/* Where the attributes of `id` are, if anywhere. */
static __always_inline struct ready_node *node_of(struct ready_settings *general, __u64 id)
{
	__u32 index = mixed(0, id) & culvert_read(general->nodes_mask);

	return bpf_map_lookup_elem(&nodes, &index);
}

/* Whether attributes of `id` lie in `node`, for now; `state` tells later whether they still do. */
static __always_inline int is_there(struct ready_node *node, __u64 id, __u64 epoch, __u64 now,
				    __u64 *state)
{
	*state = culvert_read(node->state);
	culvert_barrier();
	return !(*state >> 32 & 1) && culvert_read(node->node) == id &&
		culvert_read(node->epoch) == epoch && culvert_read(node->until) > now;
}

static __always_inline int lookup(struct culvert_request **context, struct ready_settings *general)
{
	__u64 now = bpf_ktime_get_ns(), version, id, until, state, epoch, dir;
	struct culvert_request *request = culvert_again(context);
	struct ready_name *name;
	struct ready_node *parent, *node;
	struct fuse_entry_out *out;
	__u32 index;

	dir = request->nodeid;
	if (request->name_length >= sizeof(name->words))
		return CULVERT_UPCALL;
	index = named(dir, (const void *)request->name) & culvert_read(general->names_mask);
	name = bpf_map_lookup_elem(&names, &index);
	if (!name)
		return CULVERT_UPCALL;
	version = culvert_read(name->version);
	culvert_barrier();
	request = culvert_again(context);
	if (version & 1 || culvert_read(name->parent) != dir ||
	    is_other(name->words, (const void *)request->name))
		return CULVERT_UPCALL;
	id = culvert_read(name->node);
	until = culvert_read(name->until);
	parent = node_of(general, dir);
	/* Nobody has watched the directory since the driver let go of it. */
	if (until <= now || !parent || culvert_read(parent->gone) != culvert_read(name->parent_gone))
		return CULVERT_UPCALL;
	if (!id) {
		request = culvert_again(context);
		out = culvert_out(request, fuse_entry_out);
		left(until, now, &out->entry_valid, &out->entry_valid_nsec);
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
	request = culvert_again(context);
	out = culvert_out(request, fuse_entry_out);
	left(until, now, &out->entry_valid, &out->entry_valid_nsec);
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

static __always_inline int getattr(struct culvert_request **context,
				   struct ready_settings *general)
{
	__u64 now = bpf_ktime_get_ns(), id = culvert_again(context)->nodeid, state;
	struct ready_node *node = node_of(general, id);
	struct culvert_request *request = culvert_again(context);
	struct fuse_attr_out *out;

	if (!node || !is_there(node, id, culvert_read(general->epoch), now, &state))
		return CULVERT_UPCALL;
	out = culvert_out(request, fuse_attr_out);
	left(culvert_read(node->until), now, &out->attr_valid, &out->attr_valid_nsec);
	out->attr = node->attr;
	culvert_barrier();
	return (culvert_read(node->state) ^ state) >> 32 ? CULVERT_UPCALL : CULVERT_REPLY;
}

/* Which of the xattrs that everybody asks for; 64: another one. */
static __always_inline int usual_xattr(struct culvert_request *request)
{
	static const char usual[4][32] = {
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

		__builtin_memcpy(words, usual[i], 32);
		if (!((asked[0] ^ words[0]) | (asked[1] ^ words[1]) | (asked[2] ^ words[2]) |
		      (asked[3] ^ words[3])))
			return i;
	}
	return 64;
}

/* `metadata`: what is not there, beside the attributes. */
static __always_inline int absent_xattr(struct culvert_request **context,
					struct ready_settings *general)
{
	__u64 now = bpf_ktime_get_ns(), id = culvert_again(context)->nodeid, state, absent;
	struct ready_node *node = node_of(general, id);
	int which = usual_xattr(culvert_again(context));

	if (which >= 64 || !node ||
	    !is_there(node, id, culvert_read(general->epoch), now, &state))
		return CULVERT_UPCALL;
	absent = culvert_read(node->absent);
	culvert_barrier();
	if ((culvert_read(node->state) ^ state) >> 32 || !(absent >> which & 1))
		return CULVERT_UPCALL;
	return -ENODATA;
}

/* `xattr`: GETXATTR, and LISTXATTR, whose name is empty. */
static __always_inline int kept_xattr(struct culvert_request **context,
				      struct ready_settings *general)
{
	__u64 now = bpf_ktime_get_ns(), id, version, length;
	struct culvert_request *request = culvert_again(context);
	struct ready_xattr *kept;
	struct ready_node *node;
	int verdict = CULVERT_REPLY, i;
	__u32 index, size;

	id = request->nodeid;
	if (request->name_length >= sizeof(kept->name))
		return CULVERT_UPCALL;
	index = named(id, (const void *)request->name) & culvert_read(general->xattrs_mask);
	kept = bpf_map_lookup_elem(&xattrs, &index);
	if (!kept)
		return CULVERT_UPCALL;
	node = node_of(general, id);
	if (!node)
		return CULVERT_UPCALL;
	version = culvert_read(kept->version);
	culvert_barrier();
	request = culvert_again(context);
	if (version & 1 || culvert_read(kept->node) != id || culvert_read(kept->until) <= now ||
	    is_other(kept->name, (const void *)request->name) ||
	    culvert_read(kept->gone) != culvert_read(node->gone) ||
	    culvert_read(kept->changes) != culvert_read(node->xattrs) ||
	    culvert_read(kept->epoch) != culvert_read(general->xattr_epoch))
		return CULVERT_UPCALL;
	length = culvert_read(kept->length);
	size = culvert_in(request, fuse_getxattr_in)->size;
	if (length == READY_ABSENT) {
		verdict = -ENODATA;
	} else if (length > READY_VALUE) {
		return CULVERT_UPCALL;
	} else if (!size) {
		culvert_out(request, fuse_getxattr_out)->size = length;
	} else if (size < length) {
		verdict = -ERANGE;
	} else {
#pragma unroll
		for (i = 0; i < READY_VALUE / 8; i++)
			((__u64 *)request->out)[i] = culvert_read(kept->value[i]);
		request->out_length = length;
	}
	culvert_barrier();
	return culvert_read(kept->version) == version ? verdict : CULVERT_UPCALL;
}

static __always_inline int answer(struct culvert_request **context, struct ready_settings *general)
{
	__u64 parts = culvert_read(general->parts);
	int verdict = CULVERT_UPCALL;

	switch (culvert_again(context)->opcode) {
	case FUSE_LOOKUP:
		return parts & READY_METADATA ? lookup(context, general) : CULVERT_UPCALL;
	case FUSE_GETATTR:
		return parts & READY_METADATA ? getattr(context, general) : CULVERT_UPCALL;
	case FUSE_GETXATTR:
	case FUSE_LISTXATTR:
		if (parts & READY_XATTR)
			verdict = kept_xattr(context, general);
		if (verdict == CULVERT_UPCALL && parts & READY_METADATA)
			verdict = absent_xattr(context, general);
		return verdict;
	}
	return CULVERT_UPCALL;
}

/* Whether requests of `uid` are logged. */
static __always_inline int is_logged(struct ready_settings *general, __u32 uid)
{
	__u64 found = !culvert_read(general->users);
	int i;

	/* Without branches, all of whose combinations the verifier would walk through. */
#pragma unroll
	for (i = 0; i < READY_USERS; i++)
		found |= ((__u64)(culvert_read(general->user[i]) ^ uid) - 1) >> 63;
	return !!found;
}

/* `log`: every request that is seen here, and what became of it. */
static __always_inline void tell(struct culvert_request **context, struct ready_settings *general,
				 int verdict)
{
	__u64 now = bpf_ktime_get_ns();
	struct ready_record *record;
	struct culvert_request *request;
	int i;

	if (!(culvert_read(general->parts) & READY_LOG) ||
	    !is_logged(general, culvert_again(context)->uid))
		return;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&general->dropped, 1);
		return;
	}
	request = culvert_again(context);
	record->when = now;
	record->node = request->nodeid;
	record->opcode = request->opcode;
	record->verdict = verdict;
	record->uid = request->uid;
	record->gid = request->gid;
	record->pid = request->pid;
	record->name_length = request->name_length;
	record->name2_length = request->name2_length;
	record->padding = 0;
#pragma unroll
	for (i = 0; i < 16; i++) {
		record->name[i] = ((const __u64 *)request->name)[i];
		record->name2[i] = ((const __u64 *)request->name2)[i];
	}
	bpf_ringbuf_submit(record, 0);
}

/* Which source the object was made of: extensions/build. */
static const char culvert_source[] SEC("source") = CULVERT_SOURCE;

SEC("culvert") int culvert_extension(struct culvert_request **context)
{
	__u32 first = 0;
	struct ready_settings *general = bpf_map_lookup_elem(&settings, &first);
	int verdict;

	if (!general)
		return CULVERT_UPCALL;
	verdict = answer(context, general);
	tell(context, general, verdict);
	return verdict;
}
char culvert_license[] SEC("license") = "GPL";
