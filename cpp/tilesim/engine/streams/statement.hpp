// Statements with evaluated expressions, and the queues of a stream.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tilesim/engine/memory/request.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/report/result.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::engine {

/// A statement whose expressions of loop indices are evaluated.
struct ResolvedStatement {
  program::Opcode opcode = program::Opcode::wait;
  std::int32_t slot = -1, counter = -1, scope = -1;
  std::int64_t version = 0;
  std::int64_t pieces = 0;    ///< wait: required pieces; commit, send: added pieces; signal: count
  std::int64_t index = 0;     ///< index of the counter's cell
  std::int64_t core = 0;      ///< target core of a signal
  std::int32_t sequence = 0;  ///< commit: index among the version's commits
  std::int32_t pattern = -1;  ///< address pattern of a transfer, for memory with banks or a cache
  std::int64_t kernel = -1;   ///< number of the kernel in the stream
  std::int64_t epoch = 0;     ///< acquire: number of scopes that end before it in text order
  std::int64_t address = 0, bytes = 0, index_bytes = 0, padding_bytes = 0;
  Descriptor descriptor;                  ///< for computes
  const ComputeSource* source = nullptr;  ///< for computes with latencies from kernels
  bool on_chip = false;                   ///< load, store: the tensor is in scratchpads
  /// Bytes that a transfer reads from other cores, as pairs of (virtual core, bytes). Null: none.
  std::shared_ptr<const std::vector<std::pair<std::int64_t, std::int64_t>>> held;
  std::int64_t weights = -1;  ///< mma: number of the stationary operand
  double work = 0;            ///< multiply-adds or element operations
};

/// A ring of constant capacity.
class StatementRing {
 public:
  explicit StatementRing(std::size_t capacity) : statements_(capacity) {}
  bool full() const { return count_ == statements_.size(); }
  bool empty() const { return count_ == 0; }
  ResolvedStatement& push() { return statements_[(head_ + count_++) % statements_.size()] = ResolvedStatement{}; }
  ResolvedStatement& front() { return statements_[head_]; }
  const ResolvedStatement& front() const { return statements_[head_]; }
  void pop() { head_ = (head_ + 1) % statements_.size(), --count_; }

 private:
  std::vector<ResolvedStatement> statements_;
  std::size_t head_ = 0, count_ = 0;
};

struct Queue {
  Queue(std::size_t capacity, std::int32_t of) : statements(capacity), unit(of) {}
  StatementRing statements;
  std::int32_t unit;
  std::int64_t busy_end = 0;        ///< end of the unit's last busy interval
  std::int64_t done_until = 0;      ///< cycle in which all operations so far are complete
  std::int64_t consumed_until = 0;  ///< cycle in which all operands so far have been read
  std::int64_t blocked_since = -1;
  UnitState blocked_on = UnitState::idle;
  bool woken = false;  ///< whether a wake event is scheduled
  // State of the transfer in progress.
  bool transferring = false;
  std::int64_t left = 0, next_address = 0, finish = 0, started = 0;
  std::array<Completion, 64> in_flight{};  ///< ring of the completions of the last pieces
  std::int64_t chunks = 0;
  std::int64_t issue_ready = 0;    ///< DMA: earliest time of the next transfer
  std::int64_t last_weights = -1;  ///< mma: number of the last stationary operand
  bool answered_later = false;     ///< SimulateOptions::computes simulates this queue's computes
  std::deque<std::int32_t> open;   ///< transfers, sends and computes in progress, in order
  std::int64_t open_pieces = 0;
  bool waits_for_piece = false;
};

}  // namespace tilesim::engine
