// The interpreter's loop over blocks and their instructions.
#include <cfenv>
#include <utility>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/isa/run/blocks.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

namespace {

/// Saves the caller's floating-point environment while the hart uses the processor's.
class FloatEnvironment {
 public:
  explicit FloatEnvironment(Hart& hart) : hart_(hart) {
    std::feholdexcept(&kept_);
    hart_.set_rounding(static_cast<unsigned>(hart_.frm));
  }
  ~FloatEnvironment() {
    hart_.flags();
    std::fesetenv(&kept_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  Hart& hart_;
  std::fenv_t kept_{};
};

constexpr std::uint64_t poll_after = 1 << 16;  ///< units of work

Stop stopped_by(const Trap& trap, const Op* op, Address pc) {
  Stop stop;
  stop.kind = Stop::trapped;
  stop.trap = trap;
  stop.pc = pc;
  stop.instruction = op != nullptr ? op->bits : 0;
  return stop;
}

}  // namespace

Hart::Hart(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen)
    : v(vlen), set_(std::move(set)), blocks_(std::make_unique<Blocks>(vlen)) {}

Hart::~Hart() = default;

void Hart::poll(std::uint64_t work) {
  flags();
  std::fesetround(FE_TONEAREST);
  worked(static_cast<std::int64_t>(work));
  set_rounding(static_cast<unsigned>(frm));
}

/// The block at the hart's pc, found among recent successors of `block` if possible (null: no previous block).
inline Block* Hart::following(Block* block) {
  if (block != nullptr) [[likely]] {
    for (Block* next : block->next)
      if (next != nullptr && next->begin == pc) return next;
  }
  Block* next = blocks_->at(*set_, *memory, pc);
  if (block != nullptr) block->next[1] = std::exchange(block->next[0], next);
  return next;
}

template <bool observed>
Stop Hart::loop(std::uint64_t limit, Observer* observer, Address until) {
  Block* block = nullptr;
  const Op *op = nullptr, *end = nullptr;
  std::uint64_t work = 0, trapped_at = 0, trapped_again = 0;
  std::uint64_t version = memory->version();
  const std::uint64_t last = limit > ~instret ? ~std::uint64_t{0} : instret + limit;
  while (true) {
    try {
      while (true) {
        op = nullptr;
        if (pc == until && until != 0) return {Stop::returned, 0, {}, pc, 0};
        if (memory->version() != version) [[unlikely]]
          version = memory->version(), block = nullptr;
        block = following(block);
        std::size_t count = block->ops.size();
        if (last - instret < count) {
          if (last == instret) return {Stop::limit, 0, {}, pc, 0};
          count = last - instret;
        }
        if ((work += block->work) >= poll_after) poll(std::exchange(work, 0));
        op = block->ops.data(), end = op + count;
        pc = count == block->ops.size() ? block->end : end->pc;
        instret += count;
        for (; op != end; ++op) {
          if constexpr (observed) observer->issue(*op, *this);
          op->run(*this, *op);
        }
      }
    } catch (const Trap& trap) {
      const Address at = op != nullptr ? op->pc : pc;
      if (op != nullptr) {
        instret -= static_cast<std::uint64_t>(end - op);
        if constexpr (observed) observer->trapped(*op);
      }
      pc = at;
      // ends a handler that does nothing but trap
      trapped_again = trapped_at == instret ? trapped_again + 1 : 0, trapped_at = instret;
      if (environment == nullptr || trapped_again > 1000 || !environment->trapped(*this, trap, at))
        return stopped_by(trap, op, at);
      block = nullptr;
    } catch (const Exit& exit) {
      if (op != nullptr) instret -= static_cast<std::uint64_t>(end - op) - 1;
      return {Stop::exited, exit.status, {}, op != nullptr ? op->pc : pc, 0};
    }
  }
}

Stop Hart::run(Memory& of, std::uint64_t limit, Observer* observer, Address until) {
  memory = &of, clock = observer;
  const FloatEnvironment alone(*this);
  return observer != nullptr ? loop<true>(limit, observer, until) : loop<false>(limit, nullptr, until);
}

}  // namespace tilesim::isa
