/* A store of keys and values, as files in one directory; extended attributes say more of a key. */
#include <culvert/driver.hpp>

#include <algorithm>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

timespec now() {
    timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    return found;
}

/* A value; who has it open keeps it when its key is gone. */
struct Value {
    explicit Value(mode_t mode) {
        attributes.st_mode = mode;
        attributes.st_nlink = 1;
        attributes.st_uid = geteuid();
        attributes.st_gid = getegid();
        attributes.st_ino = reinterpret_cast<ino_t>(this);
        attributes.st_atim = attributes.st_mtim = attributes.st_ctim = now();
    }
    void stat(struct stat &found) {
        std::lock_guard guard(lock);
        found = attributes;
        found.st_size = bytes.size();
        found.st_blocks = (bytes.size() + 511) / 512;
    }
    void resize(off_t size) {
        std::lock_guard guard(lock);
        bytes.resize(size);
        attributes.st_mtim = attributes.st_ctim = now();
    }
    std::mutex lock;
    struct stat attributes {};
    std::string bytes;
    std::map<std::string, std::string> more;
};

class Opened : public culvert::File {
public:
    explicit Opened(std::shared_ptr<Value> value) : value(std::move(value)) {}
    size_t read(void *buffer, size_t size, off_t offset) override {
        std::lock_guard guard(value->lock);
        size_t start = std::min<size_t>(offset, value->bytes.size());
        return value->bytes.copy(static_cast<char *>(buffer), size, start);
    }
    size_t write(const void *buffer, size_t size, off_t offset) override {
        std::lock_guard guard(value->lock);
        if (offset + size > value->bytes.size())
            value->bytes.resize(offset + size);
        value->bytes.replace(offset, size, static_cast<const char *>(buffer), size);
        value->attributes.st_mtim = value->attributes.st_ctim = now();
        return size;
    }
    void ftruncate(off_t size) override { value->resize(size); }
    void fgetattr(struct stat &found) override { value->stat(found); }

private:
    std::shared_ptr<Value> value;
};

class KeyValue : public culvert::FileSystem {
public:
    explicit KeyValue(const culvert::Mount &) {}
    void getattr(const std::string &path, struct stat &found) override { find(path)->stat(found); }
    std::vector<culvert::Entry> readdir(const std::string &path) override {
        if (!path.empty())
            throw culvert::Errno(ENOTDIR);
        std::lock_guard guard(lock);
        std::vector<culvert::Entry> found;
        for (const auto &[name, value] : values)
            found.push_back({name, S_IFREG, value->attributes.st_ino});
        return found;
    }
    std::unique_ptr<culvert::File> open(const std::string &path, int flags, mode_t mode) override {
        if (flags & O_CREAT) {
            std::lock_guard guard(lock);
            if (!values.try_emplace(path, std::make_shared<Value>(S_IFREG | mode)).second)
                throw culvert::Errno(EEXIST);
            touch();
        }
        auto value = find(path);
        if (flags & O_TRUNC)
            value->resize(0);
        return std::make_unique<Opened>(std::move(value));
    }
    void truncate(const std::string &path, off_t size) override { find(path)->resize(size); }
    void unlink(const std::string &path) override {
        std::lock_guard guard(lock);
        if (!values.erase(path))
            throw culvert::Errno(ENOENT);
        touch();
    }
    void rename(const std::string &from, const std::string &to, unsigned flags) override {
        std::lock_guard guard(lock);
        auto one = values.find(from), other = values.find(to);
        if (one == values.end() || (flags == RENAME_EXCHANGE && other == values.end()))
            throw culvert::Errno(ENOENT);
        if (flags == RENAME_NOREPLACE && other != values.end())
            throw culvert::Errno(EEXIST);
        if (flags > RENAME_EXCHANGE)
            throw culvert::Errno(EINVAL);
        auto value = one->second;
        value->attributes.st_ctim = now();
        if (flags == RENAME_EXCHANGE)
            one->second = other->second;
        else if (from != to)
            values.erase(one);
        values[to] = value;
        touch();
    }
    void chmod(const std::string &path, mode_t mode) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        value->attributes.st_mode = (value->attributes.st_mode & S_IFMT) | mode;
        value->attributes.st_ctim = now();
    }
    void chown(const std::string &path, uid_t uid, gid_t gid) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        if (uid != uid_t(-1))
            value->attributes.st_uid = uid;
        if (gid != gid_t(-1))
            value->attributes.st_gid = gid;
        // As chown(2) takes them.
        mode_t taken = S_ISUID | (value->attributes.st_mode & S_IXGRP ? S_ISGID : 0);
        value->attributes.st_mode &= ~taken;
        value->attributes.st_ctim = now();
    }
    void utime(const std::string &path, const timespec *times) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        if (times[0].tv_nsec != UTIME_OMIT)
            value->attributes.st_atim = times[0];
        if (times[1].tv_nsec != UTIME_OMIT)
            value->attributes.st_mtim = times[1];
        value->attributes.st_ctim = now();
    }
    std::string getxattr(const std::string &path, const std::string &name) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        auto found = value->more.find(name);
        if (found == value->more.end())
            throw culvert::Errno(ENODATA);
        return found->second;
    }
    void setxattr(const std::string &path, const std::string &name, const void *bytes, size_t size,
                  int flags) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        bool exists = value->more.count(name);
        if (exists && (flags & XATTR_CREATE))
            throw culvert::Errno(EEXIST);
        if (!exists && (flags & XATTR_REPLACE))
            throw culvert::Errno(ENODATA);
        value->more[name].assign(static_cast<const char *>(bytes), size);
        value->attributes.st_ctim = now();
    }
    std::vector<std::string> listxattr(const std::string &path) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        std::vector<std::string> names;
        for (const auto &[name, bytes] : value->more)
            names.push_back(name);
        return names;
    }
    void removexattr(const std::string &path, const std::string &name) override {
        auto value = find(path);
        std::lock_guard guard(value->lock);
        if (!value->more.erase(name))
            throw culvert::Errno(ENODATA);
        value->attributes.st_ctim = now();
    }

private:
    std::shared_ptr<Value> find(const std::string &path) {
        if (path.empty())
            return root;
        std::lock_guard guard(lock);
        auto found = values.find(path);
        if (found == values.end())
            throw culvert::Errno(ENOENT);
        return found->second;
    }
    void touch() {
        std::lock_guard guard(root->lock);
        root->attributes.st_mtim = root->attributes.st_ctim = now();
    }
    std::mutex lock;
    std::map<std::string, std::shared_ptr<Value>> values;
    std::shared_ptr<Value> root = std::make_shared<Value>(S_IFDIR | 0755);
};

} // namespace

CULVERT_FILE_SYSTEM_WITH(KeyValue, CULVERT_KEEPS_UNLINKED)
