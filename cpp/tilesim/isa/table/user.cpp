#include "tilesim/isa/table/user.hpp"

#include <algorithm>
#include <array>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

constexpr std::array<std::string_view, 14> user_words{"rd",  "fd",  "vd",    "rs1",   "fs1", "vs1", "rs2",
                                                      "fs2", "vs2", "simm5", "zimm5", "vm",  "i12", "shamt5"};

Unit unit_named(const std::string& name) {
  for (const Unit unit : {Unit::scalar, Unit::load, Unit::store, Unit::arithmetic, Unit::special, Unit::cross_lane,
                          Unit::matrix, Unit::control})
    if (name == unit_name(unit)) return unit;
  throw InternalError("unknown unit " + name);
}

/// The slot of an operand word; empty for `vm`.
std::optional<UserOperand> passed(const OperandWord& word) {
  if (word.sort == Sort::masked) return std::nullopt;
  if (word.sort != Sort::x && word.sort != Sort::f && word.sort != Sort::v) return UserOperand{Sort::number, slot_imm};
  for (const Slot slot : {slot_rd, slot_rs1, slot_rs2, slot_rs3})
    if ((word.slots & slot) != 0) return UserOperand{word.sort, slot};
  return std::nullopt;
}

void check_words(const std::string& operands) {
  std::string word;
  for (const char c : operands + ",") {
    if (c == ' ') continue;
    if (c != ',') {
      word += c;
      continue;
    }
    bool known = word.empty();
    for (const std::string_view one : user_words) known = known || word == one;
    if (!known) throw UserError({"unknown operand", {}, word, "vd, vs2, vs1, vm, rd, rs1, ...", {}});
    word.clear();
  }
}

/// Whether both entries are one instruction that implements several functions.
bool same_instruction(const UserInstruction& a, const UserInstruction& b) {
  return a.declared_as(b) && a.meaning == b.meaning;
}

Meaning missing(const std::string& text, const std::string& function, const std::string& machine) {
  return [=](Hart&, const Op&) {
    throw UserError({"the semantics of this instruction are unknown: a machine's file has none",
                     machine + ": core.isa.functions: " + function, "'" + text + "'",
                     "an instruction from ts.isa.define",
                     "ts.isa.use(machine, function=\"" + function + "\", instruction=...) gives them again"});
  };
}

}  // namespace

UserEntry entry_of(const UserInstruction& from) {
  UserEntry entry;
  InstructionInfo& to = entry.info;
  to.name = from.name(), to.operands = from.operands();
  check_words(to.operands);
  to.encoding = {from.match, from.mask};
  to.extension = "custom";
  to.description = from.description;
  to.unit = unit_named(from.unit);
  to.custom =
      CustomTiming{from.per_register, from.whole, from.latency, from.custom ? from.custom->name : "", from.width};
  for (const OperandPart& part : operand_parts(to.operands)) {
    const std::optional<UserOperand> one = part.word == nullptr ? std::nullopt : passed(*part.word);
    if (!one) continue;
    const bool vector = one->sort == Sort::v, destination = one->slot == slot_rd;
    if (vector) {
      to.traits |= is_vector;
      Group& group = destination ? to.groups.vd : one->slot == slot_rs1 ? to.groups.vs1 : to.groups.vs2;
      group = {Group::group, 0};
    }
    if (destination) entry.writes = one;
    if (!destination || from.reads_old()) entry.takes.push_back(*one);
    if (destination && from.reads_old() && vector) to.traits |= reads_vd;
  }
  return entry;
}

std::shared_ptr<const InstructionSet> set_of(const Machine& machine) {
  std::shared_ptr<const InstructionSet> set = InstructionSet::standard();
  const UserInstructions& all = machine.core.isa.functions;
  for (const auto& [function, one] : all) {
    const auto is_same = [&](const auto& other) { return same_instruction(other.second, one); };
    if (std::find_if(all.begin(), all.find(function), is_same) != all.find(function)) continue;  // added already
    const std::string of(tilesim::info(function).name);
    UserEntry entry = entry_of(one);
    const auto* held = dynamic_cast<const HeldMeaning*>(one.meaning.get());
    entry.info.meaning =
        held != nullptr ? held->meaning : std::make_shared<const Meaning>(missing(one.text, of, machine.name));
    entry.info.replaces = Replaced{{}, parse_dtype(one.element)};
    for (const auto& [also, other] : all)
      if (same_instruction(other, one)) entry.info.replaces->functions.push_back(also);
    try {
      set = set->extend(std::move(entry.info));
    } catch (const UserError& error) {
      UserError::Parts parts = error.parts();
      if (parts.place.empty()) parts.place = machine.name + ": core.isa.functions: " + of;
      throw UserError(std::move(parts));
    }
  }
  return set;
}

}  // namespace tilesim::isa
