// The slots of a stream: rings of buffers, their versions, and the queues that wait for them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::engine {

/// Waiters woken by an update: queues of the stream, and streams with a send.
struct Woken {
  std::uint32_t queues = 0;
  std::uint64_t senders = 0;
};

/// The slots of a stream. Access to a version that its buffer no longer holds throws RaceError.
class Slots {
 public:
  explicit Slots(const program::CompiledProgram& program);

  // Called in text order.
  void announce(std::int32_t slot, std::int64_t version);         ///< for an acquire
  Woken receive(std::int32_t slot, std::int64_t version);         ///< for a later send
  std::int32_t commits(std::int32_t slot, std::int64_t version);  ///< sequence number of the version's next commit
  std::int64_t epoch() const { return epoch_; }                   ///< number of ended scopes with slots
  void end(const std::vector<std::int32_t>& slots, const program::Cursor& cursor);  ///< ends a scope with these slots

  // Called in order of time. Rejected calls are repeated when the queue (or sender) is woken.
  bool holds(std::int32_t slot, std::int64_t version, std::int64_t pieces, int queue);
  /// `woken`: queues that wait for the version.
  bool acquire(std::int32_t slot, std::int64_t version, std::int64_t epoch, int queue, Woken& woken);
  Woken commit(std::int32_t slot, std::int64_t version, std::int64_t sequence, std::int64_t pieces);
  Woken release(std::int32_t slot, std::int64_t version, int queue);
  /// Whether the slot can receive the sender's next tile; sets its version.
  bool accepts(std::int32_t slot, std::uint64_t sender, std::int64_t& version);
  void expect(std::int32_t slot, std::int64_t version);  ///< for a send in progress
  Woken arrive(std::int32_t slot, std::int64_t version, std::int64_t pieces);

 private:
  struct Buffer {
    std::int64_t version = -1, pieces = 0;
    std::int32_t next_sequence = 0;
    std::uint32_t released = 0;
    bool free = true;
    std::uint64_t done_mask = 0;  ///< completed commits beyond next_sequence
    std::array<std::int32_t, 64> pending{};
  };
  struct Slot {
    std::vector<Buffer> buffers;
    std::vector<std::int32_t> dispatched;  ///< per version modulo size: number of dispatched commits
    std::int64_t received = 0, sent = 0;   ///< number of dispatched receives; of started sends
    std::vector<std::int64_t> epochs;      ///< per receive modulo size
    Woken waiting;                         ///< waiters for any change
  };
  /// A buffer of an ended scope whose last version is still in use. Later scopes may use the same bytes.
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
  Woken ended_waiting_;  ///< waiters for any of `ended_`
};

}  // namespace tilesim::engine
