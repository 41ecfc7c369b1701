#include "tilesim/analytic/attention.hpp"

#include <algorithm>
#include <cmath>

namespace tilesim::analytic {

namespace {

constexpr double query_tile = 128, key_tile = 128;

/// Query tiles of a call: number of tiles, rows per tile, and keys per tile (mean and largest number).
struct Tiled { double tiles, packed, walked, longest; };

Tiled tile_up(const AttentionCase& call) {
  const double group = call.heads / call.key_heads;
  const double packed = call.queries * group;  // queries that share keys are in common tiles
  const double of_head = std::ceil(packed / query_tile);
  Tiled t{call.batch * call.key_heads * of_head, packed, 0, 0};
  const double span = std::min(query_tile / group, call.queries);  // positions that one tile covers
  const double reach = std::min(call.keys, call.window > 0 ? call.window + span : call.keys);
  t.walked = t.longest = reach;
  if (!call.causal) return t;
  const double hidden = std::max(call.keys - of_head * span, 0.0);  // keys before the first query, visible to all
  const double ramp = std::clamp(std::floor((reach - hidden) / span), 0.0, of_head);  // tiles that see fewer keys
  const double walked = (ramp * hidden + span * ramp * (ramp + 1) / 2 + (of_head - ramp) * reach) / of_head;
  t.walked = std::min(walked, reach);
  return t;
}

AttentionTerms with_splits(const AttentionModel& model, const AttentionCase& call, const Tiled& t, double splits) {
  const AttentionConstants& c = model.constants;
  const double rows = std::min(t.packed, query_tile), fullest = model.padded ? 1 : 0;
  const double depth = model.padded ? std::ceil(call.depth / 64) * 64 : call.depth;
  const double products =
      4 * (model.padded ? query_tile : rows) * key_tile * depth / (model.flops_per_second / model.units * c.efficiency);
  const double exponentials = rows * key_tile / (c.exponentials * model.clock);
  const double block = std::max(std::max(products, exponentials), c.block);
  const double waves = t.tiles * splits / model.units;
  const double rounds = (1 - c.wave_smoothing) * std::ceil(waves) + c.wave_smoothing * std::max(waves, 1.0);
  const auto part = [&](double keys) {  // keys of a split; at least a block
    return std::max(keys / splits, std::min(keys, key_tile));
  };
  const auto one = [&](double keys) { return c.tile + block * std::max(fullest, part(keys) / key_tile); };
  const double compute = std::max(rounds * one(t.walked), one(t.longest));  // the longest tile starts first
  const double per_key = 2 * call.depth * model.cache_bytes / (c.unit_bytes_per_clock * model.clock);
  const double load = std::max(rounds * part(t.walked), part(t.longest)) * per_key;
  const double held = call.window > 0 ? std::min(call.keys, call.window + call.queries) : call.keys;
  const double cached = call.batch * call.key_heads * held * call.depth * 2 * model.cache_bytes;
  const double fresh = call.batch * call.queries * call.depth * 2 * (2 * call.heads + 2 * call.key_heads);
  const double memory = (cached + fresh) / (model.memory_bytes_per_second * c.memory_share);
  const double write = call.batch * call.queries * call.key_heads * c.row / model.units;
  const double launch = c.launch + call.batch * c.sequence + write;
  const double split = splits > 1 ? c.split : 0;
  const double core = overlapped(compute, load, memory, std::max(std::max(compute, load), memory), c.overlap);
  return {launch, compute, load, memory, split, launch + core + split};
}

const AttentionTerms& faster(const AttentionTerms& one, const AttentionTerms& other) {
  return one.back() < other.back() ? one : other;
}

}  // namespace

AttentionTerms AttentionModel::predict(const AttentionCase& call) const {
  const Tiled t = tile_up(call);
  const double splits = t.packed <= query_tile ? std::max(std::floor(units / std::max(t.tiles, 1.0)), 1.0) : 1;
  return faster(with_splits(*this, call, t, splits), with_splits(*this, call, t, 1));
}

AttentionTerms AttentionCall::predict(const AttentionCase& call) const {
  const AttentionTerms whole = prefill.predict(call);
  return call.queries == 1 ? faster(decode.predict(call), whole) : whole;
}

std::span<const ConstantInfo<AttentionConstants>> attention_constants() {
  static const std::array table{
#define TILESIM_ROW(name, value, low, high, unit) \
  ConstantInfo<AttentionConstants>{#name, &AttentionConstants::name, value, low, high, unit},
      TILESIM_ATTENTION_CONSTANTS(TILESIM_ROW)
#undef TILESIM_ROW
  };
  return table;
}

std::span<const std::string_view> attention_term_names() {
  static constexpr std::array<std::string_view, attention_term_count> names{"launch", "compute", "load",
                                                                            "memory", "split",   "total"};
  return names;
}

}  // namespace tilesim::analytic
