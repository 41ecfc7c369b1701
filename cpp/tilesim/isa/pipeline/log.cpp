#include "tilesim/isa/pipeline/log.hpp"

#include <algorithm>
#include <initializer_list>

namespace tilesim::isa {

namespace {

/// The state in which the front end waited longest for this instruction.
void front_wait(const Issue& what, Log::LoggedInstruction& to) {
  for (std::size_t i = 0; i < states; ++i) {
    const Ticks wait = what.front[i] - what.was[i];
    if (static_cast<State>(i) == State::busy || wait <= to.front_wait) continue;
    to.front = static_cast<State>(i), to.front_wait = wait;
  }
}

/// The longest wait in the queue: each cause counts beyond the end of the previous causes.
void pipe_wait(const PipeTimes& at, Log::LoggedInstruction& to) {
  Ticks reached = at.arrived;
  struct Cause {
    Ticks until;
    State why;
  };
  // a busy pipe delays like an older instruction of the queue
  for (const Cause& cause : std::initializer_list<Cause>{{at.free, State::order},
                                                         {at.order, State::order},
                                                         {at.operands, State::operands},
                                                         {at.registers, State::registers}}) {
    const Ticks wait = cause.until - reached;
    if (wait <= 0) continue;
    if (wait > to.pipe_wait) to.at_pipe = cause.why, to.pipe_wait = wait;
    reached = cause.until;
  }
}

}  // namespace

void Log::issued(const Issue& what) {
  if (seen_++ >= limit_) return;
  LoggedInstruction entry;
  entry.address = what.op.pc, entry.bits = what.op.bits;
  entry.issue = what.at, entry.done = what.done;
  front_wait(what, entry);
  if (what.plan != nullptr) {
    const PipeTimes& at = what.at_pipe;
    entry.kind = at.kind, entry.pipe = at.pipe;
    entry.dispatch = at.arrived, entry.start = at.start, entry.end = at.end;
    pipe_wait(at, entry);
  } else {
    entry.dispatch = entry.start = what.at, entry.end = what.done;
  }
  entries_.push_back(entry);
}

Intervals::Intervals(std::size_t limit, std::vector<std::uint64_t> functions)
    : limit_(limit), functions_(std::move(functions)) {}

void Intervals::visit(std::uint64_t address, Ticks at) {
  const auto next = std::upper_bound(functions_.begin(), functions_.end(), address);
  low_ = next == functions_.begin() ? 0 : *(next - 1);
  high_ = next == functions_.end() ? ~std::uint64_t{0} : *next;
  visits_.push_back({static_cast<std::size_t>(next - functions_.begin()), at, at});
}

void Intervals::issued(const Issue& what) {
  if (intervals_.size() + visits_.size() >= limit_) {
    ++left_out_;
    return;
  }
  if (what.op.pc < low_ || what.op.pc >= high_) {
    if (!visits_.empty()) visits_.back().end = what.at;
    visit(what.op.pc, what.at);
  }
  visits_.back().end = std::max(what.over, what.at + cycle);
  const Ticks end = what.at + cycle;
  if (front_ != 0 && intervals_[front_ - 1].end >= what.at) {
    intervals_[front_ - 1].end = end;
  } else {
    intervals_.push_back({Log::none, 0, 0, what.at, end});
    front_ = intervals_.size();
  }
  if (what.plan == nullptr) return;
  const PipeTimes& at = what.at_pipe;
  intervals_.push_back({at.kind, at.pipe, what.op.id, at.start, at.end});
}

}  // namespace tilesim::isa
