#include "tilesim/isa/state/csr.hpp"

#include <utility>

#include "tilesim/isa/state/npu.hpp"

namespace tilesim::isa {

namespace {

// Privileged architecture 1.12, tables 2.2 to 2.5; vector extension 1.0, table 3; from 0xCC0 on those of an NPU core.
constexpr std::pair<std::string_view, unsigned> names[] = {{"fflags", 0x001},        {"frm", 0x002},
                                                           {"fcsr", 0x003},          {"vstart", 0x008},
                                                           {"vxsat", 0x009},         {"vxrm", 0x00A},
                                                           {"vcsr", 0x00F},          {"sstatus", 0x100},
                                                           {"sie", 0x104},           {"stvec", 0x105},
                                                           {"sscratch", 0x140},      {"sepc", 0x141},
                                                           {"scause", 0x142},        {"stval", 0x143},
                                                           {"satp", 0x180},          {"mstatus", 0x300},
                                                           {"misa", 0x301},          {"medeleg", 0x302},
                                                           {"mideleg", 0x303},       {"mie", 0x304},
                                                           {"mtvec", 0x305},         {"mcounteren", 0x306},
                                                           {"mscratch", 0x340},      {"mepc", 0x341},
                                                           {"mcause", 0x342},        {"mtval", 0x343},
                                                           {"mip", 0x344},           {"pmpcfg0", 0x3A0},
                                                           {"pmpaddr0", 0x3B0},      {"mnstatus", 0x744},
                                                           {"cycle", 0xC00},         {"time", 0xC01},
                                                           {"instret", 0xC02},       {"vl", 0xC20},
                                                           {"vtype", 0xC21},         {"vlenb", 0xC22},
                                                           {"ts.scratchpad", 0xCC0}, {"ts.scratchpad_bytes", 0xCC1},
                                                           {"ts.lanes", 0xCC2},      {"ts.arrays", 0xCC3},
                                                           {"ts.rows", 0xCC4},       {"ts.columns", 0xCC5},
                                                           {"ts.core", 0xCC6},       {"ts.sequencer", 0xCC7},
                                                           {"mvendorid", 0xF11},     {"marchid", 0xF12},
                                                           {"mimpid", 0xF13},        {"mhartid", 0xF14}};

/// Properties for kernels: address and bytes of the scratchpad, lanes, arrays, rows, columns, core, sequencer.
std::uint64_t npu_csr(const NpuSpec& spec, unsigned number) {
  const std::uint64_t values[] = {scratchpad_base, spec.scratchpad_bytes, spec.lanes, spec.arrays,
                                  spec.rows,       spec.columns,          spec.core,  spec.sequencer};
  return values[number - 0xCC0];
}

}  // namespace

int csr_number(std::string_view name) {
  for (const auto& [text, number] : names)
    if (text == name) return static_cast<int>(number);
  return -1;
}

std::string_view csr_name(unsigned number) {
  for (const auto& [text, known] : names)
    if (known == number) return text;
  return {};
}

std::uint64_t read_csr(Hart& h, const Op& op, unsigned number) {
  switch (number) {
    case 0x001:
      return h.flags();
    case 0x002:
      return static_cast<unsigned>(h.frm);
    case 0x003:
      return h.flags() | static_cast<unsigned>(h.frm) << 5;
    case 0x008:
      return h.v.vstart;
    case 0x009:
      return h.v.vxsat;
    case 0x00A:
      return h.v.vxrm;
    case 0x00F:
      return h.v.vxsat | unsigned{h.v.vxrm} << 1;
    case 0xC20:
      return h.v.vl;
    case 0xC21:
      return h.v.vtype;
    case 0xC22:
      return h.v.vlenb;
    default:
      break;
  }
  if (h.npu != nullptr && number >= 0xCC0 && number <= 0xCC7) return npu_csr(h.npu->spec, number);
  std::uint64_t value = 0;
  if (h.environment != nullptr && h.environment->read_csr(h, number, value)) return value;
  // without the instruction that reads the counter
  if ((number == 0xC00 || number == 0xC01) && h.clock != nullptr && h.clock->cycles() >= 0) return h.cycles();
  if (number >= 0xC00 && number <= 0xC02) return h.instret - 1;
  illegal(op, "no such control register");
}

void write_csr(Hart& h, const Op& op, unsigned number, std::uint64_t value) {
  switch (number) {
    case 0x001:
      h.set_flags(value & 31);
      return;
    case 0x002:
      h.set_rounding(value & 7);
      return;
    case 0x003:
      h.set_flags(value & 31), h.set_rounding(value >> 5 & 7);
      return;
    case 0x008:
      set_vstart(h.v, value);
      return;
    case 0x009:
      h.v.vxsat = value & 1;
      return;
    case 0x00A:
      h.v.vxrm = value & 3;
      return;
    case 0x00F:
      h.v.vxsat = value & 1, h.v.vxrm = value >> 1 & 3;
      return;
    default:
      break;
  }
  if (number >> 10 == 3) illegal(op, "this control register cannot be written");
  if (h.environment == nullptr || !h.environment->write_csr(h, number, value)) illegal(op, "no such control register");
}

}  // namespace tilesim::isa
