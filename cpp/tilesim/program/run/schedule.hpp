// Runs a program in a legal order that differs from text order: all events that may happen next are candidates, and a
// policy picks one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/run/operation.hpp"
#include "tilesim/program/run/residents.hpp"
#include "tilesim/program/run/tensors.hpp"

namespace tilesim::program {

class Schedule {
 public:
  Schedule(const CompiledProgram& program, Tensors& tensors, const ExecuteOptions& options);
  void run();

 private:
  struct Node;
  struct Effect;
  /// A version of a slot. It has its own bytes, which are poisoned when the version becomes free.
  struct Version {
    int slot = -1;
    std::int64_t number = -1;
    std::vector<std::byte> bytes;
    bool acquired = false, freed = false;
    bool used = false;   ///< whether removed statements used it
    bool named = false;  ///< whether a current statement uses it
    std::int64_t pieces = 0;
    std::uint32_t released = 0;
    std::vector<Version*> before;  ///< versions on the same bytes that must be free first
    std::vector<Node*> users;      ///< operations that use it, in text order
    std::vector<Effect*> commits;  ///< its commits in text order
  };
  /// A statement in a queue.
  struct Node {
    Operation op;
    std::string text;
    std::size_t stream = 0;
    std::vector<Version*> versions;                         ///< versions of op.views; for synchronization, one version
    std::vector<std::pair<std::size_t, Version*>> targets;  ///< send: streams and versions that it fills
    std::vector<std::vector<std::byte>> staged;             ///< a buffer per written view (or source of a store, send)
    bool started = false, consumed = false, complete = false;
    std::size_t places = 1;    ///< number of queues that have not passed the statement
    Effect* effect = nullptr;  ///< effect of a commit, release or signal
  };
  /// The effect of a commit, release or signal.
  struct Effect {
    Node* node = nullptr;
    std::vector<Node*> after;  ///< operations that must be complete (release: consumed) before
    bool reached = false, done = false;
  };
  struct Queue {
    std::deque<Node*> entries;
    std::vector<Node*> operations;  ///< all operations in order
  };
  struct Stream {
    Stream(const CompiledProgram& program, std::int64_t core_id, std::int64_t context_id, const Tensors& tensors)
        : cursor(program, core_id, context_id, &tensors), core(core_id), context(context_id) {}
    Cursor cursor;
    std::int64_t core, context;
    std::vector<Queue> queues;
    std::map<std::pair<int, std::int64_t>, std::unique_ptr<Version>> versions;
    std::map<int, std::vector<Version*>> received;  ///< per slot, in text order
    std::map<int, std::size_t> sent;
    std::vector<Version*> latest;  ///< last version dispatched to each buffer of all slots
    bool finished = false, at_barrier = false;
    std::size_t waiting = 0;  ///< number of entries in queues
  };
  enum class Kind : std::uint8_t { dispatch, head, consume, complete, effect };
  struct Event {
    Kind kind;
    std::size_t stream;
    int queue;
    Node* node;
    Effect* effect;
  };

  // Defined in schedule.cpp: candidates for the next event.
  void candidates(std::vector<Event>& events);
  void head_candidate(std::size_t stream, int queue, std::vector<Event>& events);
  bool may_pass(Node& node);
  bool may_consume(const Node& node) const;
  bool may_complete(const Node& node) const;
  bool may_show(const Effect& effect) const;
  bool is_room(const Version& version) const;
  const Event& pick(const std::vector<Event>& events);
  bool idle(const Stream& stream) const;
  [[noreturn]] void stuck() const;

  // Defined in schedule_forget.cpp: removal of finished statements.
  static std::int64_t furthest_back(const CompiledProgram& program);
  static bool done(const Node& node);
  void forget();

  // Defined in schedule_dispatch.cpp: dispatch of statements to queues.
  void dispatch(std::size_t stream);
  void enqueue(std::size_t stream, const Instruction& instruction);
  Version& start_version(Stream& stream, int slot, std::int64_t number);
  Version* find_version(Stream& stream, const Node& node, int slot, std::int64_t number);
  void add_effect(Node& node);

  // Defined in schedule_events.cpp: effects of an event.
  void happen(const Event& event);
  void pass(Node& node);
  void consume(Node& node);
  void complete(Node& node);
  void show(Effect& effect);
  void make_live(std::size_t stream, Version& version);
  void use_resident(const Node& node);
  void check_live(const Node& node, const Version& version) const;

  const CompiledProgram& program_;
  Tensors& tensors_;
  const ExecuteOptions& options_;
  TileExecutor& executor_;
  Residents residents_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Effect>> effects_;
  std::vector<Node*> in_flight_;
  std::vector<Effect*> pending_;
  std::vector<std::vector<std::int64_t>> counters_;
  std::vector<std::uint64_t> weights_;  ///< random order: relative speed of each queue
  std::uint64_t random_ = 0;
  std::int64_t furthest_back_;
  std::size_t forget_at_ = 1024;  ///< number of statements at which finished ones are removed
  std::uint64_t next_random();
};

}  // namespace tilesim::program
