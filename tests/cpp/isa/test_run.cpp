#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/table/encoding.hpp"
#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/disassemble.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

struct Loaded {
  explicit Loaded(const std::string& text, std::shared_ptr<const InstructionSet> of = InstructionSet::standard())
      : set(std::move(of)), hart(set, 128) {
    const Assembled made = assemble(*set, text, base);
    memory.add(base, base + 0x2000, readable | writable | executable, "text");
    memory.place(base, made.bytes.data(), made.bytes.size());
    hart.pc = base;
    labels = made.labels;
  }
  static constexpr Address base = 0x10000;
  std::shared_ptr<const InstructionSet> set;
  Memory memory;
  Hart hart;
  std::map<std::string, std::uint64_t> labels;
};

class Trace : public Observer {
 public:
  explicit Trace(const InstructionSet& set) : set_(set) {}
  void issue(const Op& op, const Hart& before) override {
    texts.push_back(disassemble(set_, op.bits));
    registers.push_back(before.x[10]);
  }
  std::vector<std::string> texts;
  std::vector<std::uint64_t> registers;

 private:
  const InstructionSet& set_;
};

const char* loop = "li a0, 3\nloop: addi a0, a0, -1\nbnez a0, loop\nebreak";

}  // namespace

BOOST_AUTO_TEST_SUITE(run)

BOOST_AUTO_TEST_CASE(an_observer_sees_each_instruction_before_it_happens) {
  Loaded m(loop);
  Trace trace(*m.set);
  const Stop stop = m.hart.run(m.memory, 1000, &trace);
  BOOST_TEST(static_cast<int>(stop.trap.cause) == static_cast<int>(Cause::breakpoint));
  const std::vector<std::uint64_t> wanted{0, 3, 2, 2, 1, 1, 0, 0};
  BOOST_TEST(trace.registers == wanted, boost::test_tools::per_element());
  BOOST_TEST(trace.texts[1] == "addi a0, a0, -1");
  BOOST_TEST(m.hart.instret == 7U);  // the breakpoint does not retire
}

BOOST_AUTO_TEST_CASE(a_limit_stops_anywhere_and_the_run_goes_on) {
  Loaded whole(loop);
  whole.hart.run(whole.memory, 1000);
  for (std::uint64_t step = 1; step < 8; ++step) {
    Loaded m(loop);
    Stop stop{};
    do stop = m.hart.run(m.memory, step);
    while (stop.kind == Stop::limit);
    BOOST_TEST(m.hart.instret == whole.hart.instret);
    BOOST_TEST(stop.pc == Loaded::base + 12);
  }
}

BOOST_AUTO_TEST_CASE(changed_code_is_seen_after_a_fence) {
  // the second `addi a0, a0, 1` becomes `addi a0, a0, 5`
  const char* text =
      "la t0, spot\nla t1, other\nlw t2, 0(t1)\ncall f\nsw t2, 0(t0)\nfence.i\ncall f\nebreak\n"
      "f: nop\nspot: addi a0, a0, 1\nret\nother: addi a0, a0, 5";
  Loaded m(text);
  m.hart.run(m.memory, 1000);
  BOOST_TEST(m.hart.x[10] == 6U);
}

BOOST_AUTO_TEST_CASE(the_callers_float_environment_stays) {
  Loaded m(
      "fsrmi: li t0, 1\nfsrm t0\nli t1, 3\nfcvt.d.l fa0, t1\nli t2, 1\nfcvt.d.l fa1, t2\nfdiv.d fa2, fa1, fa0\nebreak");
  volatile double one = 1, three = 3;
  const double before = one / three;
  m.hart.run(m.memory, 1000);
  BOOST_TEST(one / three == before);
  BOOST_TEST(int{m.hart.fflags} == int{inexact});
  BOOST_TEST(static_cast<int>(m.hart.frm) == 1);
}

BOOST_AUTO_TEST_CASE(an_instruction_of_a_user) {
  Declarations table;
  InstructionInfo& mine = table("my.triple", "rd, rs1", with12(0x0B, 1, 0), "integer", nullptr, "Three times.");
  mine.meaning = std::make_shared<const Meaning>([](Hart& h, const Op& o) { h.x[o.rd] = 3 * h.x[o.rs1]; });
  Loaded m("li a1, 14\nmy.triple a0, a1\nmy.triple zero, a1\nebreak", InstructionSet::standard()->extend(mine));
  m.hart.run(m.memory, 1000);
  BOOST_TEST(m.hart.x[10] == 42U);
  BOOST_TEST(m.hart.x[0] == 0U);
}

BOOST_AUTO_TEST_CASE(memory_is_cut_grown_and_protected) {
  Memory memory;
  memory.add(0x1000, 0x9000, readable | writable, "whole");
  BOOST_CHECK_THROW(memory.add(0x8000, 0xA000, readable, "over"), UserError);
  memory.store<std::uint64_t>(0x2FFC, 0x1122334455667788);  // over the end of a page
  BOOST_TEST(memory.load<std::uint64_t>(0x2FFC) == 0x1122334455667788U);
  memory.protect(0x3000, 0x4000, readable);
  BOOST_CHECK_THROW(memory.store<std::uint64_t>(0x2FFC, 0), Trap);
  BOOST_TEST(memory.load<std::uint64_t>(0x2FFC) == 0x1122334455667788U);  // nothing was written
  memory.remove(0x5000, 0x6000);
  BOOST_CHECK_THROW(memory.load<std::uint8_t>(0x5000), Trap);
  BOOST_TEST(memory.gap(0x1000, 0x9000, 0x1000) == 0x5000U);
  BOOST_TEST(memory.gap(0x1000, 0x9000, 0x2000) == 0U);
  memory.grow(0x6000, 0xB000);
  memory.store<std::uint8_t>(0xAFFF, 7);
  BOOST_TEST(memory.load<std::uint8_t>(0xAFFF) == 7);
  BOOST_TEST(memory.regions().size() == 4U);
}

BOOST_AUTO_TEST_SUITE_END()
