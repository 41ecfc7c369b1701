// Deterministic emulation of the Linux calls of static programs. The clock counts instructions, or cycles in a timed
// run; random bytes follow a seed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa {

/// Address layout of a process.
inline constexpr Address stack_top = 0x40'0000'0000, stack_bytes = 8 << 20, mmap_from = 0x20'0000'0000;

/// Target of a standard stream: a stored text, the process's own stream, or none.
enum class Stream : std::uint8_t { kept, own, closed };

struct LinuxOptions {
  std::string root;                 ///< directory whose files may be opened; empty: no files
  std::uint64_t seed = 0;           ///< seed of getrandom
  std::array<Stream, 3> streams{};  ///< standard input, output, errors
  std::string input;                ///< text for standard input
  /// Limit in bytes on pages in use; also on the heap and accessible mappings, and on stored output.
  std::uint64_t memory = std::uint64_t{4} << 30;
};

class Linux : public Environment {
 public:
  Linux(LinuxOptions options, Address heap) : options_(std::move(options)), heap_(heap), brk_(heap), heap_end_(heap) {
    for (std::uint64_t stream = 0; stream < 3; ++stream)
      if (options_.streams[stream] != Stream::closed) streams_[stream] = static_cast<int>(stream);
  }
  ~Linux() override;

  void call(Hart& hart, const Op& op) override;
  std::uint64_t random();
  std::uint64_t memory_limit() const { return options_.memory; }

  std::string output, errors;  ///< stored output of the standard streams

 private:
  using Call = std::int64_t (Linux::*)(Hart&, const std::uint64_t*);
  struct SystemCall {
    int number;
    const char* name;
    Call call;
  };
  static const std::vector<SystemCall>& table();

  std::int64_t exit(Hart&, const std::uint64_t*);
  std::int64_t read(Hart&, const std::uint64_t*);
  std::int64_t write(Hart&, const std::uint64_t*);
  std::int64_t readv(Hart&, const std::uint64_t*);
  std::int64_t writev(Hart&, const std::uint64_t*);
  std::int64_t openat(Hart&, const std::uint64_t*);
  std::int64_t close(Hart&, const std::uint64_t*);
  std::int64_t dup(Hart&, const std::uint64_t*);
  std::int64_t dup3(Hart&, const std::uint64_t*);
  std::int64_t fcntl(Hart&, const std::uint64_t*);
  std::int64_t lseek(Hart&, const std::uint64_t*);
  std::int64_t fstat(Hart&, const std::uint64_t*);
  std::int64_t newfstatat(Hart&, const std::uint64_t*);
  std::int64_t ioctl(Hart&, const std::uint64_t*);
  std::int64_t readlinkat(Hart&, const std::uint64_t*);
  std::int64_t brk(Hart&, const std::uint64_t*);
  std::int64_t mmap(Hart&, const std::uint64_t*);
  std::int64_t munmap(Hart&, const std::uint64_t*);
  std::int64_t mprotect(Hart&, const std::uint64_t*);
  std::int64_t mremap(Hart&, const std::uint64_t*);
  std::int64_t clock_gettime(Hart&, const std::uint64_t*);
  std::int64_t gettimeofday(Hart&, const std::uint64_t*);
  std::int64_t getrandom(Hart&, const std::uint64_t*);
  std::int64_t futex(Hart&, const std::uint64_t*);
  std::int64_t affinity(Hart&, const std::uint64_t*);
  std::int64_t prlimit(Hart&, const std::uint64_t*);
  std::int64_t uname(Hart&, const std::uint64_t*);
  std::int64_t sysinfo(Hart&, const std::uint64_t*);
  std::int64_t hwprobe(Hart&, const std::uint64_t*);
  std::int64_t own_id(Hart&, const std::uint64_t*);
  std::int64_t nothing(Hart&, const std::uint64_t*);
  std::int64_t signal(Hart&, const std::uint64_t*);

  std::int64_t read_bytes(Hart& hart, std::uint64_t file, Address to, std::uint64_t bytes);
  std::int64_t write_bytes(Hart& hart, std::uint64_t file, Address from, std::uint64_t bytes);
  /// Whether `bytes` may replace the `old` bytes at `at`, in addition to the other heap and mapped bytes.
  bool fits(const Hart& hart, Address at, std::uint64_t old, std::uint64_t bytes) const;
  std::uint64_t unused(std::uint64_t from) const;                     ///< the lowest unused descriptor from `from` on
  std::int64_t copied(std::uint64_t file, std::uint64_t descriptor);  ///< -EBADF for an unknown file
  std::int64_t put_status(Hart& hart, Address to, int host_file);
  std::int64_t host_path(Hart& hart, std::uint64_t directory, Address path, std::string& found) const;

  LinuxOptions options_;
  Address heap_, brk_, heap_end_;
  std::size_t read_ = 0;  ///< bytes of the input read so far
  std::uint64_t drawn_ = 0;
  std::map<std::uint64_t, int> files_;    ///< host files, by descriptor
  std::map<std::uint64_t, int> streams_;  ///< number of the standard stream, by descriptor
};

}  // namespace tilesim::isa
