// Linux calls on files: the standard streams, and files below the root directory of the options.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tilesim/isa/run/linux.hpp"

namespace tilesim::isa {

namespace {

constexpr std::uint64_t piece = 1 << 16;  ///< bytes moved at a time
constexpr std::uint64_t most_files = 1024;

std::int64_t error_or(std::int64_t result) { return result < 0 ? -static_cast<std::int64_t>(errno) : result; }

/// Waits until the file is ready to read (write), and handles Ctrl-C meanwhile.
void wait_for(Hart& hart, int file, short events) {
  pollfd one{file, events, 0};
  while (true) {
    const int ready = ::poll(&one, 1, 100);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    hart.poll(1 << 18);
  }
}

/// Converts open flags of RISC-V Linux (asm-generic/fcntl.h) to those of the host.
int host_flags(std::uint64_t flags) {
  int host = (flags & 3) == 0 ? O_RDONLY : (flags & 3) == 1 ? O_WRONLY : O_RDWR;
  if ((flags & 0100) != 0) host |= O_CREAT;
  if ((flags & 0200) != 0) host |= O_EXCL;
  if ((flags & 01000) != 0) host |= O_TRUNC;
  if ((flags & 02000) != 0) host |= O_APPEND;
  return host | O_CLOEXEC;
}

std::string text_at(Hart& hart, Address address) {
  std::string text;
  for (char c = 0; text.size() < 4096; text += c)
    if ((c = static_cast<char>(hart.memory->load<std::uint8_t>(address + text.size()))) == 0) break;
  return text;
}

}  // namespace

Linux::~Linux() {
  for (const auto& [number, file] : files_) ::close(file);
}

std::int64_t Linux::read_bytes(Hart& hart, std::uint64_t file, Address to, std::uint64_t bytes) {
  std::array<char, piece> buffer;  // not initialised: only bytes that were read are used
  bytes = std::min(bytes, piece);
  std::int64_t got = 0;
  const auto stream = streams_.find(file);
  const bool standard = stream != streams_.end();
  if (standard && stream->second == 0 && options_.streams[0] == Stream::kept) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes, options_.input.size() - read_);
    std::memcpy(buffer.data(), options_.input.data() + read_, part);
    got = static_cast<std::int64_t>(part), read_ += part;
  } else {
    const auto open = files_.find(file);
    if (standard ? stream->second != 0 : open == files_.end()) return -EBADF;
    const int host = standard ? 0 : open->second;
    wait_for(hart, host, POLLIN);
    got = error_or(::read(host, buffer.data(), bytes));
  }
  if (got > 0) hart.memory->write(to, buffer.data(), static_cast<std::uint64_t>(got));
  return got;
}

std::int64_t Linux::write_bytes(Hart& hart, std::uint64_t file, Address from, std::uint64_t bytes) {
  std::array<char, piece> buffer;
  bytes = std::min(bytes, piece);
  hart.memory->read(from, buffer.data(), bytes);
  const auto stream = streams_.find(file);
  const bool standard = stream != streams_.end() && stream->second != 0;
  if (standard && options_.streams[static_cast<std::size_t>(stream->second)] == Stream::kept) {
    if (bytes > options_.memory - std::min<std::uint64_t>(options_.memory, output.size() + errors.size()))
      throw Trap{
          Cause::no_memory, from,
          std::to_string(output.size() + errors.size()) + " bytes of output are kept, max_memory allows no more"};
    (stream->second == 1 ? output : errors).append(buffer.data(), bytes);
    return static_cast<std::int64_t>(bytes);
  }
  const auto open = files_.find(file);
  if (!standard && open == files_.end()) return -EBADF;
  const int host = standard ? stream->second : open->second;
  wait_for(hart, host, POLLOUT);
  return error_or(::write(host, buffer.data(), bytes));
}

std::int64_t Linux::read(Hart& hart, const std::uint64_t* a) { return read_bytes(hart, a[0], a[1], a[2]); }
std::int64_t Linux::write(Hart& hart, const std::uint64_t* a) { return write_bytes(hart, a[0], a[1], a[2]); }

std::int64_t Linux::readv(Hart& hart, const std::uint64_t* a) {
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(a[2], 1024); ++i) {
    const auto base = hart.memory->load<std::uint64_t>(a[1] + 16 * i),
               bytes = hart.memory->load<std::uint64_t>(a[1] + 16 * i + 8);
    const std::int64_t got = bytes == 0 ? 0 : read_bytes(hart, a[0], base, bytes);
    if (got < 0) return sum > 0 ? sum : got;
    sum += got;
    if (static_cast<std::uint64_t>(got) < bytes) break;
  }
  return sum;
}

std::int64_t Linux::writev(Hart& hart, const std::uint64_t* a) {
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(a[2], 1024); ++i) {
    const auto base = hart.memory->load<std::uint64_t>(a[1] + 16 * i),
               bytes = hart.memory->load<std::uint64_t>(a[1] + 16 * i + 8);
    const std::int64_t put = bytes == 0 ? 0 : write_bytes(hart, a[0], base, bytes);
    if (put < 0) return sum > 0 ? sum : put;
    sum += put;
    if (static_cast<std::uint64_t>(put) < bytes) break;
  }
  return sum;
}

std::int64_t Linux::host_path(Hart& hart, std::uint64_t directory, Address path, std::string& found) const {
  const std::string text = text_at(hart, path);
  if (options_.root.empty()) return -ENOENT;
  if (static_cast<std::int32_t>(directory) != -100 && !text.starts_with('/')) return -ENOENT;  // only AT_FDCWD
  std::error_code error;
  const auto root = std::filesystem::weakly_canonical(options_.root, error);
  const auto whole = std::filesystem::weakly_canonical(root / std::filesystem::path(text).relative_path(), error);
  if (error) return -ENOENT;
  const auto inside = whole.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") return -EACCES;
  found = whole.string();
  return 0;
}

std::int64_t Linux::openat(Hart& hart, const std::uint64_t* a) {
  std::string path;
  if (const std::int64_t error = host_path(hart, a[0], a[1], path); error != 0) return error;
  const int file = ::open(path.c_str(), host_flags(a[2]) | O_NOFOLLOW, static_cast<mode_t>(a[3] & 0777));
  if (file < 0) return -static_cast<std::int64_t>(errno);
  const std::uint64_t number = unused(0);
  if (number >= most_files) return ::close(file), -EMFILE;
  files_[number] = file;
  return static_cast<std::int64_t>(number);
}

std::uint64_t Linux::unused(std::uint64_t from) const {
  while (files_.contains(from) || streams_.contains(from)) ++from;
  return from;
}

std::int64_t Linux::close(Hart&, const std::uint64_t* a) {
  if (streams_.erase(a[0]) != 0) return 0;
  const auto open = files_.find(a[0]);
  if (open == files_.end()) return -EBADF;
  const std::int64_t result = error_or(::close(open->second));
  files_.erase(open);
  return result;
}

std::int64_t Linux::copied(std::uint64_t file, std::uint64_t to) {
  if (to >= most_files) return -EMFILE;
  if (const auto stream = streams_.find(file); stream != streams_.end()) {
    streams_[to] = stream->second;
    return static_cast<std::int64_t>(to);
  }
  const auto open = files_.find(file);
  if (open == files_.end()) return -EBADF;
  const int made = ::fcntl(open->second, F_DUPFD_CLOEXEC, 3);
  if (made < 0) return -static_cast<std::int64_t>(errno);
  files_[to] = made;
  return static_cast<std::int64_t>(to);
}

std::int64_t Linux::dup(Hart&, const std::uint64_t* a) { return copied(a[0], unused(0)); }

std::int64_t Linux::dup3(Hart& hart, const std::uint64_t* a) {
  const bool known = files_.contains(a[0]) || streams_.contains(a[0]);
  if (a[0] == a[1]) return -EINVAL;
  if (!known || a[1] >= most_files) return -EBADF;
  const std::uint64_t old[1] = {a[1]};
  close(hart, old);
  return copied(a[0], a[1]);
}

std::int64_t Linux::fcntl(Hart&, const std::uint64_t* a) {
  // numbers of include/uapi/asm-generic/fcntl.h
  constexpr std::uint64_t copy = 0, get_flags = 1, set_flags = 2, get_mode = 3, set_mode = 4, copy_closed = 1030;
  const auto stream = streams_.find(a[0]);
  const auto open = files_.find(a[0]);
  if (stream == streams_.end() && open == files_.end()) return -EBADF;
  switch (a[1]) {
    case copy:
    case copy_closed:
      return a[2] < most_files ? copied(a[0], unused(a[2])) : -EINVAL;
    case get_flags:
    case set_flags:
    case set_mode:
      return 0;
    case get_mode:
      if (stream != streams_.end()) return stream->second == 0 ? 0 : 1;
      return ::fcntl(open->second, F_GETFL) & (O_ACCMODE | O_APPEND);
    default:
      return -EINVAL;
  }
}

std::int64_t Linux::lseek(Hart&, const std::uint64_t* a) {
  const auto open = files_.find(a[0]);
  if (open == files_.end()) return streams_.contains(a[0]) ? -ESPIPE : -EBADF;
  if (a[2] > 2) return -EINVAL;
  return error_or(::lseek(open->second, static_cast<off_t>(a[1]), static_cast<int>(a[2])));
}

/// Writes struct stat of asm-generic/stat.h, 128 bytes; host_file −1: a standard stream, reported as a pipe.
std::int64_t Linux::put_status(Hart& hart, Address to, int host_file) {
  std::uint32_t mode = 0010600;
  std::int64_t size = 0;
  if (host_file >= 0) {
    struct stat status{};
    if (::fstat(host_file, &status) != 0) return -static_cast<std::int64_t>(errno);
    mode = status.st_mode, size = status.st_size;
  }
  std::array<std::uint8_t, 128> raw{};
  const std::uint32_t links = 1, block = 4096;
  const std::int64_t blocks = (size + 511) / 512;
  std::memcpy(raw.data() + 16, &mode, 4);
  std::memcpy(raw.data() + 20, &links, 4);
  std::memcpy(raw.data() + 48, &size, 8);
  std::memcpy(raw.data() + 56, &block, 4);
  std::memcpy(raw.data() + 64, &blocks, 8);
  hart.memory->write(to, raw.data(), raw.size());
  return 0;
}

std::int64_t Linux::fstat(Hart& hart, const std::uint64_t* a) {
  if (streams_.contains(a[0])) return put_status(hart, a[1], -1);
  const auto open = files_.find(a[0]);
  return open == files_.end() ? -EBADF : put_status(hart, a[1], open->second);
}

std::int64_t Linux::newfstatat(Hart& hart, const std::uint64_t* a) {
  constexpr std::uint64_t empty_path = 0x1000;
  if ((a[3] & empty_path) != 0 && hart.memory->load<std::uint8_t>(a[1]) == 0) {
    const std::uint64_t args[2] = {a[0], a[2]};
    return fstat(hart, args);
  }
  std::string path;
  if (const std::int64_t error = host_path(hart, a[0], a[1], path); error != 0) return error;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return -static_cast<std::int64_t>(errno);
  const std::int64_t result = put_status(hart, a[2], file);
  ::close(file);
  return result;
}

std::int64_t Linux::ioctl(Hart&, const std::uint64_t* a) {
  return streams_.contains(a[0]) || files_.contains(a[0]) ? -ENOTTY : -EBADF;
}

std::int64_t Linux::readlinkat(Hart&, const std::uint64_t*) { return -EINVAL; }  // no file is a link

}  // namespace tilesim::isa
