// Finds the events that may happen next, and picks one.
#include "tilesim/program/run/schedule.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::program {

namespace {
constexpr std::size_t queue_room = 512;  ///< limit on queued statements of a stream
}  // namespace

Schedule::Schedule(const CompiledProgram& program, Tensors& tensors, const ExecuteOptions& options)
    : program_(program),
      tensors_(tensors),
      options_(options),
      executor_(executor_of(&options)),
      residents_(program, at(program.program().cores * program.program().contexts), true),
      random_(static_cast<std::uint64_t>(options.seed)),
      furthest_back_(furthest_back(program)) {
  const Program& source = program.program();
  for (const auto& [name, size] : program.counters) counters_.emplace_back(at(size * source.cores), 0);
  for (std::int64_t core = 0; core < source.cores; ++core) {
    for (std::int64_t context = 0; context < source.contexts; ++context) {
      streams_.push_back(std::make_unique<Stream>(program, core, context, tensors));
      streams_.back()->queues.resize(program.queues.size());
      streams_.back()->cursor.poll_with(options.cancel);
      for (std::size_t q = 0; q < program.queues.size(); ++q) weights_.push_back(1 + next_random() % 8);
    }
  }
}

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers on all platforms.
std::uint64_t Schedule::next_random() {
  random_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

void Schedule::run() {
  std::vector<Event> events;
  while (true) {
    if (options_.cancel) options_.cancel->poll();
    if (nodes_.size() > forget_at_) forget();
    events.clear();
    candidates(events);
    if (events.empty()) break;
    happen(pick(events));
  }
  for (const auto& stream : streams_) {
    if (!stream->finished || stream->waiting > 0) stuck();
  }
  if (!in_flight_.empty() || !pending_.empty()) stuck();
}

bool Schedule::idle(const Stream& stream) const {
  if (stream.waiting > 0) return false;
  const auto mine = [&](const Node* node) { return streams_[node->stream].get() == &stream; };
  return std::none_of(in_flight_.begin(), in_flight_.end(), mine) &&
         std::none_of(pending_.begin(), pending_.end(), [&](const Effect* effect) { return mine(effect->node); });
}

void Schedule::candidates(std::vector<Event>& events) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = *streams_[s];
    if (stream.at_barrier && idle(stream)) stream.at_barrier = false;
    if (!stream.finished && !stream.at_barrier && stream.waiting < queue_room) {
      events.push_back({Kind::dispatch, s, -1, nullptr, nullptr});
    }
    for (std::size_t q = 0; q < stream.queues.size(); ++q) head_candidate(s, static_cast<int>(q), events);
  }
  for (Node* node : in_flight_) {
    if (!node->consumed && may_consume(*node)) {
      events.push_back({Kind::consume, node->stream, node->op.queue, node, nullptr});
    } else if (node->consumed && may_complete(*node)) {
      events.push_back({Kind::complete, node->stream, node->op.queue, node, nullptr});
    }
  }
  for (Effect* effect : pending_) {
    if (may_show(*effect)) {
      events.push_back({Kind::effect, effect->node->stream, effect->node->op.queue, effect->node, effect});
    }
  }
}

void Schedule::head_candidate(std::size_t stream, int queue, std::vector<Event>& events) {
  auto& entries = streams_[stream]->queues[at(queue)].entries;
  if (entries.empty() || !may_pass(*entries.front())) return;
  events.push_back({Kind::head, stream, queue, entries.front(), nullptr});
}

bool Schedule::is_room(const Version& version) const {
  return std::all_of(version.before.begin(), version.before.end(), [](const Version* v) { return v->freed; });
}

bool Schedule::may_pass(Node& node) {
  const Operation& op = node.op;
  switch (op.opcode) {
    case Opcode::acquire:
      return node.versions[0]->acquired || is_room(*node.versions[0]);
    case Opcode::wait:
      if (op.counter >= 0) return counters_[at(op.counter)][at(op.cell)] >= op.pieces;
      return node.versions[0]->acquired && node.versions[0]->pieces >= op.pieces;
    case Opcode::send:
      node.targets.clear();
      for (const std::int64_t core : op.cores) {
        for (std::size_t s = 0; s < streams_.size(); ++s) {
          Stream& other = *streams_[s];
          if (other.core != core || other.context != streams_[node.stream]->context) continue;
          const std::vector<Version*>& received = other.received[op.slot];
          const std::size_t next = other.sent[op.slot];
          if (next >= received.size() || !is_room(*received[next])) return false;
          node.targets.emplace_back(s, received[next]);
        }
      }
      return true;
    default:
      return true;
  }
}

/// Computes of one queue update a version in order: an earlier compute completes before a later one reads.
bool Schedule::may_consume(const Node& node) const {
  if (!node.op.is_compute()) return true;
  for (std::size_t i = 0; i < node.op.views.size(); ++i) {
    if (!node.op.views[i].written) continue;
    for (const Node* user : node.versions[i]->users) {
      if (user == &node) break;
      if (user->op.queue == node.op.queue && user->op.is_compute() && !user->complete) return false;
    }
  }
  return true;
}

bool Schedule::may_complete(const Node& node) const { return node.consumed; }

bool Schedule::may_show(const Effect& effect) const {
  if (!effect.reached) return false;
  const bool release = effect.node->op.opcode == Opcode::release;
  for (const Node* node : effect.after) {
    if (release ? !node->consumed : !node->complete) return false;
  }
  if (effect.node->op.opcode != Opcode::commit) return true;
  for (const Effect* earlier : effect.node->versions[0]->commits) {
    if (earlier == &effect) return true;
    if (!earlier->done) return false;
  }
  return true;
}

const Schedule::Event& Schedule::pick(const std::vector<Event>& events) {
  const auto is_load = [&](const Event& event) {
    return event.queue >= 0 && program_.queues[at(event.queue)].compare(0, 4, "load") == 0;
  };
  if (options_.order == Order::early_loads) {
    // Loads as early as possible; then starts before ends, and ends before releases, so that consumers run late.
    const auto rank = [&](const Event& event) {
      if (event.kind == Kind::dispatch) return 0;
      if (is_load(event)) return 1;
      if (event.kind == Kind::effect) return event.node->op.opcode == Opcode::release ? 6 : 4;
      return event.kind == Kind::head ? 3 : event.kind == Kind::complete ? 2 : 5;
    };
    return *std::min_element(events.begin(), events.end(),
                             [&](const Event& a, const Event& b) { return rank(a) < rank(b); });
  }
  std::uint64_t total = 0;
  const auto weight = [&](const Event& event) {
    if (event.queue < 0) return std::uint64_t{4};
    return weights_[event.stream * program_.queues.size() + at(event.queue)];
  };
  for (const Event& event : events) total += weight(event);
  std::uint64_t chosen = next_random() % total;
  for (const Event& event : events) {
    if (chosen < weight(event)) return event;
    chosen -= weight(event);
  }
  return events.back();
}

void Schedule::stuck() const {
  std::string place;
  for (const auto& stream : streams_) {
    for (const Queue& queue : stream->queues) {
      if (!queue.entries.empty()) place += (place.empty() ? "" : "; ") + queue.entries.front()->text;
    }
  }
  for (const Effect* effect : pending_) place += (place.empty() ? "" : "; ") + effect->node->text;
  throw RaceError({"Execution is deadlocked: a statement waits for an event that never happens.", place, {}, {}, {}});
}

}  // namespace tilesim::program
