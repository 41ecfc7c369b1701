// Memory channels behind a cache as nodes of a network of routers. A packet's answer is known when its slice has the
// last sector. A write is acknowledged when its data is in the slice.
#include <algorithm>

#include "tilesim/engine/memory/cached.hpp"
#include "tilesim/engine/memory/routed.hpp"

namespace tilesim::engine {

namespace {

class CachedNodes final : public MemoryNodes {
 public:
  CachedNodes(const Machine& machine, const dram::Part* part, cache::Tensors& tensors)
      : MemoryNodes(machine), cached_(machine, part, tensors), moved_(answers.size(), 0) {}

  void take(std::size_t channel, const Arrival& arrival, std::int64_t cycle) override {
    const std::int32_t tensor = arrival.pattern ? arrival.pattern->tensor : -1;
    const bool known = arrival.pattern && arrival.pattern->known;
    if (left_.size() <= arrival.packet) left_.resize(arrival.packet + 1, 0), last_.resize(left_.size(), 0);
    const cache::Access request{
        cycle, arrival.address, arrival.bytes, arrival.write, arrival.write ? cache::no_tag : arrival.packet, 0};
    left_[arrival.packet] = 0;
    last_[arrival.packet] = cycle;
    const cache::Level::Taken taken = cached_.level.request(channel, request, tensor, known);
    if (arrival.pattern) arrival.pattern->below += taken.below;
    if (arrival.write)
      answer(channel, taken.cycle + cached_.level.spec().hit_cycles, arrival.packet);
    else
      left_[arrival.packet] = taken.answers;
    collect(channel, cycle);
    const std::int64_t moved = cached_.level.below(channel).moved;
    series.add(channel, cycle, moved - moved_[channel]);
    moved_[channel] = moved;
  }

  void advance(std::int64_t cycle) override {
    for (std::size_t channel = 0; channel < answers.size(); ++channel) {
      if (cached_.level.slice(channel).readers() == 0) continue;
      cached_.level.slice(channel).advance(cycle);
      collect(channel, cycle);
    }
  }

  std::int64_t step() const override {
    return cached_.answer_cycles > 0 ? cached_.answer_cycles : std::int64_t{1} << 40;
  }
  bool active() const override {
    for (std::size_t channel = 0; channel < answers.size(); ++channel)
      if (cached_.level.slice(channel).readers() > 0) return true;
    return false;
  }
  std::vector<MemorySystem::Channel> channels(Clock) const override { return cached_.channels(); }
  std::vector<MemorySystem::Bank> banks() const override { return cached_.banks(); }
  std::vector<MemorySystem::Energy> energy() const override { return cached_.energy(); }
  const cache::Level* cache() const override { return &cached_.level; }

 private:
  void answer(std::size_t channel, std::int64_t cycle, std::uint32_t packet) {
    std::deque<Answer>& out = answers[channel];
    auto place = out.end();
    while (place != out.begin() && std::prev(place)->cycle > cycle) --place;
    out.insert(place, {cycle, packet});
  }

  void collect(std::size_t channel, std::int64_t now) {
    std::vector<cache::Below::Returned>& known = cached_.level.slice(channel).answers;
    for (const cache::Below::Returned& one : known) {
      last_[one.tag] = std::max(last_[one.tag], one.cycle);
      if (--left_[one.tag] == 0) answer(channel, std::max(last_[one.tag], now + 1), one.tag);
    }
    known.clear();
  }

  CachedChannels cached_;
  std::vector<std::int64_t> left_, last_, moved_;  ///< by packet: missing answers, latest cycle; by channel
};

}  // namespace

std::unique_ptr<MemoryNodes> cached_nodes(const Machine& machine, const dram::Part* part, cache::Tensors& tensors) {
  return std::make_unique<CachedNodes>(machine, part, tensors);
}

}  // namespace tilesim::engine
