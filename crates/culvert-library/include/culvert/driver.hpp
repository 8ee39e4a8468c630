/* A driver as a class of C++17: culvert/driver.h says what each function owes.
 *
 *     class Mine : public culvert::FileSystem { ... };
 *     CULVERT_FILE_SYSTEM(Mine)
 *
 * The class has a constructor that takes a culvert::Mount. A function that it does not override throws
 * the error that stands in it. An exception is the call's error: an
 * Errno or a std::system_error its number, std::bad_alloc ENOMEM, any other EIO. Functions are called
 * by several threads. Where ENOSYS stands Culvert does it in its own way.
 */
#ifndef CULVERT_DRIVER_HPP
#define CULVERT_DRIVER_HPP

#include "driver.h"
#include <fcntl.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace culvert {

/* The error of a call. */
struct Errno : std::exception {
    explicit Errno(int number) : number(number) {}
    const char *what() const noexcept override { return strerror(number); }
    int number;
};

/* What is mounted. */
struct Mount {
    std::string source, target;
    /* "NAME=VALUE" or "NAME". */
    std::vector<std::string> options;
    bool read_only;
};

/* Who waits for a file in poll; to be kept until there is another one of the file, or the file goes. */
class Waker {
public:
    explicit Waker(culvert_waker *waker) : waker(waker) {}
    Waker(Waker &&other) noexcept : waker(other.waker) { other.waker = nullptr; }
    Waker &operator=(Waker &&other) noexcept {
        std::swap(waker, other.waker);
        return *this;
    }
    ~Waker() {
        if (waker)
            waker->drop(waker);
    }
    /* Whether anybody waits. */
    explicit operator bool() const { return waker; }
    void wake() const {
        if (waker)
            waker->wake(waker);
    }

private:
    culvert_waker *waker;
};

/* An open file, which is destroyed when its last descriptor is closed. */
class File {
public:
    virtual ~File() = default;
    /* How many bytes there are; 0 only at or behind the end. */
    virtual size_t read(void *, size_t, off_t) { throw Errno(ENOSYS); }
    virtual size_t write(const void *, size_t, off_t) { throw Errno(EROFS); }
    virtual void fsync(bool) {}
    virtual void ftruncate(off_t) { throw Errno(EROFS); }
    virtual void fgetattr(struct stat &attributes) = 0;
    virtual void flush() {}
    virtual void fallocate(int, off_t, off_t) { throw Errno(EOPNOTSUPP); }
    /* SEEK_DATA, SEEK_HOLE. */
    virtual off_t lseek(off_t, int) { throw Errno(ENOSYS); }
    virtual int descriptor() { throw Errno(ENOSYS); }
    /* To another file of the same file system: how many bytes. */
    virtual size_t copy(off_t, File &, off_t, size_t) { throw Errno(EOPNOTSUPP); }
    virtual int ioctl(uint32_t, void *, size_t) { throw Errno(ENOTTY); }
    /* 0, 1, 2, as caching of culvert/driver.h. */
    virtual int caching() { return 0; }
    /* What may be done now. Asked where FileSystem::flags leaves CULVERT_NO_POLL out. */
    virtual unsigned poll(Waker) { throw Errno(ENOSYS); }
    virtual void getlk(uint64_t, struct flock &) { throw Errno(ENOSYS); }
    virtual void setlk(uint64_t, const struct flock &, const culvert_wait *) { throw Errno(ENOSYS); }
    virtual void flock(uint64_t, int, const culvert_wait *) { throw Errno(ENOSYS); }
};

/* A name in a directory. */
struct Entry {
    std::string name;
    /* S_IFREG, S_IFDIR, ... */
    uint32_t type;
    uint64_t inode = 0;
};

/* An open directory that keeps something. */
class Directory {
public:
    virtual ~Directory() = default;
    virtual std::vector<Entry> list() = 0;
    virtual void fsync(bool) {}
};

class FileSystem {
public:
    /* More flags of culvert/driver.h. */
    virtual uint64_t flags() { return CULVERT_NO_ACCESS | CULVERT_NO_POLL; }
    /* Asked where flags() leaves CULVERT_NO_ACCESS out. */
    virtual void access(const std::string &, int) {}
    virtual void syncfs() {}
    virtual void fsyncdir(const std::string &, bool) { syncfs(); }
    /* None: readdir lists it. */
    virtual std::unique_ptr<Directory> opendir(const std::string &) { return nullptr; }
    virtual void observe(const culvert_observer *) { throw Errno(ENOSYS); }
    virtual void extended(const culvert_maps *) { throw Errno(ENOSYS); }
    virtual ~FileSystem() = default;
    virtual void getattr(const std::string &path, struct stat &attributes) = 0;
    virtual std::vector<Entry> readdir(const std::string &) { throw Errno(ENOSYS); }
    virtual std::unique_ptr<File> open(const std::string &, int, mode_t) { throw Errno(ENOSYS); }
    virtual void truncate(const std::string &, off_t) { throw Errno(EROFS); }
    virtual std::string readlink(const std::string &) { throw Errno(EINVAL); }
    virtual void unlink(const std::string &) { throw Errno(EROFS); }
    virtual void mkdir(const std::string &, mode_t) { throw Errno(EROFS); }
    virtual void rmdir(const std::string &) { throw Errno(EROFS); }
    virtual void chown(const std::string &, uid_t, gid_t) { throw Errno(EROFS); }
    virtual void chmod(const std::string &, mode_t) { throw Errno(EROFS); }
    virtual void rename(const std::string &, const std::string &, unsigned) { throw Errno(EROFS); }
    virtual void utime(const std::string &, const timespec *) { throw Errno(EROFS); }
    virtual void symlink(const std::string &, const std::string &) { throw Errno(EROFS); }
    virtual void link(const std::string &, const std::string &) { throw Errno(EPERM); }
    virtual void mknod(const std::string &, mode_t, dev_t) { throw Errno(EPERM); }
    virtual void statfs(struct statvfs &found) { found.f_bsize = found.f_frsize = 4096; }
    virtual std::string getxattr(const std::string &, const std::string &) { throw Errno(ENODATA); }
    virtual void setxattr(const std::string &, const std::string &, const void *, size_t, int) {
        throw Errno(EOPNOTSUPP);
    }
    virtual std::vector<std::string> listxattr(const std::string &) { return {}; }
    virtual void removexattr(const std::string &, const std::string &) { throw Errno(ENODATA); }
};

/* The table of functions of a class. */
template <class Kind> struct Driver {
    template <class Step> static int answer(Step step) noexcept {
        try {
            step();
            return 0;
        } catch (const Errno &error) {
            return error.number > 0 && error.number < 512 ? error.number : EIO;
        } catch (const std::system_error &error) {
            bool known = error.code().category() == std::generic_category() ||
                         error.code().category() == std::system_category();
            return known && error.code().value() > 0 ? error.code().value() : EIO;
        } catch (const std::bad_alloc &) {
            return ENOMEM;
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s\n", error.what());
            return EIO;
        } catch (...) {
            return EIO;
        }
    }
    static FileSystem &of(void *state) { return *static_cast<FileSystem *>(state); }
    static File &open_file(void *file) { return *static_cast<File *>(file); }

    static int init(const culvert_mount *mount, void **state) {
        return answer([&] {
            Mount made{mount->source, mount->target, {}, mount->read_only != 0};
            for (size_t i = 0; i < mount->option_count; i++)
                made.options.emplace_back(mount->options[i]);
            *state = static_cast<FileSystem *>(new Kind(made));
        });
    }
    static void finalize(void *state) { delete &of(state); }
    static int open(void *state, const char *path, int flags, mode_t mode, void **file) {
        return answer([&] {
            *file = of(state).open(path, flags, mode).release();
            if (!*file)
                throw Errno(EIO);
        });
    }
    static int close(void *, void *file) {
        return answer([&] { delete &open_file(file); });
    }
    static int read(void *, void *file, void *buffer, size_t size, off_t offset, size_t *done) {
        return answer([&] { *done = open_file(file).read(buffer, size, offset); });
    }
    static int write(void *, void *file, const void *buffer, size_t size, off_t offset,
                     size_t *done) {
        return answer([&] { *done = open_file(file).write(buffer, size, offset); });
    }
    static int fsync(void *, void *file, int data_only) {
        return answer([&] { open_file(file).fsync(data_only != 0); });
    }
    static int ftruncate(void *, void *file, off_t size) {
        return answer([&] { open_file(file).ftruncate(size); });
    }
    static int fgetattr(void *, void *file, struct stat *attributes) {
        return answer([&] { open_file(file).fgetattr(*attributes); });
    }
    static int getattr(void *state, const char *path, struct stat *attributes) {
        return answer([&] { of(state).getattr(path, *attributes); });
    }
    static int truncate(void *state, const char *path, off_t size) {
        return answer([&] { of(state).truncate(path, size); });
    }
    static int readlink(void *state, const char *path, char *buffer, size_t size) {
        return answer([&] {
            std::string target = of(state).readlink(path);
            if (target.size() >= size)
                throw Errno(ENAMETOOLONG);
            memcpy(buffer, target.c_str(), target.size() + 1);
        });
    }
    static int unlink(void *state, const char *path) {
        return answer([&] { of(state).unlink(path); });
    }
    static int mkdir(void *state, const char *path, mode_t mode) {
        return answer([&] { of(state).mkdir(path, mode); });
    }
    static int rmdir(void *state, const char *path) {
        return answer([&] { of(state).rmdir(path); });
    }
    static void put(const std::vector<Entry> &found, culvert_dirent *entries, size_t capacity,
                    size_t *count) {
        *count = found.size();
        for (size_t i = 0; i < found.size() && i < capacity; i++) {
            if (found[i].name.size() >= sizeof entries[i].name)
                throw Errno(ENAMETOOLONG);
            entries[i].inode = found[i].inode;
            entries[i].type = found[i].type;
            memcpy(entries[i].name, found[i].name.c_str(), found[i].name.size() + 1);
        }
    }
    static int getdirents(void *state, const char *path, culvert_dirent *entries, size_t capacity,
                          size_t *count) {
        return answer([&] { put(of(state).readdir(path), entries, capacity, count); });
    }
    static int opendir(void *state, const char *path, void **directory) {
        int result = answer([&] { *directory = of(state).opendir(path).release(); });
        return result || *directory ? result : ENOSYS;
    }
    static Directory &open_directory(void *directory) { return *static_cast<Directory *>(directory); }
    static int listdir(void *, void *directory, culvert_dirent *entries, size_t capacity,
                       size_t *count) {
        return answer([&] { put(open_directory(directory).list(), entries, capacity, count); });
    }
    static int syncdir(void *, void *directory, int data_only) {
        return answer([&] { open_directory(directory).fsync(data_only != 0); });
    }
    static int closedir(void *, void *directory) {
        return answer([&] { delete &open_directory(directory); });
    }
    static int capabilities(void *state, uint64_t *flags) {
        return answer([&] { *flags |= of(state).flags(); });
    }
    static int access(void *state, const char *path, int mode) {
        return answer([&] { of(state).access(path, mode); });
    }
    static int syncfs(void *state) {
        return answer([&] { of(state).syncfs(); });
    }
    static int fsyncdir(void *state, const char *path, int data_only) {
        return answer([&] { of(state).fsyncdir(path, data_only != 0); });
    }
    static int observe(void *state, const culvert_observer *observer) {
        return answer([&] { of(state).observe(observer); });
    }
    static int extended(void *state, const culvert_maps *maps) {
        return answer([&] { of(state).extended(maps); });
    }
    static int lseek(void *, void *file, off_t offset, int whence, off_t *found) {
        return answer([&] { *found = open_file(file).lseek(offset, whence); });
    }
    static int descriptor(void *, void *file, int *fd) {
        return answer([&] { *fd = open_file(file).descriptor(); });
    }
    static int copy(void *, void *from, off_t offset, void *to, off_t to_offset, size_t length,
                    size_t *done) {
        return answer([&] {
            *done = open_file(from).copy(offset, open_file(to), to_offset, length);
        });
    }
    static int ioctl(void *, void *file, uint32_t request, void *argument, size_t size,
                     int *result) {
        return answer([&] { *result = open_file(file).ioctl(request, argument, size); });
    }
    static int caching(void *, void *file, int *how) {
        return answer([&] { *how = open_file(file).caching(); });
    }
    static int poll(void *, void *file, culvert_waker *waker, unsigned *events) {
        return answer([&] { *events = open_file(file).poll(Waker(waker)); });
    }
    static int getlk(void *, void *file, uint64_t owner, struct flock *lock) {
        return answer([&] { open_file(file).getlk(owner, *lock); });
    }
    static int setlk(void *, void *file, uint64_t owner, const struct flock *lock,
                     const culvert_wait *wait) {
        return answer([&] { open_file(file).setlk(owner, *lock, wait); });
    }
    static int flock(void *, void *file, uint64_t owner, int operation, const culvert_wait *wait) {
        return answer([&] { open_file(file).flock(owner, operation, wait); });
    }
    static int chown(void *state, const char *path, uid_t uid, gid_t gid) {
        return answer([&] { of(state).chown(path, uid, gid); });
    }
    static int chmod(void *state, const char *path, mode_t mode) {
        return answer([&] { of(state).chmod(path, mode); });
    }
    static int rename(void *state, const char *from, const char *to, unsigned flags) {
        return answer([&] { of(state).rename(from, to, flags); });
    }
    static int utime(void *state, const char *path, const timespec times[2]) {
        return answer([&] { of(state).utime(path, times); });
    }
    static int symlink(void *state, const char *target, const char *path) {
        return answer([&] { of(state).symlink(target, path); });
    }
    static int link(void *state, const char *path, const char *name) {
        return answer([&] { of(state).link(path, name); });
    }
    static int mknod(void *state, const char *path, mode_t mode, dev_t device) {
        return answer([&] { of(state).mknod(path, mode, device); });
    }
    static int statfs(void *state, struct statvfs *found) {
        return answer([&] { of(state).statfs(*found); });
    }
    static int flush(void *, void *file) {
        return answer([&] { open_file(file).flush(); });
    }
    static int fallocate(void *, void *file, int mode, off_t offset, off_t length) {
        return answer([&] { open_file(file).fallocate(mode, offset, length); });
    }
    static int getxattr(void *state, const char *path, const char *name, void *value,
                        size_t *size) {
        return answer([&] { put(of(state).getxattr(path, name), value, size); });
    }
    static int setxattr(void *state, const char *path, const char *name, const void *value,
                        size_t size, int flags) {
        return answer([&] { of(state).setxattr(path, name, value, size, flags); });
    }
    static int listxattr(void *state, const char *path, char *names, size_t *size) {
        return answer([&] {
            std::string all;
            for (const std::string &name : of(state).listxattr(path))
                all.append(name.c_str(), name.size() + 1);
            put(all, names, size);
        });
    }
    static int removexattr(void *state, const char *path, const char *name) {
        return answer([&] { of(state).removexattr(path, name); });
    }
    static void put(const std::string &found, void *value, size_t *size) {
        if (found.size() > *size)
            throw Errno(ERANGE);
        memcpy(value, found.data(), found.size());
        *size = found.size();
    }

    static constexpr struct culvert_driver table(uint64_t flags) {
        struct culvert_driver made {};
        made.version = CULVERT_DRIVER_VERSION;
        made.size = sizeof made;
        made.flags = flags;
        made.init = init;
        made.finalize = finalize;
        made.open = open;
        made.close = close;
        made.read = read;
        made.write = write;
        made.fsync = fsync;
        made.ftruncate = ftruncate;
        made.fgetattr = fgetattr;
        made.getattr = getattr;
        made.truncate = truncate;
        made.readlink = readlink;
        made.unlink = unlink;
        made.mkdir = mkdir;
        made.rmdir = rmdir;
        made.getdirents = getdirents;
        made.chown = chown;
        made.chmod = chmod;
        made.rename = rename;
        made.utime = utime;
        made.symlink = symlink;
        made.link = link;
        made.mknod = mknod;
        made.statfs = statfs;
        made.flush = flush;
        made.fallocate = fallocate;
        made.getxattr = getxattr;
        made.setxattr = setxattr;
        made.listxattr = listxattr;
        made.removexattr = removexattr;
        made.capabilities = capabilities;
        made.access = access;
        made.syncfs = syncfs;
        made.fsyncdir = fsyncdir;
        made.opendir = opendir;
        made.listdir = listdir;
        made.syncdir = syncdir;
        made.closedir = closedir;
        made.observe = observe;
        made.extended = extended;
        made.lseek = lseek;
        made.descriptor = descriptor;
        made.copy = copy;
        made.ioctl = ioctl;
        made.caching = caching;
        made.poll = poll;
        made.getlk = getlk;
        made.setlk = setlk;
        made.flock = flock;
        return made;
    }
};

} // namespace culvert

/* Exports class Kind, with flags of culvert/driver.h. */
#define CULVERT_FILE_SYSTEM_WITH(Kind, flags) \
    extern "C" __attribute__((visibility("default"))) const struct culvert_driver culvert_driver = \
        ::culvert::Driver<Kind>::table(flags);
#define CULVERT_FILE_SYSTEM(Kind) CULVERT_FILE_SYSTEM_WITH(Kind, 0)

#endif
