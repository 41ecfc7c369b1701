#include "tilesim/program/count.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

std::int64_t sum(std::int64_t a, std::int64_t b) { return a > most - b ? most : a + b; }

std::int64_t product(std::int64_t a, std::int64_t b) { return a != 0 && b > most / a ? most : a * b; }

/// The first tensor that an expression reads, in text order; null if it reads none.
const std::string* first_read(const Expr& expr) {
  if (expr.kind() == Expr::Kind::read) return &expr.name();
  for (const Expr& argument : expr.arguments())
    if (const std::string* found = first_read(argument)) return found;
  return nullptr;
}

}  // namespace

Executions::Executions(const Program& program, const TripCounts* instead, bool longest)
    : program_(program), instead_(instead), longest_(longest) {
  for (const Function& function : program.functions) bodies_[function.name] = &function.body;
  for (const Tensor& tensor : program.tensors) {
    const auto& values = tensor.typical.values;
    if (values.empty()) continue;
    const auto zeros = std::count(values.begin(), values.end(), 0);
    shares_[tensor.name] = 1.0 - static_cast<double>(zeros) / static_cast<double>(values.size());
  }
}

std::int64_t Executions::count(const Block& block) {
  const auto [known, fresh] = totals_.try_emplace(&block, 0);  // 0 for a recursive function, which is rejected
  if (!fresh) return known->second;
  std::int64_t total = 0;
  for (const Statement& statement : block) total = sum(total, count(statement));
  return totals_[&block] = total;
}

std::int64_t Executions::count(const Statement& statement) {
  worked(16);
  std::int64_t inside = 0;
  for_each_body(statement, [&](const Block& body) { inside = sum(inside, count(body)); });
  if (const auto* loop = std::get_if<For>(&statement.action)) {
    const auto other = instead_ != nullptr ? instead_->find(loop) : Executions::TripCounts::const_iterator{};
    if (instead_ != nullptr && other != instead_->end())
      inside = product(inside, other->second);
    else if (loop->extent.is_constant())
      inside = product(inside, std::max<std::int64_t>(0, loop->extent.value()));
    else if (longest_)
      inside = product(inside, std::max<std::int64_t>(0, loop->extent.range({{"core", {0, program_.cores - 1}}}).high));
  } else if (const auto* call = std::get_if<Call>(&statement.action)) {
    inside = called(call->function);
  } else if (const auto* branch = std::get_if<If>(&statement.action)) {
    inside = taken(*branch, inside);
  }
  return std::max<std::int64_t>(1, inside);
}

std::int64_t Executions::taken(const If& branch, std::int64_t inside) const {
  const std::string* read = first_read(branch.condition);
  const auto share = read != nullptr ? shares_.find(*read) : shares_.end();
  if (share == shares_.end() || inside == most) return inside;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(inside) * share->second));
}

std::int64_t Executions::called(const std::string& name) {
  const auto body = bodies_.find(name);
  return body == bodies_.end() ? 0 : count(*body->second);
}

Contents contents(const Program& program) {
  Contents found;
  const auto read = [&](const std::string& function, const Block& body) {
    for (const Statement& statement : body)
      if (const auto* scope = std::get_if<Scope>(&statement.action)) found.kernels.push_back({function, scope});
    for_each(body, [&](const Statement& statement) {
      ++found.statements;
      found.sends |= std::holds_alternative<Send>(statement.action);
    });
  };
  read("", program.body);
  for (const Function& function : program.functions) read(function.name, function.body);
  found.operations = Executions(program).all();
  return found;
}

std::int64_t stored_bytes(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Expr& extent : tensor.shape) shape.push_back(extent.is_constant() ? extent.value() : 0);
  const std::size_t rank = shape.size();
  for (std::size_t i = 0; i < tensor.tile.size() && rank >= 2; ++i) {
    const std::size_t axis = tensor.minor_to_major.empty() ? rank - 1 - i : at(tensor.minor_to_major[i]);
    const std::int64_t granule = tensor.tile[tensor.tile.size() - 1 - i];
    shape[axis] = product((shape[axis] + granule - 1) / granule, granule);
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements = product(elements, extent);
  return elements > most / 64 ? most : (elements * bits(tensor.dtype) + 7) / 8;
}

std::vector<std::pair<std::int64_t, std::string>> footprint(const Program& program) {
  std::vector<std::pair<std::int64_t, std::string>> own;
  for (const Tensor& tensor : program.tensors)
    if (tensor.alias_of.empty()) own.emplace_back(stored_bytes(tensor), tensor.name);
  std::sort(own.begin(), own.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  return own;
}

}  // namespace tilesim::program
