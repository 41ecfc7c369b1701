#include "tilesim/isa/pipeline/protocol.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/isa/text/assemble.hpp"

namespace tilesim::isa {

namespace {

bool begins(const std::string& text, std::initializer_list<const char*> with) {
  return std::any_of(with.begin(), with.end(), [&](const char* stem) { return text.starts_with(stem); });
}

/// Distance between the registers of consecutive copies.
unsigned step_of(const LoopCase& of) {
  const unsigned group = of.lmul > 0 ? 1U << of.lmul : 1;
  const bool reduces = begins(of.instruction, {"vwred", "vfwred"});
  if (!reduces && begins(of.instruction, {"vw", "vn", "vfw", "vfn"})) return std::min(2 * group, 8U);
  if (begins(of.instruction, {"vcpop", "vfirst"}) || of.instruction.find(".mm ") != std::string::npos) return 2;
  return group;
}

/// "v8" of copy k becomes v(8 + k·step mod 8); "t0" and "ft0" advance up to t6 and a1, and ft7; v0 is unchanged.
std::string rotated_operand(const std::string& word, unsigned offset) {
  const auto number = [&](std::size_t from) {
    return from < word.size() && std::all_of(
                                     word.begin() + static_cast<std::ptrdiff_t>(from), word.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; })
               ? std::stoi(word.substr(from))
               : -1;
  };
  if (word.size() <= 3 && word[0] == 'v' && number(1) >= 8)
    return "v" + std::to_string(number(1) + static_cast<int>(offset));
  if (word == "t0") return offset == 7 ? "a1" : "t" + std::to_string(offset);
  if (word == "ft0") return "ft" + std::to_string(offset);
  return word;
}

std::vector<Op> decoded(const InstructionSet& set, const std::string& text) {
  const Assembled made = assemble(set, text);
  std::vector<Op> ops;
  for (std::size_t at = 0; at < made.bytes.size();) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, made.bytes.data() + at, std::min<std::size_t>(4, made.bytes.size() - at));
    ops.push_back(set.decode((bits & 3) == 3 ? bits : bits & 0xFFFF, at));
    at += ops.back().length;
  }
  return ops;
}

void set_type(VectorState& v, const LoopCase& of, std::uint64_t avl) {
  unsigned sew = 3;
  while (sew < 6 && 1U << sew != of.sew) ++sew;
  const std::uint64_t vtype = (static_cast<std::uint64_t>(of.lmul) & 7) | (sew - 3) << 3 | 0xC0;
  set_vtype(v, vtype, avl);
  if (1U << sew != of.sew || v.vtype >> 63 != 0)
    throw UserError({"no such vtype on this core",
                     {},
                     "SEW " + std::to_string(of.sew) + ", LMUL 2^" + std::to_string(of.lmul),
                     "SEW 8 to 64, at most 64 × LMUL",
                     {}});
}

/// States after each trip, until a state repeats.
class Steady {
 public:
  /// Number of trips since the pipeline was in this state; 0: never.
  unsigned seen(const Pipeline& pipeline, unsigned trip) {
    std::vector<Ticks> state;
    pipeline.state(state);
    const auto [found, fresh] = trips_.try_emplace(std::move(state), trip);
    if (fresh) copies_.push_back(pipeline);
    return fresh ? 0 : trip - found->second;
  }
  const Pipeline& back(unsigned period) const { return copies_[copies_.size() - period]; }

 private:
  std::map<std::vector<Ticks>, unsigned> trips_;
  std::vector<Pipeline> copies_;
};

}  // namespace

std::string rotated(const LoopCase& of) {
  const unsigned step = step_of(of);
  std::string text;
  for (unsigned copy = 0; copy < loop_copies; ++copy) {
    std::string word;
    for (const char c : of.instruction + "\n") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') {
        word += c;
        continue;
      }
      text += rotated_operand(word, copy * step % loop_copies) + c;
      word.clear();
    }
  }
  return text;
}

LoopResult run_loop(const std::shared_ptr<const InstructionSet>& set, const CoreTiming& core, const LoopCase& of,
                    bool every_trip) {
  VectorState v(core.vlen);
  set_type(v, of, of.one ? 1 : ~std::uint64_t{0});
  const std::vector<Op> ops = decoded(*set, "loop:\n" + rotated(of) + "addi a0, a0, -1\nbnez a0, loop\n");
  Pipeline pipeline(set, core);
  Steady steady;
  bool repeated = every_trip;
  for (unsigned trip = 1; trip <= loop_trips; ++trip) {
    for (const Op& op : ops) pipeline.issue(op, v);
    if (repeated || trip > 64) continue;
    const unsigned period = steady.seen(pipeline, trip);
    if (period == 0) continue;
    const unsigned times = (loop_trips - trip) / period;
    pipeline.repeat(Pipeline(steady.back(period)), times);
    trip += times * period;
    repeated = true;
  }
  worked(static_cast<std::int64_t>(ops.size()) * loop_trips);
  return {static_cast<double>(pipeline.drain()) / (loop_copies * loop_trips), pipeline.units()};
}

void time_list(Pipeline& pipeline, const std::string& text, const LoopCase& type, std::uint64_t avl, unsigned times) {
  VectorState v(pipeline.core().vlen);
  set_type(v, type, avl);
  const std::vector<Op> ops = decoded(pipeline.set(), text);
  for (unsigned i = 0; i < times; ++i) {
    for (const Op& op : ops) pipeline.issue(op, v);
    worked(static_cast<std::int64_t>(ops.size()));
  }
}

}  // namespace tilesim::isa
