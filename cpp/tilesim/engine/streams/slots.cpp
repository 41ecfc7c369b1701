#include "tilesim/engine/streams/slots.hpp"

#include <algorithm>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/program/run/execute.hpp"

namespace tilesim::engine {

namespace {

template <class Ring>
auto& turn(Ring& ring, std::int64_t version) {
  return ring[static_cast<std::size_t>(version) % ring.size()];
}

}  // namespace

Slots::Slots(const program::CompiledProgram& program) : program_(program), slots_(program.slots.size()) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].buffers.resize(static_cast<std::size_t>(program.slots[i].depth));
    slots_[i].dispatched.assign(static_cast<std::size_t>(program.slots[i].depth + 64), 0);
  }
}

Slots::Buffer& Slots::buffer(std::int32_t slot, std::int64_t version) { return turn(at(slot).buffers, version); }

/// Throws a RaceError. An execution with find_races reports the details.
void Slots::race(std::int32_t slot, std::int64_t version, const char* who) const {
  throw program::RaceError({std::string("a race: ") + who + " arrives when the buffer holds another version",
                            program_.program().name,
                            program_.slots[static_cast<std::size_t>(slot)].name + "[" + std::to_string(version) + "]",
                            {},
                            "execute the program with find_races to see the statement"});
}

void Slots::announce(std::int32_t slot, std::int64_t version) { turn(at(slot).dispatched, version) = 0; }

Woken Slots::receive(std::int32_t slot, std::int64_t version) {
  Slot& own = at(slot);
  ++own.received;
  turn(own.dispatched, version) = 0;
  own.epochs.resize(own.dispatched.size());
  turn(own.epochs, version) = epoch_;
  return {0, std::exchange(own.waiting.senders, 0)};
}

std::int32_t Slots::commits(std::int32_t slot, std::int64_t version) { return turn(at(slot).dispatched, version)++; }

void Slots::end(const std::vector<std::int32_t>& slots, const program::Cursor& cursor) {
  if (slots.empty()) return;
  for (const std::int32_t slot : slots) {
    const std::int64_t last = cursor.version(slot, 0);
    const std::int64_t depth = program_.slots[static_cast<std::size_t>(slot)].depth;
    for (std::int64_t version = std::max<std::int64_t>(0, last - depth + 1); version <= last; ++version)
      if (const Ended ended{slot, version, epoch_}; !is_free(ended)) ended_.push_back(ended);
  }
  ++epoch_;
}

bool Slots::holds(std::int32_t slot, std::int64_t version, std::int64_t pieces, int queue) {
  const Buffer& own = buffer(slot, version);
  if (own.version > version) race(slot, version, "a wait");
  if (own.version == version && own.pieces >= pieces) return true;
  at(slot).waiting.queues |= 1U << queue;
  return false;
}

bool Slots::acquire(std::int32_t slot, std::int64_t version, std::int64_t epoch, int queue, Woken& woken) {
  Buffer& own = buffer(slot, version);
  if (own.version >= version) return true;  // another queue of this acquire was first
  const bool overlaps = own.free && on_ended_bytes(slot, version, epoch);
  if (!own.free || overlaps) {
    (overlaps ? ended_waiting_ : at(slot).waiting).queues |= 1U << queue;
    return false;
  }
  own = Buffer{};
  own.version = version;
  own.free = false;
  woken.queues = std::exchange(at(slot).waiting.queues, 0);
  return true;
}

Woken Slots::commit(std::int32_t slot, std::int64_t version, std::int64_t sequence, std::int64_t pieces) {
  Buffer& own = buffer(slot, version);
  if (own.version != version) race(slot, version, "a commit");
  if (sequence - own.next_sequence >= 64)
    throw UserError({"too many commits of a version precede an earlier one: " + program_.program().name,
                     program_.slots[static_cast<std::size_t>(slot)].name + "[" + std::to_string(version) + "]",
                     std::to_string(sequence - own.next_sequence),
                     "fewer than 64",
                     {}});
  own.pending[static_cast<std::size_t>(sequence & 63)] = static_cast<std::int32_t>(pieces);
  own.done_mask |= 1ULL << (sequence & 63);
  while (own.done_mask >> (own.next_sequence & 63) & 1) {
    own.done_mask &= ~(1ULL << (own.next_sequence & 63));
    own.pieces += own.pending[static_cast<std::size_t>(own.next_sequence & 63)];
    ++own.next_sequence;
  }
  return {std::exchange(at(slot).waiting.queues, 0), 0};
}

Woken Slots::release(std::int32_t slot, std::int64_t version, int queue) {
  Buffer& own = buffer(slot, version);
  if (own.version != version) race(slot, version, "a release");
  own.released |= 1U << queue;
  if (own.released != program_.slots[static_cast<std::size_t>(slot)].consumers) return {};
  own.free = true;
  Woken woken = std::exchange(at(slot).waiting, Woken{});
  if (ended_.empty()) return woken;
  std::erase_if(ended_, [&](const Ended& ended) { return is_free(ended); });
  const Woken others = std::exchange(ended_waiting_, Woken{});
  woken.queues |= others.queues;
  woken.senders |= others.senders;
  return woken;
}

bool Slots::accepts(std::int32_t slot, std::uint64_t sender, std::int64_t& version) {
  Slot& own = at(slot);
  version = own.sent;
  const bool free = buffer(slot, version).free, known = own.received > version;
  const bool overlaps = known && free && on_ended_bytes(slot, version, turn(own.epochs, version));
  if (known && free && !overlaps) return true;
  (overlaps ? ended_waiting_ : own.waiting).senders |= sender;
  return false;
}

void Slots::expect(std::int32_t slot, std::int64_t version) {
  Buffer& own = buffer(slot, version);
  own = Buffer{};
  own.version = version;
  own.free = false;
  ++at(slot).sent;
}

Woken Slots::arrive(std::int32_t slot, std::int64_t version, std::int64_t pieces) {
  Buffer& own = buffer(slot, version);
  if (own.version != version) race(slot, version, "a send");
  own.pieces += pieces;
  return {std::exchange(at(slot).waiting.queues, 0), 0};
}

bool Slots::is_free(const Ended& ended) const {
  const Buffer& own = turn(slots_[static_cast<std::size_t>(ended.slot)].buffers, ended.version);
  return own.version > ended.version || (own.version == ended.version && own.free);
}

/// Whether the buffer of a version overlaps bytes that a slot of an ended scope still uses.
bool Slots::on_ended_bytes(std::int32_t slot, std::int64_t version, std::int64_t epoch) const {
  if (ended_.empty()) return false;
  const program::CompiledSlot& own = program_.slots[static_cast<std::size_t>(slot)];
  const std::int64_t low = own.address + version % own.depth * own.bytes, high = low + own.bytes;
  return std::any_of(ended_.begin(), ended_.end(), [&](const Ended& ended) {
    if (ended.epoch >= epoch || ended.slot == slot || is_free(ended)) return false;
    const program::CompiledSlot& other = program_.slots[static_cast<std::size_t>(ended.slot)];
    const std::int64_t from = other.address + ended.version % other.depth * other.bytes;
    return other.accumulator == own.accumulator && from < high && from + other.bytes > low;
  });
}

}  // namespace tilesim::engine
