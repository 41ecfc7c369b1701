#include "tilesim/base/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void unreadable(const std::string& path, const std::string& why) {
  throw UserError({"the file cannot be read", path, why, "a regular file", {}});
}

/// Rejects a path with a zero byte, at which a C string would end.
void check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw UserError({"a path holds a zero byte", path.substr(0, path.find('\0')), {}, "a path without", {}});
}

constexpr std::string_view hexadecimal = "0123456789abcdef";
constexpr std::string_view mark = ".tilesim-";  ///< in names of temporary files, before 16 digits
constexpr std::size_t digits = 16;

std::string random_name() {
  std::random_device device;
  std::string text(mark);
  for (std::size_t i = 0; i < digits; ++i) text += hexadecimal[device() % hexadecimal.size()];
  return text;
}

bool is_temporary(const std::string& name) {
  const std::size_t at = name.find(mark), end = at + mark.size() + digits;
  if (name.empty() || name[0] != '.' || at == std::string::npos || name.size() < end) return false;
  const bool random = name.find_first_not_of(hexadecimal, at + mark.size()) >= end;
  return random && (name.size() == end || name[end] == '.');
}

/// Removes files of killed writers from a directory; a running writer holds a lock on its file. Once per process and
/// directory, because the directory may be large.
void remove_abandoned(const std::filesystem::path& directory) {
  static std::mutex mutex;
  static std::set<std::filesystem::path> done;
  static pid_t process = 0;
  const std::lock_guard guard(mutex);
  if (std::exchange(process, ::getpid()) != process) done.clear();  // a forked process searches again
  if (!done.insert(directory).second) return;
  std::error_code none;
  for (std::filesystem::directory_iterator entry(directory.empty() ? "." : directory, none), end; !none && entry != end;
       entry.increment(none)) {
    if (!is_temporary(entry->path().filename().string())) continue;
    const int found = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (found < 0) continue;
    if (::flock(found, LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
    ::close(found);
  }
}

constexpr std::int64_t at_once = std::int64_t{4} << 20;
constexpr std::int64_t synced_at_once = std::int64_t{32}
                                        << 20;  // the last fsync, which cannot be cancelled, waits for these

}  // namespace

InputFile::InputFile(std::string path, const std::string& owner) : path_(std::move(path)) {
  const std::string place = owner.empty() ? path_ : owner + ", file " + path_;
  check_path(path_);
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0 && errno == ENOENT) throw UserError({"no such file", place, {}, {}, {}});
  if (descriptor_ < 0) unreadable(place, reason(errno));
  struct stat status{};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  unreadable(place, known && S_ISDIR(status.st_mode) ? "a directory" : "a pipe or a device");
}

InputFile::~InputFile() { ::close(descriptor_); }

std::int64_t InputFile::read(std::int64_t offset, void* to, std::int64_t bytes) const {
  std::int64_t done = 0;
  while (done < bytes) {
    const auto wanted = static_cast<std::size_t>(std::min(bytes - done, at_once));
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(to) + done, wanted, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) unreadable(path_, reason(errno));
    if (got == 0) break;
    done += got;
    worked(got / 64);
  }
  return done;
}

std::string read_file(const std::string& path) {
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), ' ');
  text.resize(static_cast<std::size_t>(file.read(0, text.data(), file.size())));
  return text;
}

ReplacedFile::ReplacedFile(std::string path) : path_(std::move(path)) {
  check_path(path_);
  std::error_code none;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path_, none);
  target_ = none || real.empty() ? path_ : real.string();
  struct stat status{};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  direct_ = exists && !S_ISREG(status.st_mode);
  if (exists && !direct_ && ::access(target_.c_str(), W_OK) != 0) fail(errno);  // keeps a write-protected file
  open();
  if (exists && !direct_ && ::fchmod(descriptor_, status.st_mode & 07777) != 0) errno = 0;
}

void ReplacedFile::open() {
  const std::filesystem::path whole = target_;
  if (!direct_) remove_abandoned(whole.parent_path());
  for (struct stat status{};;) {
    // Keep the extension, because some writers check it.
    const std::string name = "." + whole.stem().string().substr(0, 100) + random_name() + whole.extension().string();
    temporary_ = direct_ ? target_ : (whole.parent_path() / name).string();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | (direct_ ? 0 : O_CREAT | O_EXCL), 0666);
    if (descriptor_ < 0) {
      const int error = errno;
      temporary_.clear();
      fail(error);
    }
    // Before the lock, another process may have removed the file as abandoned.
    if (direct_ || ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return;
    if (::fstat(descriptor_, &status) != 0 || status.st_nlink > 0) return;
    ::close(descriptor_);
  }
}

ReplacedFile::~ReplacedFile() { discard(); }

void ReplacedFile::discard() noexcept {
  if (!direct_ && !temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  temporary_.clear();
}

void ReplacedFile::fail(int error) const {
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  const std::string why = error == ENOENT   ? "the directory " + folder + " does not exist"
                          : error == EISDIR ? "it is a directory"
                                            : reason(error);
  throw UserError({"the file cannot be written: " + why, path_, {}, {}, {}});
}

void ReplacedFile::write(const void* data, std::int64_t bytes) {
  for (std::int64_t done = 0; done < bytes;) {
    const auto wanted = static_cast<std::size_t>(std::min(bytes - done, at_once));
    const ssize_t written = ::write(descriptor_, static_cast<const char*>(data) + done, wanted);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    done += written;
    unsynced_ += written;
    worked(written / 16);
    if (direct_ || unsynced_ < synced_at_once) continue;
    if (::fdatasync(descriptor_) != 0) fail(errno);
    unsynced_ = 0;
    worked(synced_at_once);  // counts the time of a slow disk as work
  }
}

void ReplacedFile::commit() {
  if (descriptor_ < 0) throw InternalError("a file is committed twice");
  if (!direct_ && ::fsync(descriptor_) != 0) fail(errno);
  // Rename while the lock is held, because other processes remove unlocked temporary files.
  if (!direct_ && ::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail(errno);
  if (direct_) return;
  // Flush the directory entry, against a loss of power. Ignore errors, because some file systems do not support it.
  const std::string directory = std::filesystem::path(target_).parent_path().string();
  const int entry = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (entry >= 0) {
    [[maybe_unused]] const int brought = ::fsync(entry);
    ::close(entry);
  }
}

}  // namespace tilesim
