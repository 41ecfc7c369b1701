#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/table/encoding.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

InstructionInfo made(const char* name, const char* operands, Encoding encoding) {
  Declarations table;
  return table(name, operands, encoding, "integer", run_illegal, "Of a test.");
}

std::string refusal(const std::vector<InstructionInfo>& entries) {
  try {
    const InstructionSet set(entries);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(overlapping_encodings_are_refused_by_name) {
  const auto first = made("one", "rd, rs1, rs2", with7(0x0B, 1, 3));
  BOOST_TEST(refusal({first}).empty());
  // the same, a wider one, and one that only shares some codes
  BOOST_TEST(says(refusal({first, made("two", "rd, rs1, rs2", with7(0x0B, 1, 3))}), "'two' and 'one' overlap"));
  BOOST_TEST(says(refusal({first, made("wide", "rd, rs1", with3(0x0B, 1))}), "'wide' and 'one'"));
  BOOST_TEST(says(refusal({first, made("part", "rd, rs1", opcode(0x0B) | field(31, 25, 3))}), "'part' and 'one'"));
  BOOST_TEST(refusal({first, made("beside", "rd, rs1, rs2", with7(0x0B, 1, 2))}).empty());
  BOOST_TEST(refusal({first, made("beside", "rd, rs1, rs2", with7(0x0B, 2, 3))}).empty());
}

BOOST_AUTO_TEST_CASE(names_and_operands_are_checked) {
  const auto first = made("one", "rd, rs1, rs2", with7(0x0B, 1, 3));
  BOOST_TEST(says(refusal({first, made("one", "rd, rs1, rs2", with7(0x0B, 2, 3))}), "have one name"));
  BOOST_TEST(says(refusal({made("over", "rd, rs1, i12", with7(0x0B, 1, 3))}), "lies in its code"));
  BOOST_TEST(says(refusal({made("twice", "rd, rs1, rs1", with7(0x0B, 1, 3))}), "lies in its code"));
  BOOST_CHECK_THROW(InstructionSet({made("odd", "rd, what", with3(0x0B, 1))}), InternalError);
}

BOOST_AUTO_TEST_CASE(every_code_of_the_table_decodes_to_itself) {
  const auto set = InstructionSet::standard();
  BOOST_TEST(set->all().size() > 300U);
  std::uint32_t state = 1;
  for (const InstructionInfo& info : set->all()) {
    BOOST_TEST(set->named(info.name) == &info);
    BOOST_TEST(!info.description.empty());
    BOOST_TEST(!info.timing.empty());
    for (int i = 0; i < 20; ++i) {
      state = state * 1664525 + 1013904223;
      const std::uint32_t used = info.is(is_compressed) ? 0xFFFF : 0xFFFFFFFF;
      const std::uint32_t bits = (info.encoding.match | (state & ~info.encoding.mask)) & used;
      if (info.is(is_compressed) && !operands_fit(set->parts(set->id(info)), bits)) continue;
      BOOST_TEST(set->find(bits) == &info, info.name);
      std::uint32_t back = info.encoding.match;
      for (const OperandPart& part : set->parts(set->id(info)))
        if (part.word != nullptr) back |= operand_bits(*part.word, operand_value(*part.word, bits));
      std::uint32_t known = info.encoding.mask;
      for (const OperandPart& part : set->parts(set->id(info)))
        if (part.word != nullptr) known |= operand_mask(*part.word);
      BOOST_TEST(back == (bits & known), info.name);
      BOOST_TEST((known & used) == used, info.name);  // no bit that nobody looks at
    }
  }
}

BOOST_AUTO_TEST_CASE(extending_makes_another_set) {
  const auto set = InstructionSet::standard();
  const auto more = set->extend(made("my.add", "rd, rs1, rs2", with7(0x0B, 1, 3)));
  BOOST_TEST(set->named("my.add") == nullptr);
  BOOST_TEST(more->named("my.add") != nullptr);
  BOOST_TEST(more->all().size() == set->all().size() + 1);
  BOOST_CHECK_THROW(set->extend(made("my.add", "rd, rs1, rs2", with7(op_reg, 0, 0))), UserError);  // add's code
}

BOOST_AUTO_TEST_SUITE_END()
