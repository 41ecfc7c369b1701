// Packs keys and positions into words in registers, compares the words and unpacks them.
#pragma once

#include <vector>

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/sort_plan.hpp"

namespace tilesim::isa {

/// Allocates single vector registers.
class WordRegisters {
 public:
  explicit WordRegisters(bool from_top = false) : from_top_(from_top) {}
  unsigned take();
  std::vector<unsigned> take(std::int64_t count);
  unsigned take_pair();  ///< two adjacent registers, the first with an even number
  void claim(unsigned reg) { free_[reg] = false; }
  void give(unsigned reg) { free_[reg] = true; }
  void give(const std::vector<unsigned>& all) {
    for (const unsigned reg : all) give(reg);
  }
  std::int64_t left() const;

 private:
  bool from_top_;  ///< single registers come from the top, so that pairs stay available
  std::vector<bool> free_ = std::vector<bool>(32, true);
};

class WordWriter {
 public:
  using Words = std::vector<unsigned>;

  WordWriter(Code& code, const SortPlan& plan, DType key, DType position, bool descending);

  /// Computes element numbers and positions in the first registers; call it first.
  void begin();
  void first_register();  ///< restarts at the first register of a row block
  /// Allocates registers for words, named by the first one; with 64-bit keys the next register holds the position.
  Words take(std::int64_t count);
  void give(const Words& all);
  Words encode(std::int64_t count);
  Words placeholders(std::int64_t count);  ///< placeholders for positions beyond the end
  /// Stores keys and positions at their pointers.
  void decode(const Words& words);

  /// Words in memory from a pointer on, which advances; at most two runs of equal length at once. Two runs overwrite
  /// `place`.
  struct Run {
    const Words& words;
    unsigned pointer;
    std::int64_t step;
  };
  void load(const std::vector<Run>& runs) { access(true, runs); }
  void store(const std::vector<Run>& runs) { access(false, runs); }

  /// A comparator of two words; `exchange` puts the lower word into `low`, for several independent pairs.
  struct Pair {
    unsigned* low;
    unsigned* high;
  };
  void exchange(const std::vector<Pair>& pairs);
  void keep(const std::vector<Pair>& pairs);  ///< keeps the lower of both in `low`
  /// Sorts blocks of words; merges bitonic blocks.
  void sort(const std::vector<Words*>& blocks);
  void clean(const std::vector<Words*>& blocks, std::int64_t widest);
  /// Compares element i of a part with element i of part number xor `parts`. The part without `bit` keeps the lower
  /// word; with bit < 0 both parts do.
  void cross(const std::vector<Pair>& pairs, std::int64_t parts, int bit);
  /// Moves words back to their registers, for the next trip of a loop.
  void settle(Words& words, const Words& home);

  std::int64_t bytes(int of_bits) const { return plan_.elements() * of_bits / 8; }
  std::int64_t word_bytes() const { return plan_.word_bytes(); }

  static constexpr unsigned in = a0, keys = a1, positions = a2, place = t3;

 private:
  void access(bool loads, const std::vector<Run>& runs);
  void words() { code_.set_vl(plan_.elements(), static_cast<unsigned>(plan_.word_bits), 0); }
  void narrow(int width);
  void set_masked() { code_.set_vl(plan_.elements(), static_cast<unsigned>(plan_.word_bits), 0, true); }
  /// Shifts by `by`; amounts above 31 come from a register.
  void shift(const char* name, const Words& to, const Words& from, int by);
  Words places(const Words& all) const;   ///< registers with positions
  void in_front(unsigned a, unsigned b);  ///< v0 = word a is less than word b
  void exchange_wide(const Pair& pair);
  void cross_wide(unsigned word, unsigned other, unsigned upper);
  Words encode_wide(std::int64_t count);
  void decode_wide(const Words& all);
  void immediate(const char* name, const Words& to, const Words& from, std::int64_t value);
  void scalar(const char* name, const Words& to, const Words& from, std::int64_t value);
  void vectors(const char* name, const Words& to, const Words& a, const Words& b);
  void ones_above(const Words& y, std::int64_t limit, int width);
  void is_value(const Words& y, const Words& x, std::int64_t value);
  Words encode_some(std::int64_t count);
  void encode_keys(const Words& x, const Words& y, const Words& z);
  void decode_some(const Words& all);
  void decode_keys(const Words& x, const Words& y, const Words& places);
  void narrowed(const Words& to, const Words& from);
  void store_places(const char* name, unsigned reg);
  void cross_all_wide(const std::vector<Pair>& pairs, std::int64_t parts, int bit);
  void lower_parts(int bit);

  Code& code_;
  const SortPlan& plan_;
  DType key_, position_;
  bool descending_;
  int width_, shift_;
  bool signed_zero_;
  WordRegisters registers_;
  unsigned number_ = 0, first_ = 0;  ///< registers of element numbers and first positions
};

}  // namespace tilesim::isa
