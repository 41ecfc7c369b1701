#include "tilesim/engine/simulator.hpp"

#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/engine/live/live.hpp"
#include "tilesim/engine/results/results.hpp"
#include "tilesim/program/run/execute.hpp"

namespace tilesim::engine {

Simulator::Simulator(const Machine& machine, SimulateOptions options)
    : chip_(machine, with_port(machine, std::move(options))),
      memory_(chip_),
      agenda_(chip_.options.shuffle_seed),
      timeline_(chip_.options.timeline, chip_.options.max_intervals),
      jobs_(chip_, memory_, agenda_, units_, timeline_),
      accounts_(memory_, agenda_, units_, timeline_, totals_),
      dispatch_(chip_, memory_, agenda_, totals_),
      transfers_(chip_, memory_, agenda_, units_, accounts_),
      sends_(memory_, agenda_, units_, accounts_, transfers_, totals_),
      heads_(chip_, agenda_, units_, accounts_, transfers_, sends_) {
  if (ComputePort* const computes = chip_.options.computes.get()) computes->attach(units_, timeline_);
}

SimulateOptions Simulator::with_port(const Machine& machine, SimulateOptions options) {
  if (options.live) options.computes = std::make_shared<LiveCores>(machine);
  return options;
}

bool Simulator::run_until(std::int64_t cycles) {
  CancelToken* const cancel = chip_.options.cancel;
  while (transfers_.advance(cycles, cancel) && !agenda_.empty() && agenda_.next() <= cycles) {
    // Poll before the next event is removed, so that an interrupted session can continue.
    if ((agenda_.taken() & 0xFFF) == 0xFFF && cancel) {
      cancel->at(totals_.tile_operations);
      cancel->poll();
    }
    const Event event = agenda_.take();
    try {
      process(event);
    } catch (const Cancelled&) {  // within an event, only the cursor polls, before any change
      agenda_.put_back(event);
      throw;
    }
  }
  if (agenda_.empty() && (transfers_.idle() || cycles == INT64_MAX)) {
    if (!jobs_.live().empty()) deadlock();
    return false;
  }
  agenda_.pass(cycles);
  return true;
}

void Simulator::process(const Event& event) {
  if (event.kind() == EventKind::admit) return jobs_.admit();
  if (event.kind() == EventKind::piece) return transfers_.piece(event.value);
  if (Stream* const stream = jobs_.streams().find(event.stream()))
    deliver(*stream, event);
  else
    agenda_.drop(event);  // a signal to an ended stream, or a wake of a removed queue
}

void Simulator::deliver(Stream& stream, const Event& event) {
  const int port = event.port();
  switch (event.kind()) {
    case EventKind::commit: {
      const Details details = agenda_.details(event);
      wake_queues(agenda_, stream, stream.slots.commit(port, details.a, details.b, details.c).queues);
      return;
    }
    case EventKind::release: {
      const Woken woken = stream.slots.release(port, event.value >> 5, static_cast<int>(event.value & 31));
      wake_queues(agenda_, stream, woken.queues);
      wake_senders(agenda_, stream.job->streams, woken.senders);
      return;
    }
    case EventKind::arrive: {
      const Details details = agenda_.details(event);
      wake_queues(agenda_, stream, stream.slots.arrive(port, details.a, details.b).queues);
      return;
    }
    case EventKind::count:
      return count(stream, event);
    case EventKind::chunk:
      return transfers_.chunk(stream, port);
    case EventKind::queue:
      if (event.value == 0) stream.queues[at(port)].woken = false;
      return heads_.advance(stream, port);
    default:
      if (!dispatch_.run(stream)) return;
      jobs_.finish(stream);
      jobs_.clear();
      return;
  }
}

void Simulator::count(Stream& stream, const Event& event) {
  const Details details = agenda_.details(event);
  JobState& job = *stream.job;
  job.counters[at(event.port())][at(details.a)] += details.b;
  const auto found = job.waiters.find({event.port(), details.a});
  if (found == job.waiters.end()) return;
  const auto waiters = std::move(found->second);
  job.waiters.erase(found);
  for (const auto& [waiter, queue] : waiters) wake(agenda_, *waiter, queue, agenda_.now());
}

std::optional<std::int64_t> Simulator::finished(int job) const {
  const Rows& rows = jobs_.rows();
  if (job < 0 || at(job) >= rows.size()) throw UserError({"no such job", {}, std::to_string(job), {}, {}});
  return rows[job].finish < 0 ? std::nullopt : std::optional(rows[job].finish);
}

Result Simulator::result() const { return result_of({chip_, totals_, memory_, agenda_, units_, timeline_, jobs_}); }

void Simulator::deadlock() const {
  std::string text = "deadlock:";
  for (const Stream* stream : jobs_.streams().all()) {
    for (std::size_t q = 0; q < stream->queues.size() && !stream->finished; ++q) {
      const StatementRing& statements = stream->queues[q].statements;
      if (statements.empty()) continue;
      const ResolvedStatement& head = statements.front();
      text += " core " + std::to_string(stream->physical_core) + " queue " + stream->program->queues[q] + " waits";
      if (head.slot >= 0)
        text += " for slot " + stream->program->slots[at(head.slot)].name + " version " + std::to_string(head.version);
      if (head.counter >= 0) text += " for counter " + stream->program->counters[at(head.counter)].first;
      text += ";";
    }
  }
  if (!transfers_.idle()) text += " for units without an answer;";
  // If waits depend on tensor values, the checker cannot prove that the program ends, so this is the program's error.
  for (const auto& [id, job] : jobs_.live())
    if (job->reader && job->reader->used())
      throw program::RaceError({text, job->job.program->program().name, {}, {}, {}});
  throw InternalError(text);
}

}  // namespace tilesim::engine
