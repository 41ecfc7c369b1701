#include "tilesim/isa/run/bare.hpp"

namespace tilesim::isa {

namespace {

constexpr unsigned mstatus = 0x300, misa = 0x301, mtvec = 0x305, mepc = 0x341, mcause = 0x342, mtval = 0x343;
constexpr unsigned mcycle = 0xB00, minstret = 0xB02;
// fields of mstatus (privileged architecture 1.12, section 3.1.6)
constexpr std::uint64_t mie = 1 << 3, mpie = 1 << 7, mpp = 3 << 11;

/// Registers that only hold the written value: sstatus … satp, medeleg … mcounteren, menvcfg, mscratch … mip, mnstatus.
constexpr unsigned plain[] = {0x100, 0x104, 0x105, 0x106, 0x140, 0x141, 0x142, 0x143, 0x144, 0x180,
                              0x300, 0x301, 0x302, 0x303, 0x304, 0x305, 0x306, 0x30A, 0x320, 0x340,
                              0x341, 0x342, 0x343, 0x344, 0x740, 0x741, 0x742, 0x744};

}  // namespace

Bare::Bare() {
  for (const unsigned number : plain) registers_[number] = 0;
  for (unsigned i = 0; i < 16; ++i) registers_[0x3A0 + i] = registers_[0x3B0 + i] = 0;    // pmpcfg, pmpaddr
  for (const unsigned number : {0xF11U, 0xF12U, 0xF13U, 0xF14U}) registers_[number] = 0;  // mvendorid … mhartid
  std::uint64_t letters = std::uint64_t{2} << 62;                                         // 64 bits
  for (const char letter : {'I', 'M', 'A', 'F', 'D', 'C', 'V', 'U'}) letters |= std::uint64_t{1} << (letter - 'A');
  registers_[misa] = letters;
}

void Bare::call(Hart&, const Op&) { throw Trap{machine_ ? Cause::call_from_machine : Cause::call_from_user, 0, ""}; }

bool Bare::trapped(Hart& hart, const Trap& trap, std::uint64_t pc) {
  if (trap.cause == Cause::no_memory) return false;  // a handler has no memory either
  const Address handler = registers_[mtvec] & ~Address{3};
  if (handler == 0 || pc == handler) return false;
  registers_[mepc] = pc;
  registers_[mcause] = static_cast<std::uint64_t>(trap.cause);
  registers_[mtval] = trap.value;
  std::uint64_t& status = registers_[mstatus];
  status = (status & ~(mpp | mpie | mie)) | (machine_ ? mpp : 0) | ((status & mie) != 0 ? mpie : 0);
  machine_ = true;
  hart.pc = handler;
  return true;
}

bool Bare::read_csr(Hart& hart, unsigned number, std::uint64_t& value) {
  if (!machine_ && (number >> 8 & 3) != 0) return false;
  if (number == mcycle || number == minstret) return value = hart.instret - 1, true;
  const auto found = registers_.find(number);
  if (found == registers_.end()) return false;
  value = found->second;
  return true;
}

bool Bare::write_csr(Hart&, unsigned number, std::uint64_t value) {
  if (!machine_ && (number >> 8 & 3) != 0) return false;
  if (number == mcycle || number == minstret || number == misa) return true;
  const auto found = registers_.find(number);
  if (found == registers_.end()) return false;
  found->second = number == mepc ? value & ~std::uint64_t{1} : value;
  return true;
}

bool Bare::privileged(Hart& hart, const Op& op) {
  constexpr std::uint32_t mret = 0x30200073, wfi = 0x10500073;
  if (op.bits == wfi) return machine_;
  if (op.bits != mret || !machine_) return false;
  std::uint64_t& status = registers_[mstatus];
  machine_ = (status & mpp) == mpp;
  status = (status & ~(mpp | mie)) | ((status & mpie) != 0 ? mie : 0) | mpie;
  hart.pc = registers_[mepc];
  return true;
}

}  // namespace tilesim::isa
