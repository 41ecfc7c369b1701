#include "tilesim/isa/table/reserved.hpp"

#include <array>

namespace tilesim::isa {

namespace {

/// A vector operand in the text: its word, its group rule, its register.
struct Held {
  const OperandWord* word = nullptr;
  Group group;
  unsigned number = 0;
};

const Held* unaligned(const std::array<Held, 3>& all) {
  for (const Held& one : all)
    if (one.word != nullptr && one.group.kind == Group::whole && one.number % (1U << one.group.scale) != 0) return &one;
  return nullptr;
}

/// Whether `d` in the registers of `s` would overwrite elements before they are read, for every LMUL.
bool always_loses(const InstructionInfo& info, const Group& d, const Group& s) {
  if (info.is(is_load | is_store)) return false;
  if (info.is(overlap_never)) return true;
  return d.kind == Group::group && s.kind == Group::group && d.scale > 0 && d.scale > s.scale;
}

/// Whether the instruction reads v0 as a mask, by vm or by name.
bool reads_mask(const InstructionSet& set, const InstructionInfo& info, std::uint32_t bits) {
  for (const OperandPart& part : set.parts(set.id(info))) {
    if (part.word == nullptr) continue;
    if (part.word->sort == Sort::masked && operand_value(*part.word, bits) == 0) return true;
    if (part.word->sort == Sort::fixed && fixed_name(*part.word) == "v0") return true;
  }
  return false;
}

}  // namespace

std::optional<ReservedRegister> reserved_register(const InstructionSet& set, const InstructionInfo& info,
                                                  std::uint32_t bits) {
  if (!info.is(is_vector)) return std::nullopt;
  std::array<Held, 3> held;  // vd, vs2, vs1
  const std::array<std::pair<Slot, Group>, 3> rules{
      {{slot_rd, info.groups.vd}, {slot_rs2, info.groups.vs2}, {slot_rs1, info.groups.vs1}}};
  for (const OperandPart& part : set.parts(set.id(info))) {
    if (part.word == nullptr || part.word->sort != Sort::v) continue;
    for (std::size_t i = 0; i < 3; ++i)
      if ((part.word->slots & rules[i].first) != 0)
        held[i] = {part.word, rules[i].second, static_cast<unsigned>(operand_value(*part.word, bits))};
  }
  if (const Held* one = unaligned(held); one != nullptr)
    return ReservedRegister{one->word, "a register group starts at a multiple of its size",
                            "multiples of " + std::to_string(1U << one->group.scale)};
  const Held& d = held[0];
  if (d.word == nullptr || d.group.kind == Group::none) return std::nullopt;
  for (const Held& s : {held[1], held[2]})
    if (s.word != nullptr && s.number == d.number && always_loses(info, d.group, s.group))
      return ReservedRegister{d.word, "the destination overlaps a source",
                              "another register than " + std::string(s.word->word)};
  const bool spared = info.is(is_store | scalar_destination) ||
                      (d.group.kind == Group::mask && !info.is(overlap_never));  // masks may overwrite masks
  if (d.number == 0 && !spared && reads_mask(set, info, bits))
    return ReservedRegister{d.word, "a masked instruction writes over its mask", "v1 to v31"};
  return std::nullopt;
}

}  // namespace tilesim::isa
