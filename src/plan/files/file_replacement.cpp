#include "file_replacement.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "file_target.h"
#include "plan/error.h"

namespace gradrecomp::plan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kUsual = 0666;  // less what the umask takes away
constexpr mode_t kPrivate = 0600;
constexpr mode_t kPermissions = 07777;

constexpr const char* kNeedsFolder = "Pass a file in a folder that exists and takes new files";
constexpr const char* kNeedsOther = "Pass a file that another can take the place of";

[[noreturn]] void refuse(std::string_view function, const fs::path& path, std::string requirement,
                         const char* advice) {
  raise({function, "file", path.string(), std::move(requirement), advice});
}

/// The disk or the reader is at fault, not the argument.
[[noreturn]] void fail_to_write(std::string_view function, const fs::path& path, int error) {
  throw std::runtime_error(
      std::string(function) + ": file is " + path.string() + " (" + std::strerror(error) +
      "), but must take all that is written. Make room, or pass another file.");
}

/// An open file that is closed, at the latest, when this ends.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  [[nodiscard]] int number() const { return number_; }

  [[nodiscard]] bool write(std::string_view text) const {
    while (!text.empty()) {
      const auto written = ::write(number_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  /// False if what was written has not arrived.
  bool close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0;
  }

 private:
  int number_;
};

/// Opens a file in `folder` that has no name yet, so that it is gone if the program is killed.
/// Negative where the file system has none such, or no way to name it later.
int open_nameless(const fs::path& folder, mode_t mode) {
#ifdef O_TMPFILE
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
#else
  static_cast<void>(folder), static_cast<void>(mode);
  return -1;
#endif
}

bool give_name(int file, const fs::path& name) {
  const auto nameless = "/proc/self/fd/" + std::to_string(file);
  return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// A file of ours beside `target`, gone when this ends unless it was put in place.
class Part {
 public:
  explicit Part(const fs::path& target) : target_(target) {
    std::random_device random;
    path_ = target.parent_path() / (".gradrecomp-" + std::to_string(random()) + ".part");
  }
  ~Part() {
    if (is_there_) ::unlink(path_.c_str());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  [[nodiscard]] int open(mode_t mode) {
    if (const int nameless = open_nameless(target_.parent_path(), mode); nameless >= 0) {
      return nameless;
    }
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    is_there_ = file >= 0;
    return file;
  }

  /// Gives the `file` that open() returned a name, if it has none.
  [[nodiscard]] bool appear(int file) {
    if (!is_there_) is_there_ = give_name(file, path_);
    return is_there_;
  }

  [[nodiscard]] bool put_in_place() {
    is_there_ = ::rename(path_.c_str(), target_.c_str()) != 0;
    return !is_there_;
  }

 private:
  fs::path target_;
  fs::path path_;
  bool is_there_ = false;
};

/// Gives the open `file` the permissions that another had and, where the system lets us, its owner.
bool take_permissions(int file, const struct stat& old) {
  if (::fchown(file, old.st_uid, old.st_gid) != 0 && errno != EPERM) return false;
  return ::fchmod(file, old.st_mode & kPermissions) == 0;
}

// Both return 0 or the number of the error.

int write_directly(const FileTarget& target, std::string_view text) {
  std::fflush(nullptr);  // what was printed to a descriptor before is written before
  Descriptor file(target.descriptor >= 0 ? ::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0)
                                         : ::open(target.path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.is_open() && file.write(text) && file.close() ? 0 : errno;
}

int write_beside(const FileTarget& target, std::string_view text) {
  struct stat old {};
  const bool is_new = ::stat(target.path.c_str(), &old) != 0;
  Part part(target.path);
  // What replaces a private file is private from its first byte on.
  Descriptor file(part.open(is_new ? kUsual : kPrivate));
  // fsync: some file systems notice only then that they are full.
  const bool done = file.is_open() && (is_new || take_permissions(file.number(), old)) &&
                    file.write(text) && ::fsync(file.number()) == 0 && part.appear(file.number()) &&
                    file.close() && part.put_in_place();
  return done ? 0 : errno;
}

bool may_write(const fs::path& path) { return ::access(path.c_str(), W_OK) == 0; }

/// Of what is there, or of nothing.
bool may_be_name(const fs::path& path) {
  struct stat there {};
  return ::lstat(path.c_str(), &there) == 0 || errno == ENOENT;
}

bool is_replaceable(const FileTarget& target) {
  std::error_code error;
  const auto folder = target.path.parent_path();
  if (target.descriptor >= 0) return ::fcntl(target.descriptor, F_GETFD) >= 0;
  if (!may_be_name(target.path)) return false;  // too long, say
  // It is still a link where links form a loop.
  if (fs::is_directory(target.path, error) || fs::is_symlink(target.path, error)) return false;
  if (fs::exists(target.path, error) && !may_write(target.path)) return false;
  return target.in_place || (fs::is_directory(folder, error) && may_write(folder));
}

/// Whether something else is mounted at `path`, as containers do with single files. It keeps its
/// name.
bool is_mounted(const fs::path& path) {
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx there {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &there) == 0 &&
         (there.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  static_cast<void>(path);
  return false;  // writing will tell
#endif
}

/// Whether another user's file is there that its folder lets nobody else rename, as /tmp does.
bool is_protected(const fs::path& path) {
  struct stat folder {};
  struct stat file {};
  const uid_t user = ::geteuid();
  if (user == 0 || ::stat(path.parent_path().c_str(), &folder) != 0) return false;
  if ((folder.st_mode & S_ISVTX) == 0 || folder.st_uid == user) return false;
  return ::lstat(path.c_str(), &file) == 0 && file.st_uid != user;
}

}  // namespace

void replace_file(std::string_view function, const fs::path& path, std::string_view text) {
  check_replaceable(function, path);
  const auto target = file_target(path);
  const int error = target.in_place ? write_directly(target, text) : write_beside(target, text);
  if (error != 0) fail_to_write(function, path, error);
}

void check_replaceable(std::string_view function, const fs::path& path) {
  const auto target = file_target(path);
  if (!is_replaceable(target)) refuse(function, path, "writable", kNeedsFolder);
  if (target.in_place) return;
  if (is_mounted(target.path)) refuse(function, path, "no mount point", kNeedsOther);
  if (is_protected(target.path)) {
    refuse(function, path, "your own, as its folder is sticky", kNeedsOther);
  }
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  const auto first = file_target(a);
  const auto second = file_target(b);
  if (first.in_place || second.in_place) return false;
  std::error_code error;
  return first.path == second.path || fs::equivalent(first.path, second.path, error);
}

}  // namespace gradrecomp::plan
