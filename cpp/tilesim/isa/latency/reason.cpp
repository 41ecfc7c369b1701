// The reason why a kernel takes longer than the work of its units, as text for comparisons of fidelities.
#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

namespace {

/// States of all pipes of one kind.
struct KindTimes {
  std::string name;
  std::int64_t pipes = 0;
  StateTimes in{};

  Ticks busy() const { return in[static_cast<std::size_t>(State::busy)] / pipes; }
  State waits() const {  ///< the most frequent state except busy
    std::size_t most = static_cast<std::size_t>(State::starved);
    for (std::size_t state = 0; state < states; ++state)
      if (state != static_cast<std::size_t>(State::busy) && in[state] > in[most]) most = state;
    return static_cast<State>(most);
  }
  Ticks waited() const { return in[static_cast<std::size_t>(waits())] / pipes; }
};

constexpr std::string_view said(State why) {
  switch (why) {
    case State::operands:
      return "instructions wait for results of others";
    case State::registers:
      return "registers are still read or written";
    case State::order:
      return "an older instruction of its queue has not begun";
    case State::array:
      return "the array's queues are full or empty";
    default:
      return "nothing is given to it";
  }
}

std::vector<KindTimes> kinds_of(const std::vector<UnitTimes>& now, const std::vector<UnitTimes>& before) {
  std::vector<KindTimes> kinds;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string name = now[i].name.substr(0, now[i].name.find_last_not_of("0123456789") + 1);
    if (kinds.empty() || kinds.back().name != name) kinds.push_back({name, 0, {}});
    ++kinds.back().pipes;
    for (std::size_t state = 0; state < states; ++state)
      kinds.back().in[state] += now[i].in[state] - (i < before.size() ? before[i].in[state] : 0);
  }
  return kinds;
}

/// A share as a multiple of 10 %, so that few texts occur.
std::string tens(Ticks part, std::int64_t cycles) {
  const Ticks all = std::max<Ticks>(1, cycles * cycle);
  return std::to_string(std::clamp<Ticks>((20 * part + all) / (2 * all), 0, 10) * 10) + " %";
}

/// Stores a text permanently.
const char* kept(const std::string& text) {
  static std::mutex one_at_a_time;
  static std::set<std::string> all;
  const std::scoped_lock lock(one_at_a_time);
  return all.insert(text).first->c_str();
}

}  // namespace

const char* reason_of(const Pipeline& pipeline, const std::vector<UnitTimes>& before, std::int64_t cycles) {
  const std::vector<KindTimes> kinds = kinds_of(pipeline.units(), before);
  const KindTimes& front = kinds.front();
  const KindTimes& most = *std::max_element(kinds.begin() + 1, kinds.end(),
                                            [](const auto& a, const auto& b) { return a.busy() < b.busy(); });
  std::string text = most.name + " works " + tens(most.busy(), cycles) + " of the time";
  if (most.waited() * 20 > cycles * cycle) {  // more than 5 %
    text += ", else " + std::string(said(most.waits()));
    if (most.waits() == State::starved)  // with the state of the front end
      text += front.busy() > front.waited() ? ": the front end issues " + tens(front.busy(), cycles)
                                            : std::string(": the front end waits for ") + state_name(front.waits());
  }
  return kept(text);
}

}  // namespace tilesim::isa
