// A model of kernels behind a book of latencies, against programs that declare the same times.
#include <boost/test/unit_test.hpp>

#include "engine/programs.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

/// Twice what an opaque compute declares; none for those of unit "second" where so.
class DoubledKernels final : public LatencyModel {
 public:
  DoubledKernels(bool refuses, int& asked) : refuses_(refuses), asked_(asked) {}
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& d, const History&, const ComputeSource& source) override {
    ++asked_;
    const TileCompute compute = source.compute();
    const Opaque& opaque = std::get<Opaque>(compute);
    BOOST_TEST(opaque.cycles == d.duration);
    BOOST_TEST(signature_of(compute) == d.signature);
    if (refuses_ && opaque.target == "second") throw Unsupported({"no kernel of second", {}, {}, {}, {}});
    const std::int64_t cycles = 2 * opaque.cycles;
    return {cycles, cycles, cycles, cycles, cycles, "doubled"};
  }
  std::string_view name() const override { return instruction_source; }

 private:
  bool refuses_;
  int& asked_;
};

Result with_kernels(const program::Program& program, const std::shared_ptr<LatencyBook>& book, bool refuses,
                    int& asked) {
  SimulateOptions options;
  options.latencies = book;
  options.kernels = [&asked, refuses](const Machine&) { return std::make_unique<DoubledKernels>(refuses, asked); };
  return simulate(program, plain_machine(), options);
}

std::shared_ptr<LatencyBook> empty_book(std::string_view source) {
  return std::make_shared<LatencyBook>(std::string(source));
}

bool says(const Result& result, const std::string& text) {
  for (const std::string& line : result.approximations)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_latencies)

BOOST_AUTO_TEST_CASE(times_are_the_kernels) {
  int asked = 0;
  const auto book = empty_book(instruction_source);
  const Result found = with_kernels(pipeline(6, 7, 11, 2), book, false, asked);
  BOOST_TEST(found.cycles == simulate(pipeline(6, 14, 22, 2), plain_machine()).cycles);
  BOOST_TEST(asked == 2);  // once for each compute
  BOOST_TEST(book->entries().size() == 2U);
  std::int64_t executions = 0;
  for (const auto& [compute, count] : book->counts) executions += count;
  BOOST_TEST(executions == 12);
  BOOST_TEST(with_kernels(pipeline(6, 7, 11, 2), book, false, asked).cycles == found.cycles);
  BOOST_TEST(asked == 2);  // the second run finds all of it in the book
}

BOOST_AUTO_TEST_CASE(what_is_refused_takes_the_closed_form_and_is_told) {
  int asked = 0;
  const auto book = empty_book(instruction_source);
  const Result found = with_kernels(pipeline(6, 7, 11, 2), book, true, asked);
  BOOST_TEST(found.cycles == simulate(pipeline(6, 14, 11, 2), plain_machine()).cycles);
  BOOST_TEST(book->refused.size() == 1U);
  BOOST_TEST(says(found, "closed forms for 1 without a kernel"));
  BOOST_TEST(says(found, "no kernel of second"));
}

BOOST_AUTO_TEST_CASE(other_books_never_ask_kernels) {
  int asked = 0;
  const std::int64_t plain = simulate(pipeline(6, 7, 11, 2), plain_machine()).cycles;
  BOOST_TEST(with_kernels(pipeline(6, 7, 11, 2), empty_book("closed form"), false, asked).cycles == plain);
  BOOST_TEST(with_kernels(pipeline(6, 7, 11, 2), nullptr, false, asked).cycles == plain);
  BOOST_TEST(asked == 0);
}

BOOST_AUTO_TEST_SUITE_END()
