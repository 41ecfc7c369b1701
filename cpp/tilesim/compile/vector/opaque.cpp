// Operations of the user's: operands come into the scratchpad whole, the kernel runs once, results leave.
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/machine/custom_operation.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

class OpaqueLowering {
 public:
  OpaqueLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[static_cast<std::size_t>(kernel.ops[0])]),
        target_(op_.attributes.text("target")),
        operation_(declared_operation(target_, "operation \"" + op_.name + "\"")),
        queue_(operation_->queue()) {}

  program::Scope lower() {
    scope_ = named_scope(context_, kernel_);
    refuse_tiles(context_, kernel_);
    program::OpaqueOp compute;
    compute.target = target_;
    std::vector<Array> operands, results;
    for (const ValueId operand : op_.operands) operands.push_back(of_type(operand));
    for (const ValueId result : op_.results) results.push_back(of_type(result));
    check_room();
    compute.cycles = operation_->cycles(context_.machine.whole, operands, results);
    Block block;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) compute.reads.push_back(load(i, block));
    for (std::size_t i = 0; i < op_.results.size(); ++i) {
      add_slot(result_slot(i), op_.results[i], "store0");
      block.push_back(on("", program::Acquire{result_slot(i), {queue_}}));
      compute.writes.push_back(view(result_slot(i), op_.results[i]));
    }
    block.push_back(on(queue_, std::move(compute)));
    for (std::size_t i = 0; i < op_.operands.size(); ++i)
      block.push_back(on(queue_, program::Release{operand_slot(i), 0}));
    for (std::size_t i = 0; i < op_.results.size(); ++i) store(i, block);
    scope_.body = std::move(block);
    return std::move(scope_);
  }

 private:
  const TensorType& type(ValueId value) const { return context_.value(value).type; }
  Array of_type(ValueId value) const { return Array(type(value).dtype, type(value).shape); }
  static std::string operand_slot(std::size_t i) { return "x" + std::to_string(i); }
  static std::string result_slot(std::size_t i) { return "y" + std::to_string(i); }

  void check_room() const {
    constexpr std::int64_t granule = 64;
    std::int64_t bytes = 0;
    for (const auto* values : {&op_.operands, &op_.results})
      for (const ValueId value : *values)
        bytes += round_up(host_bytes(type(value).dtype) * element_count(type(value).shape), granule) + granule;
    const std::int64_t room = context_.machine.core.scratchpad.bytes;
    if (bytes > room)
      throw CannotRun(op_, Lack::scratchpad,
                      {"operands and results of a custom operation must fit the scratchpad", op_.name,
                       std::to_string(bytes) + " bytes", "at most " + std::to_string(room) + " bytes",
                       "call it on parts of the operands"});
  }

  void add_slot(const std::string& name, ValueId value, const std::string& consumer) {
    scope_.slots.push_back(ring_slot(name, type(value).dtype, element_count(type(value).shape), consumer, 1));
  }

  View view(const std::string& slot, ValueId value) const {
    View all{slot, 0, 0, {}};
    const Shape strides = row_major_strides(type(value).shape);
    for (std::size_t i = 0; i < strides.size(); ++i) all.dims.push_back({Expr(type(value).shape[i]), strides[i]});
    return all;
  }

  program::Transfer transfer(const std::string& slot, ValueId value) const {
    const Shape& shape = type(value).shape;
    const std::vector<Expr> start(shape.size(), 0);
    return region_transfer(context_.placements[static_cast<std::size_t>(value)], start,
                           std::vector<Expr>(shape.begin(), shape.end()), row_major_strides(shape), slot);
  }

  View load(std::size_t i, Block& block) {
    const ValueId value = op_.operands[i];
    const std::string slot = operand_slot(i);
    const Placement& from = context_.placements[static_cast<std::size_t>(value)];
    if (from.dtype != type(value).dtype)
      throw CannotRun(op_, Lack::lowering,
                      {"an operand of a custom operation is stored in another type",
                       op_.name,
                       std::string(name(from.dtype)),
                       std::string(name(type(value).dtype)),
                       {}});
    const std::string queue =
        "load" + std::to_string(static_cast<std::int64_t>(i) % context_.machine.core.dma.load_queues);
    add_slot(slot, value, queue_);
    block.push_back(on("", program::Acquire{slot, {queue}}));
    block.push_back(on(queue, program::Load{transfer(slot, value)}));
    block.push_back(on(queue, program::Commit{slot, 0, 1}));
    block.push_back(on(queue_, program::Wait{slot, 0, {}, 0, 1}));
    return view(slot, value);
  }

  void store(std::size_t i, Block& block) {
    const std::string slot = result_slot(i);
    block.push_back(on(queue_, program::Commit{slot, 0, 1}));
    block.push_back(on("store0", program::Wait{slot, 0, {}, 0, 1}));
    if (context_.placed(op_.results[i]))
      block.push_back(on("store0", program::Store{transfer(slot, op_.results[i]), {}, 0}));
    block.push_back(on("store0", program::Release{slot, 0}));
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const std::string& target_;
  std::shared_ptr<const CustomOperation> operation_;
  std::string queue_;
  program::Scope scope_;
};

}  // namespace

program::Scope lower_opaque(Context& context, const Kernel& kernel) { return OpaqueLowering(context, kernel).lower(); }

}  // namespace tilesim::lower
