// Data that all cores of one type share in a simulation: settings, clock, tile latencies and transfer sizes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/chip/options.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/tile/latency_book.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::engine {

class CoreKind {
 public:
  CoreKind(const Machine& machine, const CoreSort* sort, LatencyBook* book, const SimulateOptions& options);

  const std::string name;    ///< name of the core type; empty if the machine has only one
  const Machine machine;     ///< the machine, with cores of this type only
  const CoreSpec& core;      ///< core of `machine`
  std::int64_t chunk_bytes;  ///< size of a transfer's pieces, in bytes
  std::int64_t window;       ///< most pieces in flight per queue

  /// The machine cycle that is `cycles` cycles of this core type after machine cycle `now`. Counting starts at the last
  /// clock edge of the core, so that consecutive durations on a core with a slower clock add up exactly.
  std::int64_t after(std::int64_t now, std::int64_t cycles) const {
    return same_clock_ || cycles == 0 ? now + cycles : after_own(now, cycles);
  }
  /// Whether latencies come from kernels, so that every compute needs a signature.
  bool signs() const { return signs_; }
  bool asks_kernels() const { return kernels_ != nullptr; }  ///< whether a kernel model exists
  const LatencyBook* book() const { return book_; }          ///< null: all latencies come from closed forms
  LatencyStore& latencies() { return latencies_; }
  const LatencyStore& latencies() const { return latencies_; }

 private:
  std::int64_t after_own(std::int64_t now, std::int64_t cycles) const;

  Clock base_;
  bool same_clock_;
  LatencyBook* book_;
  bool signs_;
  ClosedForm closed_form_;
  std::unique_ptr<LatencyModel> kernels_;
  std::unique_ptr<BookedLatency> booked_;
  LatencyStore latencies_;
};

/// Creates one CoreKind per core type; sets `of_core` to the type of every core.
std::vector<std::unique_ptr<CoreKind>> core_kinds(const Machine& machine, const SimulateOptions& options,
                                                  std::vector<CoreKind*>& of_core);

/// Number of contexts that the program occupies on a core: all, unless the program fits one context's equal share of
/// the core's memories. Throws UserError if the core has too few contexts or too small memories.
std::int64_t contexts_of(const program::CompiledProgram& program, const CoreKind& kind, std::int64_t number);

}  // namespace tilesim::engine
