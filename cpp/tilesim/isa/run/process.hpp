// A program in memory with segments, stack and arguments. It runs as a whole, or one function of it is called.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/isa/run/bare.hpp"
#include "tilesim/isa/run/linux.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/state/marks.hpp"
#include "tilesim/isa/state/npu.hpp"

namespace tilesim::isa {

struct Segment {
  Address address = 0;
  std::string bytes;
  std::uint64_t size = 0;  ///< in memory: zeros follow the bytes
  std::uint8_t access = readable;
};

/// What a reader of ELF files found.
struct Image {
  std::vector<Segment> segments;
  Address entry = 0;
  Address headers = 0;  ///< of the program headers in memory, 0: they are not there
  std::uint64_t header_bytes = 56, header_count = 0;
  Address global_pointer = 0;
  std::string thread_data;         ///< initial bytes of thread-local storage
  std::uint64_t thread_bytes = 0;  ///< with the zeros
};

class Process {
 public:
  Process(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen, const Image& image, LinuxOptions options);
  /// From here on no Linux: machine mode, and a store to `tohost` (0: nothing) ends the run.
  void make_bare(Address tohost);
  /// From here on an NPU core: its arrays and DMA, its scratchpad and accumulator memory, and memory off chip, where
  /// arguments of calls lie then.
  void be(const NpuSpec& spec);

  /// Stack, argv (the first is the program's name) and auxiliary vector; pc at the entry.
  void start(const std::vector<std::string>& arguments);
  Stop run(std::uint64_t limit, Observer* observer = nullptr);
  /// A function by the C ABI, with registers set by the caller; returns when it does.
  Stop call(Address function, std::uint64_t limit, Observer* observer = nullptr);
  /// `bytes` of zeros for arguments of a call, aligned by 64.
  Address allocate(std::uint64_t bytes);

  Hart hart;
  Memory memory;
  Marks marks;
  Linux& system() { return *linux_; }

 private:
  void load(const Image& image);
  Address mapped(std::uint64_t bytes);
  Stop finished(Stop stop) const;

  Image image_;  ///< without its bytes
  std::unique_ptr<Linux> linux_;
  Bare bare_;
  std::unique_ptr<Npu> npu_;
  Address thread_ = 0;
  Address off_chip_ = 0, off_chip_end_ = 0;  ///< free; both 0 without a machine
};

}  // namespace tilesim::isa
