// Damaged assembly text and random code: what assembler, interpreter and pipeline do beside throwing.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/pipeline/log.hpp"
#include "tilesim/isa/pipeline/pipeline.hpp"
#include "tilesim/isa/pipeline/profile.hpp"
#include "tilesim/isa/run/process.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace fuzz {

using namespace tilesim;
using namespace tilesim::isa;

using Random = std::mt19937_64;

inline const InstructionSet& table() { return *InstructionSet::standard(); }

/// Bits of an instruction of the table, or none at all.
inline std::uint32_t drawn(Random& random) {
  if (random() % 16 == 0) return static_cast<std::uint32_t>(random());
  const auto all = table().all();
  const InstructionInfo& info = all[random() % all.size()];
  return info.encoding.match | (static_cast<std::uint32_t>(random()) & ~info.encoding.mask);
}

inline std::string text_of(Random& random) {
  static const char* const lines[] = {"loop: li a0, 0x123456789abc\n",
                                      "la a1, loop\n",
                                      "bnez a0, loop\n",
                                      ".word 1, 2, 3\n",
                                      ".asciz \"te\\nxt\"\n",
                                      ".align 3\n",
                                      ".zero 5\n",
                                      "call loop # far\n",
                                      "vsetvli t0, a0, e32, m1, ta, ma\n",
                                      "x: j .+4\n",
                                      "lw a0, (a1)\n",
                                      ".option norvc\n"};
  std::string text;
  for (std::uint64_t i = random() % 6 + 1; i > 0; --i)
    text += random() % 3 == 0 ? lines[random() % std::size(lines)] : disassemble(table(), drawn(random)) + "\n";
  for (std::uint64_t i = random() % 4; i > 0 && !text.empty(); --i) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text.erase(at, random() % 4 + 1);
        break;
      case 1:
        text.insert(at, text.substr(random() % text.size(), random() % 8));
        break;
      case 2:
        text[at] = static_cast<char>(random());
        break;
      default:
        text.insert(at, 1, "(),:.#\"%-+;/9xv\n"[random() % 16]);
    }
  }
  return text;
}

inline const char* assembles(Random& random) {
  try {
    assemble(table(), text_of(random), 0x10000);
    return "assembled";
  } catch (const UserError&) {
    return "refused";
  }
}

inline NpuSpec arrays(Random& random) {
  NpuSpec spec;
  spec.lanes = 1U << random() % 8, spec.arrays = static_cast<unsigned>(random() % 4);
  spec.rows = 1 + static_cast<unsigned>(random() % 16), spec.columns = 1 + static_cast<unsigned>(random() % 16);
  spec.scratchpad_bytes = random() % 100000, spec.result_rows = static_cast<unsigned>(random() % 40);
  spec.numerics.multiply_tf32 = random() % 4 == 0;
  if (random() % 4 == 0) spec.numerics.multiply = DType::bf16;
  return spec;
}

/// Half of the runs are timed, on cores of all sorts, with all that can be recorded.
inline Stop watched(Process& process, Random& random) {
  constexpr std::uint64_t limit = 500;
  if (random() % 2 == 0) return process.run(limit);
  CoreTiming core;
  core.vlen = process.hart.v.vlen, core.dlen = core.vlen >> random() % 3;
  core.width = 1 + static_cast<unsigned>(random() % 4), core.queue = 1 + static_cast<unsigned>(random() % 64);
  core.decoupled = random() % 2 == 0, core.chaining = random() % 2 == 0, core.by_vl = random() % 2 == 0;
  core.write_order = random() % 2 == 0 ? WriteOrder::ordered : WriteOrder::waits;
  core.bubble = static_cast<Ticks>(random() % 3) * cycle;
  for (unsigned kind = 0; kind < 3; ++kind) core.pipes[kind] = static_cast<std::uint8_t>(1 + random() % 8);
  Pipeline pipeline(InstructionSet::standard(), core);
  Profile profile;
  Log log(random() % 600);
  Intervals intervals(random() % 600, {0x10000, 0x10010, 0x10080});
  pipeline.watch(profile), pipeline.watch(log), pipeline.watch(intervals);
  const Stop stop = process.run(limit, &pipeline);
  std::int64_t cycles = 0;
  for (const Profile::Row& row : profile.rows()) cycles += row.cycles;
  if (cycles != pipeline.drain()) throw std::logic_error("cycles by address do not add up to the run's");
  return stop;
}

inline const char* runs(Random& random) {
  std::string code;
  const auto add = [&](std::uint32_t bits) {
    code.append(reinterpret_cast<const char*>(&bits), (bits & 3) == 3 ? 4 : 2);
  };
  for (int i = 0; i < 60; ++i) {
    if (random() % 4 == 0) add(0xC0057057U | static_cast<std::uint32_t>(random() % 32) << 15 | (random() & 0xFF) << 20);
    add(drawn(random));
  }
  Image image;
  image.entry = 0x10000;
  image.segments.push_back(
      {0x10000, code, code.size() + random() % 100000, static_cast<std::uint8_t>(5 + random() % 3)});
  if (random() % 8 == 0) image.segments.push_back({random() >> random() % 64, code, random() >> random() % 64, 3});
  try {
    Process process(InstructionSet::standard(), 128U << random() % 6, image, {"", random(), false, "some input"});
    process.start({"name", "argument"});
    for (unsigned i = 1; i < 32; ++i) {
      if (i != 2) process.hart.x[i] = random() % 3 == 0 ? random() : 0x10000 + (random() & 0x1FF8);
      process.hart.f[i] = random() | (random() % 2 == 0 ? 0 : ~std::uint64_t{0} << 32);
    }
    if (random() % 4 == 0) process.make_bare(0x10800);
    if (random() % 4 == 0) set_ones(process.hart.v, true);
    Npu npu(arrays(random));
    if (random() % 2 == 0) process.hart.npu = &npu;
    const Stop stop = watched(process, random);
    return stop.kind == Stop::trapped ? cause_text(stop.trap.cause) : stop.kind == Stop::limit ? "limit" : "ended";
  } catch (const UserError&) {
    return "no program";
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
}

/// How often each outcome came in so many rounds.
inline std::map<std::string, long> outcomes(long rounds, std::uint64_t seed) {
  Random random(seed);
  std::map<std::string, long> all;
  for (long i = 0; i < rounds; ++i) ++all[i % 2 == 0 ? assembles(random) : runs(random)];
  return all;
}

}  // namespace fuzz
