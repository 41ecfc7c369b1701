// Runs loads, stores, sends through routers, and computes that a port simulates.
#pragma once

#include <utility>
#include <vector>

#include "tilesim/engine/transfers/accounts.hpp"

namespace tilesim::engine {

/// An effect of a commit, release or signal statement.
struct Effect {
  EventKind kind = EventKind::commit;
  std::int32_t port = 0;
  Details details;         ///< release: version, queue
  std::int64_t delay = 0;  ///< cycles after the preceding statements of the queue have completed
};

class Transfers {
 public:
  Transfers(const Chip& chip, OffChip& memory, Agenda& agenda, Units& units, Accounts& accounts)
      : memory_(memory), agenda_(agenda), units_(units), accounts_(accounts), computes_(chip.options.computes.get()) {}

  /// Starts the transfer at a queue's head. Returns true if it is complete; otherwise the queue continues later.
  bool start(Stream& stream, int queue, const ResolvedStatement& statement);
  void chunk(Stream& stream, int queue);            ///< starts the next piece of the transfer in progress
  using Target = std::pair<Stream*, std::int64_t>;  ///< stream and version
  /// Starts a send through routers. Returns the same as `start`.
  bool send(Stream& stream, int queue, const ResolvedStatement& statement, std::vector<Target> targets);
  /// Offers a compute to the compute port. Returns the same as `start`.
  bool compute(Stream& stream, int queue, const ResolvedStatement& statement, const History& history);
  void piece(std::int64_t value);  ///< processes the answer to a piece
  /// Applies an effect at `time`, or later when the queue's preceding statements are complete.
  void after(Stream& stream, int queue, std::int64_t time, const Effect& effect);
  /// Advances memory and computes up to the next event. Returns false if none of them has work before `limit`.
  bool advance(std::int64_t limit, CancelToken* cancel);
  bool idle() const { return memory_.port().idle() && (!computes_ || computes_->idle()); }

 private:
  /// An operation in progress whose answer arrives later.
  struct Open {
    ResolvedStatement statement;
    Stream* stream = nullptr;
    int queue = 0;
    std::int64_t started = 0, left = 0;     ///< left: number of unanswered pieces
    std::int64_t passed = 0;                ///< time at which the last byte passed the DMA engine
    bool issued = false, consumed = false;  ///< whether all pieces were issued; whether operands were read
    std::vector<Target> targets;            ///< receivers of a send
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
  ComputePort* computes_;  ///< null: closed forms
  std::vector<Open> open_;
  std::vector<std::int32_t> free_open_;
  std::vector<Done> done_;
  std::vector<std::pair<Stream*, int>> refused_;  ///< queues of rejected computes that wait for any answer
};

}  // namespace tilesim::engine
