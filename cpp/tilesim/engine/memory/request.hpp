// What is asked of off-chip memory, and what it says.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/memory/pattern.hpp"

namespace tilesim::engine {

/// A piece of a transfer: `bytes` of bursts from `address` on. Times are cycles of the core clock.
struct Request {
  std::int64_t core = 0;
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false;
  std::int64_t transfer = 0;  ///< pieces with the same number belong together, one transfer after the other
  bool more = false;          ///< another piece of the same transfer follows
  /// With banks or a cache: where the transfer's bytes lie, and how many came before; none: contiguous.
  Pattern* pattern = nullptr;
  std::int64_t offset = 0;
  bool placed = false;  ///< contiguous all the same: one of the places that the pattern has been taken to
};

/// The answer to what was offered, in core cycles.
struct Offered {
  enum class Kind : std::uint8_t { refused, complete, later };
  Kind kind = Kind::refused;
  /// complete: data at the core, a write at the ordering point; refused: queues are full, and this is the first cycle
  /// at which another try can succeed; later: 0, `drain` will tell.
  std::int64_t cycle = 0;

  static Offered refuse(std::int64_t retry) { return {Kind::refused, retry}; }
  static Offered complete(std::int64_t cycle) { return {Kind::complete, cycle}; }
  static Offered later() { return {Kind::later, 0}; }
  bool accepted() const { return kind != Kind::refused; }
};

/// The end of what was answered later.
struct Done {
  /// Of a compute whose unit tells more than its end: its operands have been read; the unit takes another one.
  enum class Milestone : std::uint8_t { complete, operands_read, unit_free };
  std::uint64_t tag = 0;  ///< as it was offered
  std::int64_t cycle = 0;
  Milestone milestone = Milestone::complete;
};

/// Who answers later what was offered: memory behind routers, units that time computes themselves.
class Answering {
 public:
  virtual ~Answering() = default;
  /// Works until core cycle `until`, or to the end of the cycle in which something is done that was answered later.
  virtual void drain(std::int64_t /*until*/, CancelToken* /*cancel*/, std::vector<Done>& /*done*/) {}
  virtual bool idle() const { return true; }  ///< nothing is to be answered later
};

}  // namespace tilesim::engine
