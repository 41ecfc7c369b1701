// The event queue. Events are ordered by (time, phase, component, port), never by insertion.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilesim::engine {

/// All deliveries (commit to piece) of an instant precede all starts.
enum class EventKind : std::uint8_t { commit, release, count, arrive, piece, chunk, queue, stream, admit };

struct Event {
  std::int64_t time = 0;
  std::uint64_t order = 0;  ///< phase, component (stream), port (queue, slot or counter), kind
  std::int64_t value = 0;   ///< what the kind says; place of the details

  int stream() const { return static_cast<int>(order >> 32 & 0x3FFFFFFF); }
  int port() const { return static_cast<int>(order >> 8 & 0xFFFFFF); }
  EventKind kind() const { return static_cast<EventKind>(order & 0xFF); }
};
static_assert(sizeof(Event) == 24);

/// A binary heap by (time, order). Events that compare equal do the same thing, so that their order cannot matter.
class EventQueue {
 public:
  void push(const Event& event);
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }
  Event pop();
  std::size_t size() const { return heap_.size(); }
  std::uint64_t shuffle = 0;  ///< test: salts the insertion path, never the order

 private:
  std::vector<Event> heap_;
};

/// What a commit, count or arrival carries beyond its place.
struct Details { std::int64_t a = 0, b = 0, c = 0; };

/// The events to come, and the time.
class Agenda {
 public:
  static constexpr int most_streams = 1 << 30, most_ports = 1 << 24;

  explicit Agenda(std::uint64_t shuffle) { queue_.shuffle = shuffle; }
  std::int64_t now() const { return now_; }
  std::int64_t taken() const { return taken_; }  ///< events so far
  bool empty() const { return queue_.empty(); }
  std::int64_t next() const { return queue_.top().time; }
  /// UserError for a time beyond what a cycle counter holds.
  void push(EventKind kind, std::int64_t time, int stream, int port, std::int64_t value = 0);
  void push(EventKind kind, std::int64_t time, int stream, int port, const Details& details);
  /// The next event; its time is now.
  Event take();
  void put_back(const Event& event);    ///< of an event that was taken last and has done nothing
  Details details(const Event& event);  ///< once
  void drop(const Event& event);        ///< instead
  void pass(std::int64_t time) { now_ = time > now_ ? time : now_; }

  std::string subject;  ///< whose time it is, for messages

 private:
  EventQueue queue_;
  std::vector<Details> details_;
  std::vector<std::int32_t> free_details_;
  std::int64_t now_ = 0, taken_ = 0;
};

}  // namespace tilesim::engine
