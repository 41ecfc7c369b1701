// Keeps values in the scratchpads between the kernels that compute and read them.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/compile/passes/passes.hpp"

namespace tilesim::lower {

/// A range of bytes [low, high) of a memory.
struct Span { std::int64_t low = 0, high = 0; };

/// The longest range without resident values, in a memory of `bytes` bytes, during a kernel of a body.
Span longest_gap(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t bytes);
Span longest_gap(std::vector<Span> taken, std::int64_t bytes);
/// The range for a kernel's tiles of `held` bytes. If the tiles fit otherwise, the range excludes bytes that the
/// previous kernel still reads, because the tiles would have to wait.
Span free_beside(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t held, std::int64_t bytes);

/// Chooses the temporaries that stay on chip, their scratchpad addresses, and the kernels that get smaller tiles.
///
/// A value may stay if all its accesses are in kernels of one body without a call between them; with several cores,
/// each core must read only elements that it stored itself. Values are considered in order of memory bytes saved per
/// byte and kernel. A value stays if it fits beside the tiles of all kernels during its lifetime. Otherwise these
/// kernels are lowered again for the remaining space, and the value stays only if the closed forms predict no slowdown.
void choose_residents(Lowering& lowering);

/// Orders tiles and values that share bytes: the first use of a tile waits for the last reader of a value that was
/// there, and the first store of a value waits for kernels whose tiles were there.
void keep_apart(Lowering& lowering);

/// Visits the kernels, graph loops and calls of a body with their numbers, and no other statements.
template <class Statements, class Visit>
void for_each_kernel_of(Statements& body, const Visit& visit) {
  std::int64_t number = 0;
  for (auto& statement : body)
    if (std::holds_alternative<program::Scope>(statement.action) ||
        std::holds_alternative<program::Call>(statement.action) ||
        std::holds_alternative<program::For>(statement.action))
      visit(statement, number++);
}

}  // namespace tilesim::lower
