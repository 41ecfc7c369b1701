#include "tilesim/isa/movement/move_writer.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

constexpr std::array<unsigned, 8> counters{a2, a3, a4, a5, a6, a7, t0, t3};
constexpr unsigned in_pointer = a0, out_pointer = a1, in_step = t3 + 1, out_step = t3 + 2;
constexpr std::array<unsigned, 3> other_pointers{8, 9, t6};
constexpr int widest_group = 3;
constexpr std::int64_t most_copies = 16;

class PassWriter {
 public:
  PassWriter(Code& code, const CoreTiming& core, const MovePass& pass)
      : code_(code), pass_(pass), group_(pass.group(core)) {
    copies_ = std::min<std::int64_t>(pass.held(core) ? 32 : most_copies, 32 >> group_);
    if (pass.tabled()) copies_ = pass.part > 0 ? 8 : 16, first_ = 32 - 16;
    outer_ = pass.loops.size();
    while (outer_ > 0 && inner_ * pass.loops[outer_ - 1].extent <= copies_) inner_ *= pass.loops[--outer_].extent;
    if (outer_ > counters.size())
      throw Unsupported(
          {"the kernel has more loops than counters", {}, std::to_string(outer_), std::to_string(counters.size()), {}});
  }

  void write() {
    code_.load_constant(in_pointer, static_cast<std::int64_t>(pass_.from));
    code_.load_constant(out_pointer, static_cast<std::int64_t>(pass_.to));
    if (!pass_.unit_in() && pass_.in_table.empty() && pass_.in != 0) code_.load_constant(in_step, pass_.in);
    if (!pass_.unit_out() && pass_.out_table.empty()) code_.load_constant(out_step, pass_.out);
    tables();
    nest(0);
  }

 private:
  /// Writes the loops from `level` on; afterwards pointers have advanced by extent · step of the level.
  void nest(std::size_t level) {
    if (outer_ == 0) return block(1, {1, 0, 0});
    const MoveDim& dim = pass_.loops[level];
    if (level + 1 == outer_) {
      const std::int64_t beside = std::clamp<std::int64_t>(copies_ / inner_, 1, dim.extent);
      repeat(level, dim.extent / beside, [&] { block(beside, dim); });
      if (dim.extent % beside != 0) block(dim.extent % beside, dim);
      return;
    }
    const MoveDim& next = pass_.loops[level + 1];
    repeat(level, dim.extent, [&] {
      nest(level + 1);
      code_.advance(in_pointer, dim.in - next.extent * next.in);
      code_.advance(out_pointer, dim.out - next.extent * next.out);
    });
  }

  /// Loads offset tables into the registers below those of the elements.
  void tables() {
    const int group = pass_.width == 64 ? -1 : pass_.width == 32 ? 0 : pass_.width == 16 ? 1 : 2;
    const auto load = [&](const std::vector<std::uint32_t>& table, std::int64_t reg) {
      if (table.empty()) return;
      code_.load_address(t1, table);
      code_.set_vl(pass_.elements, 32, group);
      code_.op("vle32.v", {reg, t1});
    };
    load(pass_.in_table, in_places), load(pass_.out_table, out_places);
    if (pass_.part == 0) return;
    const std::int64_t beside = pass_.width / pass_.part, parts = pass_.elements * beside;
    std::vector<std::uint32_t> turned(static_cast<std::size_t>((parts + 1) / 2));
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t square = i / (beside * beside), row = i / beside % beside, column = i % beside;
      const auto from = static_cast<std::uint32_t>((square * beside + column) * beside + row);
      turned[static_cast<std::size_t>(i / 2)] |= from << (i % 2 * 16);
    }
    code_.load_address(t1, turned);
    code_.set_vl(parts, 16, pass_.part == 8 ? 1 : pass_.part == 16 ? 0 : -1);
    code_.op("vle16.v", {turns, t1});
  }

  template <class Body>
  void repeat(std::size_t level, std::int64_t times, Body body) {
    if (times > 1) code_.begin_loop(counters[level], times);
    if (times > 0) body();
    if (times > 1) code_.end_loop();
  }

  /// Moves `beside` points of `dim`, each with all inner points, and advances the pointers.
  void block(std::int64_t beside, const MoveDim& dim) {
    std::vector<MoveDim> points{{1, 0, 0}};  // offsets in bytes
    const auto spread = [&](const MoveDim& by, std::int64_t count) {
      std::vector<MoveDim> all;
      for (const MoveDim& at : points)
        for (std::int64_t i = 0; i < count; ++i) all.push_back({1, at.in + i * by.in, at.out + i * by.out});
      points = std::move(all);
    };
    spread(dim, beside);
    for (std::size_t i = outer_; i < pass_.loops.size(); ++i) spread(pass_.loops[i], pass_.loops[i].extent);
    code_.set_vl(pass_.elements, pass_.width, group_);
    side(points, false, beside * dim.in);
    if (pass_.part > 0) {
      code_.set_vl(pass_.elements * pass_.width / pass_.part, pass_.part, 0);
      for (std::int64_t i = 0; i < std::ssize(points); ++i)
        code_.op("vrgatherei16.vv", {first_ + 8 + i, first_ + i, turns});
      code_.set_vl(pass_.elements, pass_.width, group_);
    }
    side(points, true, beside * dim.out);
  }

  void side(const std::vector<MoveDim>& points, bool stores, std::int64_t next) {
    const std::string width = std::to_string(pass_.width) + ".v";
    const unsigned pointer = stores ? out_pointer : in_pointer, step = stores ? out_step : in_step;
    const bool unit = stores ? pass_.unit_out() : pass_.unit_in();
    const bool table = !(stores ? pass_.out_table : pass_.in_table).empty();
    const std::string name = table ? stores ? "vsuxei32.v" : "vluxei32.v"
                                   : (stores ? unit ? "vse" : "vsse"
                                      : unit ? "vle"
                                             : "vlse") +
                                         width;
    const std::int64_t stride = !stores && pass_.in == 0 ? std::int64_t{zero} : std::int64_t{step};
    const auto move = [&](std::size_t i, unsigned from) {
      const std::int64_t reg = first_ + (stores && pass_.part > 0 ? 8 : 0) + static_cast<std::int64_t>(i << group_);
      if (table)
        code_.op(name, {reg, from, stores ? out_places : in_places});
      else if (unit)
        code_.op(name, {reg, from});
      else
        code_.op(name, {reg, from, stride});
    };
    std::vector<std::int64_t> places;
    for (const MoveDim& point : points) places.push_back(stores ? point.out : point.in);
    const std::size_t each = beside_pointer(places) ? 1 + other_pointers.size() : 1;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < places.size(); i += each) {
      const std::size_t some = std::min(each, places.size() - i);
      code_.advance(pointer, places[i] - at);
      at = places[i];
      for (std::size_t k = 1; k < some; ++k) code_.add(other_pointers[k - 1], pointer, places[i + k] - at);
      for (std::size_t k = 0; k < some; ++k) move(i + k, k == 0 ? pointer : other_pointers[k - 1]);
    }
    code_.advance(pointer, next - at);
  }

  /// Whether offsets from one pointer reach several positions; otherwise each access waits a cycle for the pointer's
  /// step.
  static bool beside_pointer(const std::vector<std::int64_t>& places) {
    constexpr std::size_t constants = 6;
    constexpr std::int64_t in_instruction = 2048;
    std::set<std::int64_t> large;
    const std::size_t each = 1 + other_pointers.size();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int64_t step = places[i] - places[i / each * each];
      if (step < -in_instruction || step >= in_instruction) large.insert(step);
    }
    return large.size() <= constants;
  }

  Code& code_;
  const MovePass& pass_;
  int group_;
  enum : std::uint8_t { in_places = 0, out_places = 4, turns = 8 };
  std::int64_t copies_ = 1, inner_ = 1, first_ = 0;
  std::size_t outer_ = 0;
};

}  // namespace

std::int64_t MovePass::points() const {
  std::int64_t count = 1;
  for (const MoveDim& dim : loops) count *= dim.extent;
  return count;
}

std::int64_t most_elements(const CoreTiming& core, unsigned width) {
  return (std::int64_t{core.vlen} << widest_group) / width;
}

int MovePass::group(const CoreTiming& core) const {
  int found = 0;
  while (found < widest_group && (std::int64_t{core.vlen} << found) < elements * static_cast<std::int64_t>(width))
    ++found;
  return found;
}

double cycles_of(const CoreTiming& core, const MovePass& pass) {
  double turning = 0;
  if (pass.part > 0)
    turning = static_cast<double>(ceil_div(pass.elements * pass.width, std::int64_t{core.dlen}) *
                                  core.timing_of(TimingClass::gather)
                                      .cost[pass.part == 8    ? 0
                                            : pass.part == 16 ? 1
                                                              : 2]) /
              cycle;
  const auto side = [&](bool unit, TimingClass apart) {
    if (!unit) return std::max(1.0, static_cast<double>(core.timing_of(apart).element * pass.elements) / cycle);
    return static_cast<double>(ceil_div(pass.elements * pass.width, std::int64_t{core.dlen}) * core.port_beat) / cycle;
  };
  return static_cast<double>(pass.points()) * std::max({turning, side(pass.unit_in(), TimingClass::load_strided),
                                                        side(pass.unit_out(), TimingClass::store_strided)});
}

std::vector<MovePass> split(const MovePass& pass, std::int64_t most) {
  if (pass.elements <= most) return {pass};
  const std::int64_t whole = pass.elements / most, rest = pass.elements % most;
  std::vector<MovePass> parts{pass};
  parts[0].elements = most;
  if (whole > 1) parts[0].loops.push_back({whole, most * pass.in, most * pass.out});
  if (rest > 0) {
    parts.push_back(pass);
    parts[1].elements = rest;
    parts[1].from += static_cast<Address>(whole * most * pass.in);
    parts[1].to += static_cast<Address>(whole * most * pass.out);
  }
  return parts;
}

void write_pass(Code& code, const CoreTiming& core, const MovePass& pass) { PassWriter(code, core, pass).write(); }

}  // namespace tilesim::isa
