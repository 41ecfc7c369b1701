// Runs loads, stores and asynchronous operations: sends through routers, and computes.
#pragma once

#include <utility>
#include <vector>

#include "tilesim/engine/transfers/accounts.hpp"

namespace tilesim::engine {

/// A commit, release or signal, with its delay.
struct Effect {
  EventKind kind = EventKind::commit;
  std::int32_t port = 0;
  Details details;         ///< release: version, queue
  std::int64_t delay = 0;  ///< cycles after its predecessors in the queue have completed
};

class Transfers {
 public:
  Transfers(const Chip& chip, OffChip& memory, Agenda& agenda, Units& units, Accounts& accounts)
      : memory_(memory), agenda_(agenda), units_(units), accounts_(accounts), computes_(chip.options.computes.get()) {}

  /// Starts the head of a queue. Returns whether it is complete; otherwise it is in progress, or the queue is woken.
  bool start(Stream& stream, int queue, const ResolvedStatement& statement);
  void chunk(Stream& stream, int queue);            ///< starts the next piece
  using Target = std::pair<Stream*, std::int64_t>;  ///< stream and version
  /// Starts the send of a tile through routers. Returns the same as `start`.
  bool send(Stream& stream, int queue, const ResolvedStatement& statement, std::vector<Target> targets);
  /// Starts a compute that a model simulates. Returns the same as `start`.
  bool compute(Stream& stream, int queue, const ResolvedStatement& statement, const History& history);
  void piece(std::int64_t value);  ///< handles the answer to a piece
  /// Applies an effect when the preceding statements of the queue are complete, at `time` or later.
  void after(Stream& stream, int queue, std::int64_t time, const Effect& effect);
  /// Runs components that answer later, up to the next event. Returns false if none has work before `limit`.
  bool advance(std::int64_t limit, CancelToken* cancel);
  bool idle() const { return memory_.port().idle() && (!computes_ || computes_->idle()); }

 private:
  /// An operation in progress that is answered later.
  struct Open {
    ResolvedStatement statement;
    Stream* stream = nullptr;
    int queue = 0;
    std::int64_t started = 0, left = 0;     ///< left: number of pieces
    std::int64_t passed = 0;                ///< time of the last byte through the DMA engine
    bool issued = false, consumed = false;  ///< all pieces issued; a compute's operands have been read
    std::vector<Target> targets;            ///< destinations of a send
    std::vector<Effect> after;
  };
  static constexpr std::int64_t no_target = 0xFFFF, operands_read = 0xFFFE, unit_free = 0xFFFD;  ///< Done::Milestone
  static std::uint64_t tag_of(std::int32_t transfer, std::int64_t target) {
    return static_cast<std::uint64_t>(transfer) << 16 | static_cast<std::uint64_t>(target);
  }
  void copy(Stream& stream, int queue);
  bool fetch(Stream& stream, int queue);
  bool has_window(Stream& stream, int queue);
  Request next_piece(const Stream& stream, int queue);
  void push(const Stream& stream, std::int64_t time, const Effect& effect);
  void ended(Stream& stream, int queue);
  std::int32_t open(Stream& stream, int queue, const ResolvedStatement& statement, std::int64_t started);
  void issued(Stream& stream, int queue, std::int32_t transfer);
  void finish(Stream& stream, Queue& queue);
  void end(Stream& stream, Queue& queue, const Open& own);
  void release_consumed(Stream& stream, const Queue& queue);
  void wake_refused();
  void drain(std::int64_t until, CancelToken* cancel);

  OffChip& memory_;
  Agenda& agenda_;
  Units& units_;
  Accounts& accounts_;
  ComputePort* computes_;  ///< null: none
  std::vector<Open> open_;
  std::vector<std::int32_t> free_open_;
  std::vector<Done> done_;
  std::vector<std::pair<Stream*, int>> refused_;  ///< queues of computes that wait for any answer
};

}  // namespace tilesim::engine
