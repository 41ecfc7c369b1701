// User-defined operations: loads whole operands into the scratchpad, runs the kernel once, stores the results.
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
        operation_(declared_operation(target_, "operation \"" + op_.name + "\"")) {}

  program::Scope lower() {
    refuse_tiles(context_, kernel_);
    program::OpaqueOp compute;
    compute.target = target_;
    std::vector<Array> operands, results;
    for (const ValueId operand : op_.operands) operands.push_back(of_type(operand));
    for (const ValueId result : op_.results) results.push_back(of_type(result));
    check_room();
    compute.cycles = operation_->cycles(context_.machine.whole, operands, results);
    Block loads, stores;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) compute.reads.push_back(load(i, loads));
    for (std::size_t i = 0; i < op_.results.size(); ++i) {
      add_ring(result_slot(i), op_.results[i]);
      compute.writes.push_back(view(result_slot(i), op_.results[i]));
      if (context_.placed(op_.results[i]))
        stores.push_back(statement(program::Store{transfer(result_slot(i), op_.results[i]), {}, 0}));
    }
    loads.push_back({std::move(compute), operation_->queue(), {}});
    std::move(stores.begin(), stores.end(), std::back_inserter(loads));
    return write_kernel(named_scope(context_, kernel_), rings_, std::move(loads));
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

  void add_ring(const std::string& name, ValueId value, std::int64_t load_queue = 0) {
    rings_.push_back({name, type(value).dtype, element_count(type(value).shape), 1, load_queue});
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
    add_ring(slot, value, static_cast<std::int64_t>(i) % context_.machine.core.dma.load_queues);
    block.push_back(statement(program::Load{transfer(slot, value)}));
    return view(slot, value);
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const std::string& target_;
  std::shared_ptr<const CustomOperation> operation_;
  std::vector<Ring> rings_;
};

}  // namespace

program::Scope lower_opaque(Context& context, const Kernel& kernel) { return OpaqueLowering(context, kernel).lower(); }

}  // namespace tilesim::lower
