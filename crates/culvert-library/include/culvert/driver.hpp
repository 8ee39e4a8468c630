/* A driver as a class of C++17: culvert/driver.h says what each function owes.
 *
 *     class Mine : public culvert::FileSystem { ... };
 *     CULVERT_FILE_SYSTEM(Mine)
 *
 * The class has a constructor that takes a culvert::Mount. A function that it does not override throws
 * the error that stands in it. An exception is the call's error: an
 * Errno or a std::system_error its number, std::bad_alloc ENOMEM, any other EIO. Functions are called
 * by several threads.
 */
#ifndef CULVERT_DRIVER_HPP
#define CULVERT_DRIVER_HPP

#include "driver.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
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
};

/* A name in a directory. */
struct Entry {
    std::string name;
    /* S_IFREG, S_IFDIR, ... */
    uint32_t type;
    uint64_t inode = 0;
};

class FileSystem {
public:
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
    static int getdirents(void *state, const char *path, culvert_dirent *entries, size_t capacity,
                          size_t *count) {
        return answer([&] {
            std::vector<Entry> found = of(state).readdir(path);
            *count = found.size();
            for (size_t i = 0; i < found.size() && i < capacity; i++) {
                if (found[i].name.size() >= sizeof entries[i].name)
                    throw Errno(ENAMETOOLONG);
                entries[i].inode = found[i].inode;
                entries[i].type = found[i].type;
                memcpy(entries[i].name, found[i].name.c_str(), found[i].name.size() + 1);
            }
        });
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
