// Assigns registers to the values of overlapping iterations, by their lifetimes.
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

/// Lifetimes of one iteration's values in `turns` turns are arcs of a circle. Starting at a point of it, arcs across
/// the point come first, then the others by their start; each takes the free register that has been free for the
/// shortest time. If registers do not suffice, another starting point is tried.
bool SoftwarePipeline::color(std::int64_t interval, std::int64_t turns, const std::vector<bool>& free) {
  const std::int64_t around = interval * turns;
  std::vector<Arc> arcs;
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    Value& value = values_[i];
    if (value.scope != Scope::iteration || value.end < 0) continue;
    if (value.end - value.begin > around) return false;
    covered += turns * (value.end - value.begin);
    value.registers.assign(static_cast<std::size_t>(turns), 0);
    for (std::int64_t turn = 0; turn < turns; ++turn)
      arcs.push_back({i, turn, (value.begin + turn * interval) % around, value.end - value.begin});
  }
  if (covered > around * std::count(free.begin(), free.end(), true)) return false;
  constexpr std::int64_t places = 4;
  for (std::int64_t place = 0; place < std::min(places, interval); ++place) {
    const std::int64_t from = place * interval / places;
    std::vector<Arc> order = arcs;
    for (Arc& arc : order) arc.begin = (arc.begin - from + around) % around;
    std::stable_sort(order.begin(), order.end(), [&](const Arc& x, const Arc& y) {
      const bool over_x = x.begin + x.length > around, over_y = y.begin + y.length > around;
      return over_x != over_y ? over_x : x.begin < y.begin;
    });
    if (give_arcs(order, around, free)) return true;
  }
  return false;
}

bool SoftwarePipeline::give_arcs(const std::vector<Arc>& order, std::int64_t around, const std::vector<bool>& free) {
  std::vector<std::vector<Arc>> held(free.size());
  for (const Arc& arc : order) {
    std::size_t found = free.size();
    std::int64_t least = INT64_MAX;
    for (std::size_t r = 0; r < free.size() && least > 0; ++r) {
      if (!free[r]) continue;
      std::int64_t waited = around;  // time since the previous arc's end
      bool apart = true;
      for (const Arc& other : held[r]) {
        const std::int64_t after = (arc.begin - other.begin + around) % around,
                           before = (other.begin - arc.begin + around) % around;
        apart = apart && after >= other.length && before >= arc.length;
        waited = std::min(waited, after - other.length);
      }
      if (apart && waited < least) least = waited, found = r;
    }
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
  for (const std::int64_t turns : {1, 2, 3, 4, 6, 8, 12})
    if (color(interval, turns_ = turns, free)) return true;
  return false;
}

}  // namespace tilesim::isa
