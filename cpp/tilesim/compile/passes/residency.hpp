// Keeps values in the scratchpads between the kernels that produce and read them.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/compile/passes/passes.hpp"

namespace tilesim::lower {

/// Bytes of a memory, the end not included.
struct Span { std::int64_t low = 0, high = 0; };

/// The longest stretch of `bytes` that no value takes which stays during a kernel of a body.
Span longest_gap(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t bytes);
Span longest_gap(std::vector<Span> taken, std::int64_t bytes);
/// What a kernel's tiles of `held` bytes have: where they fit, without what the kernel before still reads, which they
/// would wait for.
Span free_beside(const std::vector<Resident>& residents, const std::string& function, std::int64_t kernel,
                 std::int64_t held, std::int64_t bytes);

/// Decides which temporaries stay, where in the scratchpad, and which kernels get smaller tiles for them.
///
/// A value may stay whose accesses all lie in kernels of one body, with no call between them; on several cores, each
/// must read what it has stored itself. Values come in the order of the bytes of memory that they save per byte and
/// kernel. One stays where the tiles of all kernels meanwhile still fit beside it; else these kernels are lowered again
/// with what is left, and it stays only if that takes no longer by the closed forms.
void choose_residents(Lowering& lowering);

/// Where tiles of a kernel lie on bytes of a value that stayed until then, their first use waits for the value's last
/// reader, and a value's first store for kernels whose tiles lay there.
void keep_apart(Lowering& lowering);

/// Numbers kernels, loops of the graph and calls of a body, and nothing else in it.
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
