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

  const std::string name;    ///< of the core type; empty if all cores are equal
  const Machine machine;     ///< machine with cores of this type only
  const CoreSpec& core;      ///< core of `machine`
  std::int64_t chunk_bytes;  ///< bytes of a piece of a transfer
  std::int64_t window;       ///< pieces in flight per queue

  /// The machine's cycle after this many cycles of these cores from `now` on. A slower core starts at the edge of its
  /// clock that contains `now`, so that consecutive times on one core add up exactly.
  std::int64_t after(std::int64_t now, std::int64_t cycles) const {
    return same_clock_ || cycles == 0 ? now + cycles : after_own(now, cycles);
  }
  /// Whether latencies depend on kernels, so that computes have signatures.
  bool signs() const { return signs_; }
  bool asks_kernels() const { return kernels_ != nullptr; }  ///< a kernel model exists
  const LatencyBook* book() const { return book_; }          ///< null: closed forms only
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

/// One kind per core type; `of_core` receives the kind of every core.
std::vector<std::unique_ptr<CoreKind>> core_kinds(const Machine& machine, const SimulateOptions& options,
                                                  std::vector<CoreKind*>& of_core);

/// Number of a core's contexts that the program takes. Contexts have equal shares of the core's memories: a program
/// that fits one share leaves the others free. Throws UserError if the core has too few contexts or too small memories.
std::int64_t contexts_of(const program::CompiledProgram& program, const CoreKind& kind, std::int64_t number);

}  // namespace tilesim::engine
