// Assembles damaged text and runs random code for so many rounds: `fuzz_isa ROUNDS [SEED]`. Built with sanitizers, it
// shows what assembler and interpreter do beside throwing; it prints how often each outcome came.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/run/process.hpp"
#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace {

using namespace tilesim;
using namespace tilesim::isa;

using Random = std::mt19937_64;

const InstructionSet& table() { return *InstructionSet::standard(); }

/// Bits of an instruction of the table, or none at all.
std::uint32_t drawn(Random& random) {
  if (random() % 16 == 0) return static_cast<std::uint32_t>(random());
  const auto all = table().all();
  const InstructionInfo& info = all[random() % all.size()];
  return info.encoding.match | (static_cast<std::uint32_t>(random()) & ~info.encoding.mask);
}

std::string text_of(Random& random) {
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

const char* assembles(Random& random) {
  try {
    assemble(table(), text_of(random), 0x10000);
    return "assembled";
  } catch (const UserError&) {
    return "refused";
  }
}

const char* runs(Random& random) {
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
    const Stop stop = process.run(500);
    return stop.kind == Stop::trapped ? cause_text(stop.trap.cause) : stop.kind == Stop::limit ? "limit" : "ended";
  } catch (const UserError&) {
    return "no program";
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long rounds = count > 1 ? std::atol(arguments[1]) : 1000;
  Random random(count > 2 ? static_cast<std::uint64_t>(std::atol(arguments[2])) : 1);
  std::map<std::string, long> outcomes;
  for (long i = 0; i < rounds; ++i) ++outcomes[i % 2 == 0 ? assembles(random) : runs(random)];
  for (const auto& [outcome, times] : outcomes) std::printf("%8ld %s\n", times, outcome.c_str());
}
