// Allocates registers of kernels: vector groups of one size, and pointers.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace tilesim::isa {

/// Thrown if a kernel of this shape needs too many registers.
struct OutOfRegisters {};

/// Allocates groups of 2^lmul vector registers; v0 is reserved for masks.
class RegisterGroups {
 public:
  explicit RegisterGroups(int lmul) : lmul_(lmul), free_(32U >> lmul, true) {}
  /// Throws OutOfRegisters if no group is free.
  unsigned take() {
    for (std::size_t i = 1; i < free_.size(); ++i)
      if (free_[i]) return free_[i] = false, static_cast<unsigned>(i << lmul_);
    throw OutOfRegisters{};
  }
  void give(unsigned reg) { free_[reg >> lmul_] = true; }

 private:
  int lmul_;
  std::vector<bool> free_;
};

/// x registers for addresses of operands, in order.
inline constexpr std::array<unsigned, 13> pointer_registers{10, 11, 12, 13, 16, 17, 28, 29, 30, 31, 8, 9, 5};

}  // namespace tilesim::isa
