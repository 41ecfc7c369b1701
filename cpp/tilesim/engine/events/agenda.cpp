#include "tilesim/engine/events/agenda.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::engine {

namespace {

bool later(const Event& x, const Event& y) { return x.time != y.time ? x.time > y.time : x.order > y.order; }

std::uint64_t order_of(EventKind kind, int stream, int port) {
  return (kind <= EventKind::piece ? 0ULL : 1ULL) << 62 | static_cast<std::uint64_t>(stream) << 32 |
         static_cast<std::uint64_t>(port) << 8 | static_cast<std::uint64_t>(kind);
}

}  // namespace

void EventQueue::push(const Event& event) {
  heap_.push_back(event);
  std::push_heap(heap_.begin(), heap_.end(), later);
  if (shuffle == 0) return;
  // For tests: shuffles the heap's inner order, to show that only (time, order) matters.
  shuffle = shuffle * 6364136223846793005ULL + 1442695040888963407ULL;
  if (heap_.size() < 2 || shuffle >> 61) return;
  std::swap(heap_[(shuffle >> 33) % heap_.size()], heap_.back());
  std::make_heap(heap_.begin(), heap_.end(), later);
}

Event EventQueue::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  return event;
}

void Agenda::push(EventKind kind, std::int64_t time, int stream, int port, std::int64_t value) {
  constexpr std::int64_t last_cycle = std::int64_t{1} << 61;
  if (time > last_cycle)
    throw UserError({"the simulated time exceeds a 64-bit cycle counter",
                     subject,
                     std::to_string(time) + " cycles",
                     "at most " + std::to_string(last_cycle),
                     {}});
  queue_.push({time, order_of(kind, stream, port), value});
}

void Agenda::push(EventKind kind, std::int64_t time, int stream, int port, const Details& details) {
  if (free_details_.empty()) {
    free_details_.push_back(static_cast<std::int32_t>(details_.size()));
    details_.emplace_back();
  }
  const std::int32_t place = free_details_.back();
  free_details_.pop_back();
  details_[at(place)] = details;
  push(kind, time, stream, port, place);
}

Event Agenda::take() {
  const Event event = queue_.pop();
  ++taken_;
  now_ = event.time;
  return event;
}

void Agenda::put_back(const Event& event) {
  queue_.push(event);
  --taken_;
}

Details Agenda::details(const Event& event) {
  free_details_.push_back(static_cast<std::int32_t>(event.value));
  return details_[at(event.value)];
}

void Agenda::drop(const Event& event) {
  const EventKind kind = event.kind();
  if (kind == EventKind::commit || kind == EventKind::count || kind == EventKind::arrive) details(event);
}

}  // namespace tilesim::engine
