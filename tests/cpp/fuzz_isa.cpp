// Assembles damaged text and runs random code for so many rounds: `fuzz_isa ROUNDS [SEED]`. Built with sanitizers, it
// shows what assembler, interpreter and pipeline do beside throwing; it prints how often each outcome came.
#include "isa/fuzz.hpp"

#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {
  const long rounds = count > 1 ? std::atol(arguments[1]) : 1000;
  const auto seed = count > 2 ? static_cast<std::uint64_t>(std::atol(arguments[2])) : 1;
  for (const auto& [outcome, times] : fuzz::outcomes(rounds, seed)) std::printf("%8ld %s\n", times, outcome.c_str());
}
