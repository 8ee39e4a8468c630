// A store of keys and values, as files in one directory; extended attributes say more of a key.
package main

/*
#cgo CFLAGS: -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64
#include <culvert/driver.h>
#include <stdint.h>
*/
import "C"

import (
	"os"
	"sort"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	// Of a value, bytes.
	largest         = 1 << 32
	renameNoreplace = 1
	renameExchange  = 2
	xattrCreate     = 1
	xattrReplace    = 2
	utimeOmit       = 1<<30 - 2
)

// A value; who has it open keeps it when its key is gone.
type value struct {
	inode               uint64
	mode                uint32
	uid, gid            uint32
	bytes               []byte
	atime, mtime, ctime time.Time
	more                map[string][]byte
}

var (
	lock   sync.Mutex
	values = map[string]*value{}
	inodes uint64
	root   = fresh(syscall.S_IFDIR | 0o755)
	// Open files, by the number that C has for them.
	files = map[uintptr]*value{}
	next  uintptr
)

func fresh(mode uint32) *value {
	inodes++
	now := time.Now()
	return &value{inode: inodes, mode: mode, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()),
		atime: now, mtime: now, ctime: now, more: map[string][]byte{}}
}

func (v *value) changed() { v.mtime = time.Now(); v.ctime = v.mtime }

func (v *value) resize(size int64) {
	if size <= int64(len(v.bytes)) {
		v.bytes = v.bytes[:size]
	} else {
		v.bytes = append(v.bytes, make([]byte, size-int64(len(v.bytes)))...)
	}
	v.changed()
}

// under calls step with the lock held, for the value at path; its error is the call's.
func under(path *C.char, step func(name string, v *value) syscall.Errno) C.int {
	lock.Lock()
	defer lock.Unlock()
	name := C.GoString(path)
	found := values[name]
	if name == "" {
		found = root
	}
	if found == nil {
		return C.int(syscall.ENOENT)
	}
	return C.int(step(name, found))
}

func opened(file unsafe.Pointer, step func(v *value)) C.int {
	lock.Lock()
	defer lock.Unlock()
	step(files[uintptr(file)])
	return 0
}

func spec(t time.Time) C.struct_timespec {
	return C.struct_timespec{tv_sec: C.long(t.Unix()), tv_nsec: C.long(t.Nanosecond())}
}

func (v *value) fill(stat *C.struct_stat) {
	stat.st_ino, stat.st_mode, stat.st_nlink = C.ulong(v.inode), C.uint(v.mode), 1
	stat.st_uid, stat.st_gid = C.uint(v.uid), C.uint(v.gid)
	stat.st_size, stat.st_blocks = C.long(len(v.bytes)), C.long((len(v.bytes)+511)/512)
	stat.st_atim, stat.st_mtim, stat.st_ctim = spec(v.atime), spec(v.mtime), spec(v.ctime)
}

//export kv_getattr
func kv_getattr(_ unsafe.Pointer, path *C.char, stat *C.struct_stat) C.int {
	return under(path, func(_ string, v *value) syscall.Errno { v.fill(stat); return 0 })
}

//export kv_fgetattr
func kv_fgetattr(_, file unsafe.Pointer, stat *C.struct_stat) C.int {
	return opened(file, func(v *value) { v.fill(stat) })
}

//export kv_getdirents
func kv_getdirents(_ unsafe.Pointer, path *C.char, entries *C.struct_culvert_dirent, capacity C.size_t, count *C.size_t) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		if v != root {
			return syscall.ENOTDIR
		}
		names := make([]string, 0, len(values))
		for name := range values {
			names = append(names, name)
		}
		sort.Strings(names)
		*count = C.size_t(len(names))
		room := unsafe.Slice(entries, capacity)
		for i, name := range names {
			if i == len(room) {
				break
			}
			room[i].inode, room[i]._type = C.uint64_t(values[name].inode), syscall.S_IFREG
			bytes := unsafe.Slice((*byte)(unsafe.Pointer(&room[i].name)), 256)
			bytes[copy(bytes[:255], name)] = 0
		}
		return 0
	})
}

//export kv_open
func kv_open(_ unsafe.Pointer, path *C.char, flags C.int, mode C.uint, file *unsafe.Pointer) C.int {
	create := func() bool {
		lock.Lock()
		defer lock.Unlock()
		name := C.GoString(path)
		exists := values[name] != nil
		if !exists {
			values[name] = fresh(syscall.S_IFREG | uint32(mode))
			root.changed()
		}
		return !exists
	}
	if flags&syscall.O_CREAT != 0 && !create() {
		return C.int(syscall.EEXIST)
	}
	return under(path, func(_ string, v *value) syscall.Errno {
		if flags&syscall.O_TRUNC != 0 {
			v.resize(0)
		}
		next++
		files[next] = v
		*(*uintptr)(unsafe.Pointer(file)) = next
		return 0
	})
}

//export kv_close
func kv_close(_, file unsafe.Pointer) C.int {
	lock.Lock()
	defer lock.Unlock()
	delete(files, uintptr(file))
	return 0
}

//export kv_read
func kv_read(_, file unsafe.Pointer, buffer unsafe.Pointer, size C.size_t, offset C.off_t, done *C.size_t) C.int {
	return opened(file, func(v *value) {
		*done = 0
		if int64(offset) < int64(len(v.bytes)) {
			*done = C.size_t(copy(unsafe.Slice((*byte)(buffer), size), v.bytes[offset:]))
		}
	})
}

//export kv_write
func kv_write(_, file unsafe.Pointer, buffer unsafe.Pointer, size C.size_t, offset C.off_t, done *C.size_t) C.int {
	if int64(offset)+int64(size) > largest {
		return C.int(syscall.EFBIG)
	}
	return opened(file, func(v *value) {
		if end := int64(offset) + int64(size); end > int64(len(v.bytes)) {
			v.resize(end)
		}
		*done = C.size_t(copy(v.bytes[offset:], unsafe.Slice((*byte)(buffer), size)))
		v.changed()
	})
}

//export kv_ftruncate
func kv_ftruncate(_, file unsafe.Pointer, size C.off_t) C.int {
	if size > largest {
		return C.int(syscall.EFBIG)
	}
	return opened(file, func(v *value) { v.resize(int64(size)) })
}

//export kv_truncate
func kv_truncate(_ unsafe.Pointer, path *C.char, size C.off_t) C.int {
	if size > largest {
		return C.int(syscall.EFBIG)
	}
	return under(path, func(_ string, v *value) syscall.Errno { v.resize(int64(size)); return 0 })
}

//export kv_unlink
func kv_unlink(_ unsafe.Pointer, path *C.char) C.int {
	return under(path, func(name string, _ *value) syscall.Errno {
		delete(values, name)
		root.changed()
		return 0
	})
}

//export kv_rename
func kv_rename(_ unsafe.Pointer, from, to *C.char, flags C.uint) C.int {
	return under(from, func(name string, v *value) syscall.Errno {
		target := C.GoString(to)
		other := values[target]
		switch {
		case flags > renameExchange:
			return syscall.EINVAL
		case flags == renameNoreplace && other != nil:
			return syscall.EEXIST
		case flags == renameExchange && other == nil:
			return syscall.ENOENT
		case flags == renameExchange:
			values[name] = other
		case name != target:
			delete(values, name)
		}
		values[target] = v
		v.ctime = time.Now()
		root.changed()
		return 0
	})
}

//export kv_chmod
func kv_chmod(_ unsafe.Pointer, path *C.char, mode C.uint) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		v.mode, v.ctime = v.mode&syscall.S_IFMT|uint32(mode), time.Now()
		return 0
	})
}

//export kv_chown
func kv_chown(_ unsafe.Pointer, path *C.char, uid, gid C.uint) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		if uint32(uid) != ^uint32(0) {
			v.uid = uint32(uid)
		}
		if uint32(gid) != ^uint32(0) {
			v.gid = uint32(gid)
		}
		// As chown(2) takes set-user-ID and set-group-ID.
		v.mode &^= 0o4000
		if v.mode&0o010 != 0 {
			v.mode &^= 0o2000
		}
		v.ctime = time.Now()
		return 0
	})
}

//export kv_utime
func kv_utime(_ unsafe.Pointer, path *C.char, times *C.struct_timespec) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		pair := unsafe.Slice(times, 2)
		for i, place := range []*time.Time{&v.atime, &v.mtime} {
			if pair[i].tv_nsec != utimeOmit {
				*place = time.Unix(int64(pair[i].tv_sec), int64(pair[i].tv_nsec))
			}
		}
		v.ctime = time.Now()
		return 0
	})
}

func put(found []byte, room unsafe.Pointer, size *C.size_t) syscall.Errno {
	if len(found) > int(*size) {
		return syscall.ERANGE
	}
	copy(unsafe.Slice((*byte)(room), *size), found)
	*size = C.size_t(len(found))
	return 0
}

//export kv_getxattr
func kv_getxattr(_ unsafe.Pointer, path, name *C.char, room unsafe.Pointer, size *C.size_t) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		found, exists := v.more[C.GoString(name)]
		if !exists {
			return syscall.ENODATA
		}
		return put(found, room, size)
	})
}

//export kv_setxattr
func kv_setxattr(_ unsafe.Pointer, path, name *C.char, bytes unsafe.Pointer, size C.size_t, flags C.int) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		key := C.GoString(name)
		_, exists := v.more[key]
		if exists && flags&xattrCreate != 0 {
			return syscall.EEXIST
		}
		if !exists && flags&xattrReplace != 0 {
			return syscall.ENODATA
		}
		v.more[key] = append([]byte{}, unsafe.Slice((*byte)(bytes), size)...)
		v.ctime = time.Now()
		return 0
	})
}

//export kv_listxattr
func kv_listxattr(_ unsafe.Pointer, path *C.char, room unsafe.Pointer, size *C.size_t) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		var all []byte
		for name := range v.more {
			all = append(append(all, name...), 0)
		}
		return put(all, room, size)
	})
}

//export kv_removexattr
func kv_removexattr(_ unsafe.Pointer, path, name *C.char) C.int {
	return under(path, func(_ string, v *value) syscall.Errno {
		if _, exists := v.more[C.GoString(name)]; !exists {
			return syscall.ENODATA
		}
		delete(v.more, C.GoString(name))
		v.ctime = time.Now()
		return 0
	})
}

func main() {}
