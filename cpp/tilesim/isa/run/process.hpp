// A program in memory with segments, stack and arguments. It runs as a whole, or a single function is called.
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
  std::uint64_t size = 0;  ///< bytes in memory: zeros follow the file's bytes
  std::uint8_t access = readable;
};

/// The content of an ELF file.
struct Image {
  std::vector<Segment> segments;
  Address entry = 0;
  Address headers = 0;  ///< address of the program headers; 0: not in memory
  std::uint64_t header_bytes = 56, header_count = 0;
  Address global_pointer = 0;
  std::string thread_data;         ///< initial bytes of thread-local storage
  std::uint64_t thread_bytes = 0;  ///< size including zeros
};

class Process {
 public:
  Process(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen, const Image& image, LinuxOptions options);
  /// Switches from Linux to a bare machine in machine mode; a store to `tohost` (0: none) ends the run.
  void make_bare(Address tohost);
  /// Switches to an NPU core with arrays, DMA, scratchpad, accumulator memory and off-chip memory, which then holds the
  /// arguments of calls.
  void be(const NpuSpec& spec);

  /// Sets up the stack, argv (the program's name first), the auxiliary vector, and pc at the entry.
  void start(const std::vector<std::string>& arguments);
  Stop run(std::uint64_t limit, Observer* observer = nullptr);
  /// Calls a function by the C ABI, with registers set by the caller; returns when the function does.
  Stop call(Address function, std::uint64_t limit, Observer* observer = nullptr);
  /// Allocates `bytes` zeros for call arguments, aligned to 64 bytes.
  Address allocate(std::uint64_t bytes);

  Hart hart;
  Memory memory;
  Marks marks;
  Linux& system() { return *linux_; }

 private:
  void load(const Image& image);
  Address mapped(std::uint64_t bytes);
  Stop finished(Stop stop) const;

  Image image_;  ///< without segment bytes
  std::unique_ptr<Linux> linux_;
  Bare bare_;
  std::unique_ptr<Npu> npu_;
  Address thread_ = 0;
  Address off_chip_ = 0, off_chip_end_ = 0;  ///< free range; both 0 without off-chip memory
};

}  // namespace tilesim::isa
