#include "tilesim/isa/table/instruction_set.hpp"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstdio>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa {

namespace {

constexpr std::uint32_t bucket_count = 1U << 14;

/// Hash of opcode without its two low bits, funct3 and funct6, which distinguish most instructions.
constexpr std::uint32_t bucket(std::uint32_t bits) {
  return (bits >> 2 & 31) | (bits >> 12 & 7) << 5 | bits >> 26 << 8;
}

std::string hex(std::uint32_t bits) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08X", bits);
  return text.data();
}

bool overlap(const Encoding& a, const Encoding& b) { return ((a.match ^ b.match) & a.mask & b.mask) == 0; }

void refuse_overlap(const InstructionInfo& a, const InstructionInfo& b) {
  throw UserError({"the encodings of '" + a.name + "' and '" + b.name + "' overlap",
                   {},
                   hex(a.encoding.match) + " / " + hex(a.encoding.mask) + " and " + hex(b.encoding.match) + " / " +
                       hex(b.encoding.mask),
                   "codes that no other instruction uses; '" + b.name + "' is of " + b.extension,
                   {}});
}

}  // namespace

InstructionSet::InstructionSet(std::vector<InstructionInfo> entries) : entries_(std::move(entries)) {
  require(entries_.size() < 0xFFFF, "an instruction set holds fewer than 65,535 instructions");
  buckets_.assign(bucket_count, {});
  compressed_.assign(1 << 16, 0xFFFF);
  for (const InstructionInfo& entry : entries_) parts_.push_back(operand_parts(entry.operands));
  for (std::uint16_t id = 0; id < entries_.size(); ++id) check(id);
  for (std::uint16_t id = 0; id < entries_.size(); ++id) index(id);
}

void InstructionSet::check(std::uint16_t id) const {
  const InstructionInfo& entry = entries_[id];
  const bool wide = (entry.encoding.match & 3) == 3;
  const std::uint32_t low = 3, used = wide ? 0xFFFFFFFF : 0xFFFF;
  if ((entry.encoding.mask & low) != low || (entry.encoding.match & ~entry.encoding.mask) != 0 ||
      (entry.encoding.mask & ~used) != 0 || wide == entry.is(is_compressed))
    throw UserError({"the encoding of '" + entry.name + "' is none", {}, hex(entry.encoding.match), "", {}});
  std::uint32_t taken = entry.encoding.mask;
  for (const OperandPart& part : parts_[id]) {
    if (part.word == nullptr) continue;
    const std::uint32_t bits = operand_mask(*part.word);
    if ((bits & taken) != 0)
      throw UserError(
          {"an operand of '" + entry.name + "' lies in its code", {}, std::string(part.word->word), "", {}});
    taken |= bits;
  }
}

void InstructionSet::index(std::uint16_t id) {
  const InstructionInfo& entry = entries_[id];
  if (!names_.emplace(entry.name, id).second)
    throw UserError({"two instructions have one name", {}, entry.name, "unique names", {}});
  if (entry.is(is_compressed)) {
    for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) {
      if ((bits & entry.encoding.mask) != entry.encoding.match || !operands_fit(parts_[id], bits)) continue;
      if (compressed_[bits] != 0xFFFF) refuse_overlap(entry, entries_[compressed_[bits]]);
      compressed_[bits] = id;
    }
    return;
  }
  const std::uint32_t key = bucket(entry.encoding.match), known = bucket(entry.encoding.mask);
  const std::uint32_t free = ~known & (bucket_count - 1);
  for (std::uint32_t part = free;; part = (part - 1) & free) {
    for (const std::uint16_t other : buckets_[key | part])
      if (overlap(entry.encoding, entries_[other].encoding)) refuse_overlap(entry, entries_[other]);
    buckets_[key | part].push_back(id);
    if (part == 0) break;
  }
}

std::shared_ptr<const InstructionSet> InstructionSet::extend(InstructionInfo added) const {
  require(entries_.size() < 0xFFFE, "an instruction set holds fewer than 65,535 instructions");
  auto wider = std::make_shared<InstructionSet>(*this);
  const auto id = static_cast<std::uint16_t>(entries_.size());
  wider->parts_.push_back(operand_parts(added.operands));
  wider->entries_.push_back(std::move(added));
  wider->check(id);
  wider->index(id);
  return wider;
}

const InstructionInfo* InstructionSet::find(std::uint32_t bits) const {
  if ((bits & 3) != 3) {
    const std::uint16_t id = compressed_[bits & 0xFFFF];
    return id == 0xFFFF ? nullptr : &entries_[id];
  }
  for (const std::uint16_t id : buckets_[bucket(bits)])
    if ((bits & entries_[id].encoding.mask) == entries_[id].encoding.match) return &entries_[id];
  return nullptr;
}

Op InstructionSet::decode(std::uint32_t bits, std::uint64_t pc) const {
  Op op;
  const bool wide = (bits & 3) == 3;
  op.bits = wide ? bits : bits & 0xFFFF;
  op.length = wide ? 4 : 2;
  op.pc = pc;
  op.run = run_illegal;
  op.id = 0xFFFF;
  if (const InstructionInfo* found = find(bits); found != nullptr) {
    op.id = id(*found);
    fill_operands(parts_[op.id], op.bits, op);
    if (found->is(is_vector)) op.rm = found->is(never_masked) ? 1 : op.bits >> 25 & 1;  // 1 if `vm` is part of the code
    op.run = found->is(is_vector) && found->execute == nullptr ? run_vector
             : found->meaning                                  ? run_meaning
                                                               : found->execute;
  }
  return op;
}

const InstructionInfo* InstructionSet::named(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &entries_[found->second];
}

const InstructionInfo* InstructionSet::taken_for(Function function) const {
  // added instructions follow the table's
  for (auto entry = entries_.rbegin(); entry != entries_.rend() && entry->replaces; ++entry)
    if (const auto& of = entry->replaces->functions; std::find(of.begin(), of.end(), function) != of.end())
      return &*entry;
  return nullptr;
}

std::shared_ptr<const InstructionSet> InstructionSet::standard() {
  static const std::shared_ptr<const InstructionSet> set = [] {
    Declarations table;
    for (const auto declare : {declare_base, declare_multiply, declare_atomic, declare_float, declare_system,
                               declare_compressed, declare_bits, declare_vector, declare_npu})
      declare(table);
    return std::make_shared<const InstructionSet>(std::move(table.entries));
  }();
  return set;
}

const char* unit_name(Unit unit) {
  static const char* const names[] = {"scalar",  "load",       "store",  "arithmetic",
                                      "special", "cross-lane", "matrix", "control"};
  return names[static_cast<std::size_t>(unit)];
}

void run_illegal(Hart&, const Op& op) { illegal(op, "no such instruction"); }

void run_meaning(Hart& hart, const Op& op) {
  hart.flags();
  std::fesetround(FE_TONEAREST);  // the user's function may change the rounding mode
  (*hart.set().info(op.id).meaning)(hart, op);
  std::feclearexcept(FE_ALL_EXCEPT);
  hart.set_rounding(static_cast<unsigned>(hart.frm));
}

}  // namespace tilesim::isa
