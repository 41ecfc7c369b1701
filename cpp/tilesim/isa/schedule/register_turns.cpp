// Registers of iterations that overlap: who lives how long, and whose turn it is.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/isa/schedule/software_pipeline.hpp"

namespace tilesim::isa {

namespace {

constexpr unsigned register_count = 32;

}  // namespace

void SoftwarePipeline::find_lives() {
  for (Value& value : values_) value.begin = INT64_MAX, value.end = -1;
  for (const Bundle& bundle : bundles_) {
    for (const unsigned id : bundle.writes) {
      values_[id].begin = std::min(values_[id].begin, bundle.time);
      values_[id].end = std::max(values_[id].end, bundle.time + 1);
    }
    for (const unsigned id : bundle.reads) values_[id].end = std::max(values_[id].end, bundle.time + 1);
  }
}

/// Lives of one iteration's values in `turns` turns are arcs of a circle: each takes the first register that is free.
bool SoftwarePipeline::color(std::int64_t interval, std::int64_t turns, std::vector<bool>& free) {
  const std::int64_t around = interval * turns;
  struct Arc {
    std::size_t value;
    std::int64_t turn, begin, length;
  };
  std::vector<Arc> arcs;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    Value& value = values_[i];
    if (value.scope != Scope::iteration || value.end < 0) continue;
    if (value.end - value.begin > around) return false;
    value.registers.assign(static_cast<std::size_t>(turns), 0);
    for (std::int64_t turn = 0; turn < turns; ++turn)
      arcs.push_back({i, turn, (value.begin + turn * interval) % around, value.end - value.begin});
  }
  std::stable_sort(arcs.begin(), arcs.end(), [](const Arc& a, const Arc& b) { return a.begin < b.begin; });
  std::vector<std::vector<Arc>> held(free.size());
  for (const Arc& arc : arcs) {
    const auto apart = [&](const Arc& other) {
      const std::int64_t after = (arc.begin - other.begin + around) % around,
                         before = (other.begin - arc.begin + around) % around;
      return after >= other.length && before >= arc.length;
    };
    std::size_t found = free.size();
    for (std::size_t r = 0; r < free.size() && found == free.size(); ++r)
      if (free[r] && std::all_of(held[r].begin(), held[r].end(), apart)) found = r;
    if (found == free.size()) return false;
    held[found].push_back(arc);
    values_[arc.value].registers[static_cast<std::size_t>(arc.turn)] = static_cast<unsigned>(found) << lmul_;
  }
  return true;
}

bool SoftwarePipeline::give_registers(std::int64_t interval, unsigned first) {
  find_lives();
  std::vector<bool> free(register_count >> lmul_, true);
  for (unsigned r = 0; r < first; ++r) free[r >> lmul_] = false;
  const auto take = [&](Value& value, std::int64_t count) {
    value.registers.clear();
    for (std::size_t r = 0; r < free.size() && std::ssize(value.registers) < count; ++r)
      if (free[r]) free[r] = false, value.registers.push_back(static_cast<unsigned>(r) << lmul_);
    return std::ssize(value.registers) == count;
  };
  const std::int64_t last_block = space_.groups % space_.block;
  turns_of_groups_ = space_.block, turns_of_steps_ = 1;
  for (const Value& value : values_) {
    if (value.end < 0 || value.scope == Scope::iteration) continue;
    const std::int64_t life = value.end - value.begin;
    if (value.scope == Scope::group) {
      const std::int64_t blocks =
          ((space_.steps - 1) * space_.block * interval + life) / (space_.steps * space_.block * interval);
      turns_of_groups_ = std::max(turns_of_groups_, space_.block * (blocks + 1));
    } else {
      for (const std::int64_t block : {space_.block, last_block})
        if (block > 0)
          turns_of_steps_ = std::max(turns_of_steps_, ((block - 1) * interval + life) / (block * interval) + 1);
    }
  }
  for (Value& value : values_) {
    if (value.end < 0 || value.scope == Scope::iteration) continue;
    const bool of_group = value.scope == Scope::group;
    const std::int64_t there = of_group ? space_.groups : space_.steps * ceil_div(space_.groups, space_.block);
    std::int64_t& turns = of_group ? turns_of_groups_ : turns_of_steps_;
    if (!take(value, std::min(turns, std::max<std::int64_t>(there, 1)))) return false;
  }
  for (turns_ = 1; turns_ <= most_turns; turns_ *= 2)
    if (color(interval, turns_, free)) return true;
  return false;
}

}  // namespace tilesim::isa
