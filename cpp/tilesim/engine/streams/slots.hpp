// The slots of a stream: rings of buffers, the version in each buffer, and the queues that wait for versions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Waiters to wake after an update: a mask of the stream's queues, and a mask of streams whose queue head is a send.
struct Woken {
  std::uint32_t queues = 0;
  std::uint64_t senders = 0;
};

/// The slots of a stream. Throws RaceError if a statement uses a version that its buffer no longer contains.
class Slots {
 public:
  explicit Slots(const program::CompiledProgram& program);

  // Called by dispatch, in text order.
  void announce(std::int32_t slot, std::int64_t version);         ///< dispatches an acquire
  Woken receive(std::int32_t slot, std::int64_t version);         ///< dispatches a receive
  std::int32_t commits(std::int32_t slot, std::int64_t version);  ///< sequence number of the version's next commit
  std::int64_t epoch() const { return epoch_; }                   ///< number of ended scopes that had slots
  void end(const std::vector<std::int32_t>& slots, const program::Cursor& cursor);  ///< ends a scope with these slots

  // Called in order of time. If a call returns false, repeat it when the queue or sender is woken.
  bool holds(std::int32_t slot, std::int64_t version, std::int64_t pieces, int queue);
  /// `woken`: receives the queues that wait for the version.
  bool acquire(std::int32_t slot, std::int64_t version, std::int64_t epoch, int queue, Woken& woken);
  Woken commit(std::int32_t slot, std::int64_t version, std::int64_t sequence, std::int64_t pieces);
  Woken release(std::int32_t slot, std::int64_t version, int queue);
  /// Whether the slot has space for the sender's next tile; sets `version` to the tile's version.
  bool accepts(std::int32_t slot, std::uint64_t sender, std::int64_t& version);
  void expect(std::int32_t slot, std::int64_t version);  ///< reserves a buffer for a send in progress
  Woken arrive(std::int32_t slot, std::int64_t version, std::int64_t pieces);

 private:
  struct Buffer {
    std::int64_t version = -1, pieces = 0;
    std::int32_t next_sequence = 0;
    std::uint32_t released = 0;
    bool free = true;
    std::uint64_t done_mask = 0;  ///< bit set of completed commits after next_sequence
    std::array<std::int32_t, 64> pending{};
  };
  struct Slot {
    std::vector<Buffer> buffers;
    std::vector<std::int32_t> dispatched;  ///< by version modulo size: number of dispatched commits
    std::int64_t received = 0, sent = 0;   ///< numbers of dispatched receives; of started sends
    std::vector<std::int64_t> epochs;      ///< by version modulo size: `epoch` of the receive
    Woken waiting;                         ///< waiters for any change of the slot
  };
  /// A version that is in use after its scope has ended. Slots of later scopes may have the same bytes.
  struct Ended {
    std::int32_t slot = 0;
    std::int64_t version = 0, epoch = 0;
  };

  Slot& at(std::int32_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  Buffer& buffer(std::int32_t slot, std::int64_t version);
  bool is_free(const Ended& ended) const;
  bool on_ended_bytes(std::int32_t slot, std::int64_t version, std::int64_t epoch) const;
  [[noreturn]] void race(std::int32_t slot, std::int64_t version, const char* who) const;

  const program::CompiledProgram& program_;
  std::vector<Slot> slots_;
  std::vector<Ended> ended_;
  std::int64_t epoch_ = 0;
  Woken ended_waiting_;  ///< waiters until an entry of `ended_` is free
};

}  // namespace tilesim::engine
