// A machine without an operating system: traps go to mtvec, and a store to `tohost` ends the run.
#pragma once

#include <map>

#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa {

/// The subset of the privileged architecture that the public unit tests need: machine and user mode. Registers of
/// delegation, protection and translation keep their values but have no effect.
class Bare : public Environment {
 public:
  Bare();
  void call(Hart& hart, const Op& op) override;
  bool trapped(Hart& hart, const Trap& trap, std::uint64_t pc) override;
  bool read_csr(Hart& hart, unsigned number, std::uint64_t& value) override;
  bool write_csr(Hart& hart, unsigned number, std::uint64_t value) override;
  bool privileged(Hart& hart, const Op& op) override;

 private:
  std::map<unsigned, std::uint64_t> registers_;
  bool machine_ = true;  ///< false: user mode
};

}  // namespace tilesim::isa
