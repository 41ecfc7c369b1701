// The event queue. Events are ordered by (time, phase, component, port), never by insertion.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilesim::engine {

/// Event kinds. Of events at the same time, deliveries (commit to piece) come before starts (chunk to admit).
enum class EventKind : std::uint8_t { commit, release, count, arrive, piece, chunk, queue, stream, admit };

struct Event {
  std::int64_t time = 0;
  std::uint64_t order = 0;  ///< phase, component (stream), port (queue, slot or counter), kind
  std::int64_t value = 0;   ///< data that depends on the kind, or the index of a `Details`

  int stream() const { return static_cast<int>(order >> 32 & 0x3FFFFFFF); }
  int port() const { return static_cast<int>(order >> 8 & 0xFFFFFF); }
  EventKind kind() const { return static_cast<EventKind>(order & 0xFF); }
};
static_assert(sizeof(Event) == 24);

/// A binary heap by (time, order). Two events with equal keys have the same effect in either order.
class EventQueue {
 public:
  void push(const Event& event);
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }
  Event pop();
  std::size_t size() const { return heap_.size(); }
  std::uint64_t shuffle = 0;  ///< for tests: nonzero changes the heap's inner order, not the order of events

 private:
  std::vector<Event> heap_;
};

/// Additional data of a commit, count or arrive event.
struct Details { std::int64_t a = 0, b = 0, c = 0; };

/// Future events and the current time.
class Agenda {
 public:
  static constexpr int most_streams = 1 << 30, most_ports = 1 << 24;

  explicit Agenda(std::uint64_t shuffle) { queue_.shuffle = shuffle; }
  std::int64_t now() const { return now_; }
  std::int64_t taken() const { return taken_; }  ///< number of events that `take` returned
  bool empty() const { return queue_.empty(); }
  std::int64_t next() const { return queue_.top().time; }
  /// Throws UserError if the time exceeds 2^61 cycles.
  void push(EventKind kind, std::int64_t time, int stream, int port, std::int64_t value = 0);
  void push(EventKind kind, std::int64_t time, int stream, int port, const Details& details);
  /// Removes and returns the next event, and advances the time to it.
  Event take();
  void put_back(const Event& event);    ///< returns the last taken event to the queue, if it had no effect
  Details details(const Event& event);  ///< returns and frees the event's details; call it once per event
  void drop(const Event& event);        ///< frees the event's details without reading them
  void pass(std::int64_t time) { now_ = time > now_ ? time : now_; }

  std::string subject;  ///< names the simulation in error messages

 private:
  EventQueue queue_;
  std::vector<Details> details_;
  std::vector<std::int32_t> free_details_;
  std::int64_t now_ = 0, taken_ = 0;
};

}  // namespace tilesim::engine
