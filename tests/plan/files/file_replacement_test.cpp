#include "plan/files/file_replacement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace gradrecomp::plan {
namespace {

namespace fs = std::filesystem;
using test::expect_invalid;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

void expect_not_taken(const fs::path& path, const std::string& text, const std::string& reason) {
  try {
    replace_file("the test", path, text);
    ADD_FAILURE() << path << " took it";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("must take all"), std::string::npos) << error.what();
  }
}

/// Why check_replaceable() refuses `path` in another process, which calls `change` first: "" if it
/// does not, "no change" if that returns false.
std::string refusal(const fs::path& path, const std::function<bool()>& change) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string found;
    try {
      if (!change())
        found = "no change";
      else
        check_replaceable("the test", path);
    } catch (const std::invalid_argument& error) {
      found = error.what();
    }
    const bool is_told = ::write(pipe[1], found.data(), found.size()) >= 0;
    ::_exit(is_told ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string found(1000, '\0');
  found.resize(static_cast<std::size_t>(::read(pipe[0], found.data(), found.size())));
  ::close(pipe[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return found;
}

/// No file of this process may grow beyond so many bytes, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t most_bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{most_bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(FileReplacement, LeavesTheOldFileWholeWhereTheDiskIsFull) {
  const test::TemporaryFolder folder;
  replace_file("the test", folder / "file", "old");
  {
    const FullDisk disk(5);
    expect_not_taken(folder / "file", "a longer text", "File too large");
    expect_not_taken(folder / "new", "a longer text", "File too large");
  }
  EXPECT_EQ(content(folder / "file"), "old");
  EXPECT_EQ(folder.num_files(), 1) << "a part is left beside it";
}

TEST(FileReplacement, LeavesNothingWhereTheProcessIsKilled) {
  const test::TemporaryFolder folder;
  const int nameless = ::open((folder / ".").c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (nameless < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(nameless);
  const pid_t child = ::fork();
  if (child == 0) {
    const FullDisk disk(5);
    std::signal(SIGXFSZ, SIG_DFL);  // kills
    replace_file("the test", folder / "new", "a longer text");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.num_files(), 0) << "a part is left";
}

TEST(FileReplacement, KeepsThePermissions) {
  const test::TemporaryFolder folder;
  replace_file("the test", folder / "file", "old");
  const mode_t usual = mode_of(folder / "file");
  std::ofstream(folder / "other") << "made by the library";
  EXPECT_EQ(usual, mode_of(folder / "other"));
  for (const mode_t mode : {0600, 0640, 0777}) {
    ASSERT_EQ(::chmod((folder / "file").c_str(), mode), 0);
    replace_file("the test", folder / "file", "new");
    EXPECT_EQ(mode_of(folder / "file"), mode);
  }
  EXPECT_EQ(content(folder / "file"), "new");
}

TEST(FileReplacement, FollowsLinksAndLeavesThem) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "far");
  fs::create_symlink("far/file", folder / "link");
  fs::create_symlink("link", folder / "link to it");
  replace_file("the test", folder / "link to it", "made behind a link that led nowhere");
  replace_file("the test", folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "link to it"));
  EXPECT_EQ(content(folder / "far/file"), "new");
  fs::create_symlink("round", folder / "round");
  expect_invalid([&] { check_replaceable("the test", folder / "round"); }, "must be writable");
}

TEST(FileReplacement, WritesToAPipeAndADevice) {
  const test::TemporaryFolder folder;
  replace_file("the test", "/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  expect_not_taken("/dev/full", "text", "No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  replace_file("the test", folder / "pipe", "text");
  std::array<char, 9> read{};
  EXPECT_EQ(::read(reader, read.data(), read.size()), 4);
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  ::close(reader);
}

TEST(FileReplacement, WritesToADescriptorWhereItIs) {
  const test::TemporaryFolder folder;
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(file, "before ", 7), 7);
  replace_file("the test", "/dev/fd/" + std::to_string(file), "between");
  ASSERT_EQ(::write(file, " behind", 7), 7);
  ::close(file);
  EXPECT_EQ(content(folder / "log"), "before between behind");
  expect_invalid([&] { check_replaceable("the test", "/dev/fd/" + std::to_string(file)); },
                 "but must be writable");
}

TEST(FileReplacement, IsRefusedBeforeAnythingIsOpened) {
  const test::TemporaryFolder folder;
  check_replaceable("the test", folder / "file");
  EXPECT_EQ(folder.num_files(), 0);
  for (const auto* path : {"none/file", "", "none/"}) {
    expect_invalid([&] { check_replaceable("--out", folder / path); },
                   "but must be writable. Pass a file in a folder that exists and takes new files");
  }
}

TEST(FileReplacement, RefusesAMountPoint) {
  const test::TemporaryFolder folder;
  replace_file("the test", folder / "file", "old");
  const fs::path file = folder / "file";
  const auto found = refusal(file, [&] {
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           ::mount(file.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) == 0;
  });
  if (found == "no change") GTEST_SKIP() << "this system lets programs mount nothing";
  EXPECT_EQ(found, "the test: file is " + file.string() +
                       ", but must be no mount point. Pass a file that another can take the "
                       "place of.");
}

TEST(FileReplacement, RefusesAnothersFileInAStickyFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "shared");
  ASSERT_EQ(::chmod((folder / ".").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 01777), 0);
  const fs::path file = folder / "shared/file";
  replace_file("the test", file, "old");
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  const auto become_another = [] { return ::setuid(65534) == 0; };
  EXPECT_EQ(refusal(file, become_another),
            "the test: file is " + file.string() +
                ", but must be your own, as its folder is sticky. Pass a file that another can "
                "take the place of.");
  EXPECT_EQ(refusal(folder / "shared/new", become_another), "");
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 0777), 0);
  EXPECT_EQ(refusal(file, become_another), "");
}

TEST(FileReplacement, KnowsOneFileByItsNames) {
  const test::TemporaryFolder folder;
  fs::create_symlink("file", folder / "link");
  EXPECT_TRUE(is_same_file(folder / "file", folder / "link"));
  EXPECT_TRUE(is_same_file(folder / "file", folder / "./file"));
  EXPECT_FALSE(is_same_file(folder / "file", folder / "other"));
  std::ofstream(folder / "file") << "text";
  fs::create_hard_link(folder / "file", folder / "second name");
  EXPECT_TRUE(is_same_file(folder / "file", folder / "second name"));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null")) << "takes any number of texts";
}

}  // namespace
}  // namespace gradrecomp::plan
