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
#include "tilesim/isa/state/transfer.hpp"
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
                                      ".option norvc\n",
                                      "1: j 1b\n",
                                      "la a0, 1f\n1:\n",
                                      ".equ n, -3*(4+~5)<<2\n",
                                      "li a0, n|'\\n'\n",
                                      "lui a0, %hi(loop+4)\n",
                                      "2: auipc a0, %pcrel_hi(loop)\nlw a1, %pcrel_lo(2b)(a0)\n",
                                      ".float 1.5e-9, 0x1p3, nan\n",
                                      "vmsge.vx v1, v2, a0, v0.t, v3\n"};
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
  spec.load_queues = 1 + static_cast<unsigned>(random() % 2), spec.store_queues = 1;
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
    Process process(InstructionSet::standard(), 128U << random() % 6, image, {"", random(), {}, "some input"});
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

/// A number near what a transfer may hold, or any.
inline std::uint64_t edge(Random& random) {
  static constexpr std::uint64_t edges[] = {0,
                                            1,
                                            2,
                                            3,
                                            8,
                                            63,
                                            64,
                                            4095,
                                            4096,
                                            0x20000,
                                            0x20FF8,
                                            0x7FFFFFFF,
                                            0x80000000,
                                            ~0ULL,
                                            ~0ULL - 7,
                                            1ULL << 63,
                                            (1ULL << 63) - 1};
  return random() % 3 == 0 ? random() >> random() % 64 : edges[random() % std::size(edges)];
}

/// Mostly a small transfer inside the program's memory, with some fields damaged.
inline TransferDescriptor descriptor(Random& random) {
  TransferDescriptor t;
  t.outside = 0x20000 + random() % 4096, t.inside = 0x22000 + random() % 4096;
  t.element_bytes = 1U << random() % 4, t.dims = static_cast<std::uint32_t>(random() % 7);
  t.fill = random(), t.flags = static_cast<std::uint32_t>(random() % 4);
  if (random() % 3 == 0) t.rows = 0x24000 + random() % 64, t.row_dim = static_cast<std::uint32_t>(random() % 6);
  for (TransferDim& dim : t.dim) {
    dim.extent = random() % 5, dim.first = static_cast<std::int64_t>(random() % 7) - 3;
    dim.bound = static_cast<std::int64_t>(random() % 8);
    dim.outside_step = static_cast<std::int64_t>(random() % 64) - 16, dim.inside_step = t.element_bytes;
  }
  for (std::uint64_t damaged = random() % 3; damaged > 0; --damaged) {
    TransferDim& dim = t.dim[random() % most_transfer_dims];
    const std::uint64_t value = edge(random);
    switch (random() % 9) {
      case 0:
        t.outside = value;
        break;
      case 1:
        t.inside = value;
        break;
      case 2:
        t.rows = value;
        break;
      case 3:
        t.element_bytes = static_cast<std::uint32_t>(value);
        break;
      case 4:
        t.dims = static_cast<std::uint32_t>(value);
        break;
      case 5:
        dim.outside_step = static_cast<std::int64_t>(value);
        break;
      case 6:
        dim.first = static_cast<std::int64_t>(value);
        break;
      case 7:
        dim.bound = static_cast<std::int64_t>(value);
        break;
      // an extent is kept small: billions of steps are legal, and take as long as they take
      default:
        dim.extent = value % 512;
    }
  }
  return t;
}

/// Transfers by descriptors, waited for or not, timed or not.
inline const char* moves(Random& random) {
  std::string code;
  const auto add = [&](const char* name, std::uint32_t rd, std::uint32_t rs1, std::uint32_t rs2) {
    const std::uint32_t queue = random() % 8 == 0 ? static_cast<std::uint32_t>(random() % 128) : random() % 2;
    const std::uint32_t bits = table().named(name)->encoding.match | rd << 7 | rs1 << 15 | rs2 << 20 | queue << 25;
    code.append(reinterpret_cast<const char*>(&bits), 4);
  };
  constexpr std::uint32_t tickets = 5, first = 10;
  for (std::uint32_t i = 0; i < 4; ++i) {
    add("ts.move", tickets + i, first + i, random() % 4 == 0 ? 20 : 0);
    if (random() % 2 == 0) add("ts.move.wait", 0, random() % 3 == 0 ? 0 : tickets + i, 0);
    if (random() % 2 == 0) add("ts.move.done", 21, random() % 5 == 0 ? 20 : tickets + i, 0);
  }
  Image image;
  image.entry = 0x10000;
  image.segments.push_back({0x10000, code, 4096, 5});
  image.segments.push_back({0x20000, "", 0x8000, 3});
  Process process(InstructionSet::standard(), 256, image, {});
  process.start({"name"});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const TransferDescriptor t = descriptor(random);
    const Address at = 0x26000 + 512 * i;
    process.memory.place(at, &t, sizeof(t));
    process.hart.x[first + i] = random() % 16 == 0 ? edge(random) : at;
  }
  process.hart.x[20] = edge(random);
  Npu npu(arrays(random));
  process.hart.npu = &npu;
  const Stop stop = watched(process, random);
  return stop.kind == Stop::trapped && stop.pc < 0x10000 + code.size() ? "transfers trapped" : "transfers over";
}

/// How often each outcome came in so many rounds.
inline std::map<std::string, long> outcomes(long rounds, std::uint64_t seed) {
  Random random(seed);
  std::map<std::string, long> all;
  for (long i = 0; i < rounds; ++i) ++all[i % 2 == 0 ? assembles(random) : i % 4 == 1 ? runs(random) : moves(random)];
  return all;
}

}  // namespace fuzz
