#include "tilesim/isa/schedule/code.hpp"

#include <algorithm>
#include <array>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace tilesim::isa {

namespace {

constexpr std::int64_t branch_words = 1000;
bool small(std::int64_t value) { return value >= -2048 && value <= 2047; }

/// The value of vtype with tail- and mask-agnostic elements.
std::int64_t vtype_of(unsigned sew, int lmul) {
  const unsigned width = sew == 8 ? 0U : sew == 16 ? 1U : sew == 32 ? 2U : 3U;
  return 0xC0 | width << 3 | (static_cast<unsigned>(lmul) & 7);
}

/// log2 of SEW / LMUL plus a constant.
std::int64_t ratio(std::int64_t type) {
  const std::int64_t lmul = type & 7;
  return (type >> 3 & 7) - (lmul > 4 ? lmul - 8 : lmul);
}

}  // namespace

std::uint32_t Code::encode(const InstructionInfo& info, std::span<const std::int64_t> operands) const {
  std::uint32_t word = info.encoding.match;
  auto next = operands.begin();
  for (const OperandPart& part : set_.parts(set_.id(info))) {
    if (part.word == nullptr || part.word->slices.empty()) continue;
    const bool given = next != operands.end();
    require(given || part.word->standard >= 0, "an operand of a kernel's instruction is missing");
    word |= operand_bits(*part.word, given ? *next++ : part.word->standard);
  }
  require(next == operands.end(), "a kernel's instruction has too many operands");
  return word;
}

void Code::op(std::string_view name, const std::vector<std::int64_t>& operands) {
  const InstructionInfo* info = set_.named(name);
  if (info == nullptr) throw InternalError("a kernel asks for an unknown instruction: " + std::string(name));
  if (recorded_ != nullptr) return recorded_->push_back({info, operands, type_}), void();
  words_.push_back(encode(*info, operands));
}

void Code::put(const Written& written, const std::vector<std::int64_t>& operands, std::int64_t elements) {
  // loads and stores of their own width keep vtype if it has the same number of elements per register
  const GroupRule& rule = written.info->groups;
  const bool own_width = rule.vd.kind == Group::fixed && rule.vs1.kind == Group::none && rule.vs2.kind == Group::none;
  const bool stands = own_width && vl_ == elements && ratio(type_) == ratio(written.type);
  if (written.info->is(is_vector) && !stands) set_type(elements, written.type);
  words_.push_back(encode(*written.info, operands));
}

/// lui and addiw, then twelve bits at a time.
void Code::load_constant(unsigned x, std::int64_t value) {
  if (small(value)) return op("addi", {x, zero, value});
  if (value >= INT32_MIN && value <= INT32_MAX) {
    const std::int64_t low = (value << 52) >> 52;
    op("lui", {x, (value - low) >> 12 & 0xFFFFF});
    if (low != 0) op("addiw", {x, x, low});
    return;
  }
  const std::int64_t low = (value << 52) >> 52;
  // wraps modulo 2^64, as the instructions do
  load_constant(x,
                static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(low)) >> 12);
  op("slli", {x, x, 12});
  if (low != 0) op("addi", {x, x, low});
}

/// Writes auipc and addi, whose numbers `finish` fills in.
void Code::load_address(unsigned x, const std::vector<std::uint32_t>& words) {
  addresses_.push_back({words_.size(), data_.size()});
  op("auipc", {x, 0});
  op("addi", {x, x, 0});
  data_.insert(data_.end(), words.begin(), words.end());
}

/// A register that holds the constant during the whole kernel; 0: none is free.
unsigned Code::kept(std::int64_t value) {
  constexpr std::size_t most = 10;  // s2 to s11
  if (!constants_.contains(value) && constants_.size() < most)
    constants_.emplace(value, static_cast<unsigned>(s2 + constants_.size()));
  const auto found = constants_.find(value);
  return found == constants_.end() ? 0 : found->second;
}

void Code::add(unsigned to, unsigned from, std::int64_t by) {
  if (small(by)) return op("addi", {to, from, by});
  if (const unsigned constant = kept(by); constant != 0) return op("add", {to, from, constant});
  load_constant(t1, by);
  op("add", {to, from, t1});
}

void Code::set_vl(std::int64_t elements, unsigned sew, int lmul, bool stay) {
  const std::int64_t type = vtype_of(sew, lmul) & (stay ? ~0x80 : ~0);
  if (recorded_ != nullptr) return type_ = type, void();
  set_type(elements, type);
}

void Code::set_type(std::int64_t elements, std::int64_t type) {
  if (vl_ == elements && type_ == type) return;
  const bool same = vl_ == elements;
  vl_ = elements;
  const std::int64_t before = type_;
  type_ = type;
  // types with equal ratios of SEW to LMUL have equal vl
  if (same && ratio(before) == ratio(type)) return op("vsetvli", {zero, zero, type});
  if (elements < 32) return op("vsetivli", {zero, elements, type});
  unsigned count = small(elements) ? 0 : kept(elements);
  if (count == 0) load_constant(count = t2, elements);
  op("vsetvli", {zero, count, type});
}

void Code::begin_loop(unsigned counter, std::int64_t trips) {
  load_constant(counter, trips);
  forget_vl();
  open_.push_back(loops_.size());
  loops_.push_back({words_.size(), 0, static_cast<std::uint8_t>(counter)});
}

/// Bodies beyond a branch's reach use a jump.
void Code::end_loop() {
  KernelLoop& loop = loops_[open_.back()];
  open_.pop_back();
  op("addi", {loop.counter, loop.counter, -1});
  const std::int64_t back = 4 * (static_cast<std::int64_t>(loop.begin) - static_cast<std::int64_t>(words_.size()));
  if (-back < 4 * branch_words) {
    op("bne", {loop.counter, zero, back});
  } else {
    op("beq", {loop.counter, zero, 8});
    if (4 - back > 1 << 20)
      throw Unsupported({"the kernel's loop is too long for a jump", {}, std::to_string(-back) + " bytes", {}, {}});
    op("jal", {zero, back - 4});
  }
  loop.end = words_.size() - 1;
  forget_vl();
}

void Code::begin_piece() {
  outside_.swap(words_);
  words_.clear();
  forget_vl();
}

void Code::end_piece() {
  pieces_.push_back(std::move(words_));
  words_.swap(outside_);
  outside_.clear();
  forget_vl();
}

void Code::put(const Repeated& run) {
  const std::vector<std::uint32_t>& piece = pieces_[run.piece];
  if (run.times < 3) {
    for (std::int64_t i = 0; i < run.times; ++i) words_.insert(words_.end(), piece.begin(), piece.end());
    return;
  }
  begin_loop(a4, run.times);
  words_.insert(words_.end(), piece.begin(), piece.end());
  end_loop();
}

void Code::join(const std::vector<std::size_t>& order) {
  std::vector<Repeated> runs;
  for (const std::size_t piece : order) {
    if (!runs.empty() && runs.back().piece == piece)
      ++runs.back().times;
    else
      runs.push_back({piece, 1});
  }
  constexpr std::size_t longest = 16;
  for (std::size_t i = 0; i < runs.size();) {
    std::size_t best = 1, times = 1;
    for (std::size_t length = 2; length <= longest && i + length <= runs.size(); ++length) {
      std::size_t count = 1;
      while (i + (count + 1) * length <= runs.size() &&
             std::equal(runs.begin() + static_cast<std::ptrdiff_t>(i),
                        runs.begin() + static_cast<std::ptrdiff_t>(i + length),
                        runs.begin() + static_cast<std::ptrdiff_t>(i + count * length)))
        ++count;
      if (count >= 3 && count * length > best * times) best = length, times = count;
    }
    if (times > 1) begin_loop(a5, static_cast<std::int64_t>(times));
    for (std::size_t k = 0; k < best; ++k) put(runs[i + k]);
    if (times > 1) end_loop();
    i += best * times;
  }
}

Kernel Code::finish() {
  op("jalr", {zero, 0, ra});
  std::vector<std::uint32_t> body;
  body.swap(words_);
  for (const auto& [value, x] : constants_) load_constant(x, value);
  const std::size_t before = words_.size();
  for (KernelLoop& loop : loops_) loop.begin += before, loop.end += before;
  words_.insert(words_.end(), body.begin(), body.end());
  for (const Address& at : addresses_) {
    const std::size_t word = before + at.word;
    const auto distance = static_cast<std::int64_t>(4 * (words_.size() + at.data - word));
    const std::int64_t low = (distance << 52) >> 52;
    const auto x = static_cast<std::int64_t>(words_[word] >> 7 & 31);
    words_[word] = encode(*set_.named("auipc"), std::array{x, (distance - low) >> 12 & 0xFFFFF});
    words_[word + 1] = encode(*set_.named("addi"), std::array{x, x, low});
  }
  return {std::move(words_), std::move(loops_), std::move(data_)};
}

std::vector<std::uint32_t> Kernel::image() const {
  std::vector<std::uint32_t> all = words;
  all.insert(all.end(), data.begin(), data.end());
  return all;
}

std::string Kernel::text(const InstructionSet& set) const {
  std::string all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const KernelLoop& loop : loops)
      if (loop.begin == i) all += "loop_" + std::to_string(i) + ":\n";
    all += "  " + disassemble(set, words[i], 4 * i) + "\n";
  }
  for (const std::uint32_t word : data) all += "  .word " + std::to_string(word) + "\n";
  return all;
}

}  // namespace tilesim::isa
