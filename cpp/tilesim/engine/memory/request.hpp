// Requests to off-chip memory and its answers.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/memory/pattern.hpp"

namespace tilesim::engine {

/// A request for a piece of a transfer: `bytes` in full bursts from `address` on. Times are core cycles.
struct Request {
  std::int64_t core = 0;
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false;
  std::int64_t transfer = 0;  ///< number of the transfer, ascending per queue
  bool more = false;          ///< more pieces of the transfer follow
  /// For banks or a cache: the transfer's addresses, and the bytes before this piece. Null: contiguous.
  Pattern* pattern = nullptr;
  std::int64_t offset = 0;
  bool placed = false;  ///< contiguous in spite of a pattern: one piece of it
};

/// When a piece completes: a core cycle, or the number of a read whose completion the memory computes once it is
/// needed.
class Completion {
 public:
  constexpr Completion() = default;  ///< cycle 0
  static constexpr Completion at(std::int64_t cycle) { return {cycle, 0, true}; }
  static constexpr Completion of_read(std::uint32_t read) { return {0, read, false}; }
  bool known() const { return known_; }
  std::int64_t cycle() const { return cycle_; }  ///< 0 unless known
  std::uint32_t read() const { return read_; }

 private:
  constexpr Completion(std::int64_t cycle, std::uint32_t read, bool known)
      : cycle_(cycle), read_(read), known_(known) {}
  std::int64_t cycle_ = 0;
  std::uint32_t read_ = 0;
  bool known_ = true;
};

/// The answer to an offered request, in core cycles.
struct Offered {
  enum class Kind : std::uint8_t { refused, complete, later };
  Kind kind = Kind::refused;
  std::int64_t retry = 0;  ///< refused, because queues are full: first cycle at which another attempt can succeed
  /// complete: when data is at the core, or a write at the ordering point. later: `drain` returns it.
  Completion completion = {};

  static Offered refuse(std::int64_t retry) { return {Kind::refused, retry}; }
  static Offered complete(std::int64_t cycle) { return complete(Completion::at(cycle)); }
  static Offered complete(Completion completion) { return {Kind::complete, 0, completion}; }
  static Offered later() { return {Kind::later}; }
  bool accepted() const { return kind != Kind::refused; }
};

/// The completion of a request that is answered later.
struct Done {
  /// Of a compute: complete, operands read, or unit free for the next one.
  enum class Milestone : std::uint8_t { complete, operands_read, unit_free };
  std::uint64_t tag = 0;  ///< tag of the request
  std::int64_t cycle = 0;
  Milestone milestone = Milestone::complete;
};

/// A component that answers requests later: memory behind routers, or models that simulate computes.
class Answering {
 public:
  virtual ~Answering() = default;
  /// Runs until core cycle `until`, or to the end of the first cycle in which a request completes.
  virtual void drain(std::int64_t /*until*/, CancelToken* /*cancel*/, std::vector<Done>& /*done*/) {}
  virtual bool idle() const { return true; }  ///< no request is pending
};

}  // namespace tilesim::engine
