// In-place reuse: stores elementwise results over an operand without later readers.
#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/traffic.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/program/count.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using program::Role;

/// Uses of a tensor by statements of the program's main body.
struct UsesOfTensors {
  std::vector<std::size_t> loads, stores;  ///< indices of these statements, in order
  bool elsewhere = false;                  ///< used by functions, calls, expressions or indices, at an unknown time
};

class Dying {
 public:
  explicit Dying(Lowering& lowering) : lowering_(lowering), program_(lowering.program), traffic_(program_) {
    for (program::Tensor& tensor : program_.tensors) tensors_[tensor.name] = &tensor;
    for (const program::Tensor& tensor : program_.tensors)
      if (!tensor.alias_of.empty()) named(tensor.name).elsewhere = named(tensor.alias_of).elsewhere = true;
    for (std::size_t i = 0; i < program_.body.size(); ++i) look(program_.body[i], i);
    for (const program::Function& function : program_.functions)
      program::for_each(function.body, [&](const program::Statement& statement) { away(statement, true); });
  }

  void run() {
    for (std::size_t i = 0; i < program_.body.size(); ++i)
      if (const auto* kernel = std::get_if<program::Scope>(&program_.body[i].action)) look_for_pairs(*kernel, i);
    if (changed_) program_.tensors = owners_first(std::move(program_.tensors));
  }

 private:
  UsesOfTensors& named(const std::string& tensor) { return uses_[tensor]; }

  void read_by(const Expr& expr) {
    if (expr.kind() == Expr::Kind::read) named(expr.name()).elsewhere = true;
    for (const Expr& argument : expr.arguments()) read_by(argument);
  }

  /// Marks tensors that are used at a time other than their statement's; `all`: every tensor of the statement.
  void away(const program::Statement& statement, bool all) {
    program::for_each_expression(statement, [&](const Expr& expr) { read_by(expr); });
    if (const auto* call = std::get_if<program::Call>(&statement.action))
      for (const auto& [formal, actual] : call->tensors) named(actual).elsewhere = true;
    if (const program::Transfer* transfer = transfer_of(statement)) {
      for (const program::TransferDim& dim : transfer->dims)
        if (!dim.through.empty()) named(dim.through).elsewhere = named(transfer->tensor).elsewhere = true;
      if (all) named(transfer->tensor).elsewhere = true;
    }
  }

  static const program::Transfer* transfer_of(const program::Statement& statement) {
    if (const auto* load = std::get_if<program::Load>(&statement.action)) return &load->transfer;
    if (const auto* store = std::get_if<program::Store>(&statement.action)) return &store->transfer;
    return nullptr;
  }

  void look(const program::Statement& top, std::size_t number) {
    const bool kernel = std::holds_alternative<program::Scope>(top.action);
    const auto visit = [&](const program::Statement& statement) {
      away(statement, !kernel);
      const program::Transfer* transfer = transfer_of(statement);
      if (!transfer) return;
      const bool store = std::holds_alternative<program::Store>(statement.action);
      std::vector<std::size_t>& places = store ? named(transfer->tensor).stores : named(transfer->tensor).loads;
      if (places.empty() || places.back() != number) places.push_back(number);
    };
    visit(top);
    program::for_each_body(top, [&](const program::Block& body) { program::for_each(body, visit); });
  }

  void look_for_pairs(const program::Scope& kernel, std::size_t number) {
    std::set<std::string> loaded, stored;
    bool alone = true;  // no core sends data to another
    program::for_each(kernel.body, [&](const program::Statement& statement) {
      if (const program::Transfer* transfer = transfer_of(statement))
        (std::holds_alternative<program::Store>(statement.action) ? stored : loaded).insert(transfer->tensor);
      alone &= !std::holds_alternative<program::Send>(statement.action);
    });
    if (!alone) return;
    for (const std::string& result : stored)
      for (const std::string& operand : loaded)
        if (may_lie(result, operand, number) && element_by_element(kernel, result, operand)) {
          put(result, operand);
          break;
        }
  }

  bool may_lie(const std::string& result, const std::string& operand, std::size_t number) {
    const program::Tensor &to = *tensors_.at(result), &from = *tensors_.at(operand);
    const bool temporary = from.role == Role::temporary && (to.role == Role::temporary || to.role == Role::output);
    const bool state = from.role == Role::state && to.role == Role::output &&
                       std::ranges::count(lowering_.states, std::make_pair(result, operand)) > 0;
    if (!temporary && !state) return false;
    if (from.level != program::Level::memory || to.level != program::Level::memory || !to.alias_of.empty())
      return false;
    if (from.dtype != to.dtype || from.shape != to.shape || from.tile != to.tile ||
        from.minor_to_major != to.minor_to_major || program::stored_bytes(to) == 0)
      return false;
    const UsesOfTensors &reads = named(operand), &writes = named(result);
    if (reads.elsewhere || writes.elsewhere || writes.stores != std::vector{number}) return false;
    if (!writes.loads.empty() && writes.loads.front() <= number) return false;
    if (!reads.stores.empty() && reads.stores.back() >= number) return false;
    if (reads.loads.back() != number) return false;
    return reads.loads.size() == 1 || complete_before(reads.loads[reads.loads.size() - 2], number);
  }

  /// Whether a kernel is complete before another one stores anything.
  bool complete_before(std::size_t reader, std::size_t writer) {
    if (!lifetimes_) lifetimes_ = program::lifetimes(program_);
    if (!lifetimes_->known) return false;
    const auto number = [&](std::size_t statement) {
      const auto* scope = std::get_if<program::Scope>(&program_.body[statement].action);
      const auto found = std::ranges::find(lifetimes_->kernels, scope);
      return scope && found != lifetimes_->kernels.end() ? found - lifetimes_->kernels.begin() : std::ptrdiff_t{-1};
    };
    const std::ptrdiff_t before = number(reader), after = number(writer);
    return before >= 0 && after >= 0 && lifetimes_->complete[at(after)] > before;
  }

  /// Whether the kernel loads each operand element once, and stores the result of this element alone in its place.
  bool element_by_element(const program::Scope& kernel, const std::string& result, const std::string& operand) const {
    bool paired = true;
    const auto pair = [&](const program::Block& block) { paired &= paired_in(block, result, operand); };
    pair(kernel.body);
    program::for_each(kernel.body,
                      [&](const program::Statement& statement) { program::for_each_body(statement, pair); });
    if (!paired) return false;
    const KernelUse use = traffic_.use_of(kernel, false);
    if (!use) return false;
    double elements = 1;
    for (const Expr& extent : tensors_.at(result)->shape) elements *= static_cast<double>(extent.value());
    return use->at(result).elements == elements && use->at(operand).elements == elements;
  }

  /// Whether the block contains neither a load of the operand nor a store of the result, or both for the same elements,
  /// around one elementwise vector compute.
  static bool paired_in(const program::Block& block, const std::string& result, const std::string& operand) {
    const program::Transfer *load = nullptr, *store = nullptr;
    const program::VectorOp* pass = nullptr;
    int loads = 0, stores = 0, passes = 0;
    for (const program::Statement& statement : block) {
      if (const auto* vector = std::get_if<program::VectorOp>(&statement.action)) pass = vector, ++passes;
      const program::Transfer* transfer = transfer_of(statement);
      if (!transfer) continue;
      const bool out = std::holds_alternative<program::Store>(statement.action);
      if (out && transfer->tensor == result) store = transfer, ++stores;
      if (!out && transfer->tensor == operand) load = transfer, ++loads;
    }
    if (loads == 0 && stores == 0) return true;
    if (loads != 1 || stores != 1 || passes != 1 || load->back != 0 || store->back != 0) return false;
    const bool reads = std::ranges::any_of(
        pass->inputs, [&](const program::View& view) { return view.slot == load->slot && view.back == 0; });
    const bool gives = std::ranges::any_of(pass->outputs, [&](const program::VectorOutputSpec& output) {
      return output.view.slot == store->slot && output.view.back == 0 && output.reduce.empty();
    });
    return reads && gives && same_elements(*load, *store);
  }

  static bool same_elements(const program::Transfer& a, const program::Transfer& b) {
    return a.at == b.at && std::ranges::equal(a.dims, b.dims, [](const auto& x, const auto& y) {
             return x.extent == y.extent && x.axis == y.axis && x.step == y.step && x.through.empty() &&
                    y.through.empty();
           });
  }

  /// Makes the result an alias of the operand's owner; if the result is an output, the owner becomes an alias of it.
  void put(const std::string& result, const std::string& operand) {
    const program::Tensor& from = *tensors_.at(operand);
    const std::string owner = from.alias_of.empty() ? operand : from.alias_of;
    program::Tensor& to = *tensors_.at(result);
    changed_ = true;
    named(operand).elsewhere = true;  // excluded from further reuse
    if (to.role != Role::output || tensors_.at(owner)->role != Role::temporary) {
      to.alias_of = owner;
      return;
    }
    for (program::Tensor& tensor : program_.tensors)
      if (tensor.name == owner || tensor.alias_of == owner) tensor.alias_of = result;
  }

  Lowering& lowering_;
  program::Program& program_;
  Traffic traffic_;
  std::map<std::string, program::Tensor*> tensors_;
  std::map<std::string, UsesOfTensors> uses_;
  std::optional<program::Lifetimes> lifetimes_;
  bool changed_ = false;
};

}  // namespace

void lie_over_dying(Lowering& lowering) { Dying(lowering).run(); }

}  // namespace tilesim::lower
