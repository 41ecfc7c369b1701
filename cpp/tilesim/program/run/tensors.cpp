#include "tilesim/program/run/tensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/no_memory.hpp"

namespace tilesim::program {

namespace {
std::string type_text(DType dtype, const Shape& shape) { return std::string(name(dtype)) + to_string(shape); }

bool is_given(Role role) { return role == Role::input || role == Role::weight || role == Role::state; }
}  // namespace

void poison(std::byte* data, DType dtype, std::int64_t count) {
  if (count <= 0) return;
  if (dtype == DType::boolean) {
    std::memset(data, 1, static_cast<std::size_t>(count));
    return;
  }
  const auto size = static_cast<std::size_t>(host_bytes(dtype));
  if (is_two_of_four(dtype)) {  // all bits set is NaN in every float type
    std::memset(data, is_float(plain_of(dtype)) ? 0xFF : 0xA5, static_cast<std::size_t>(count) * size);
    return;
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t extreme = -0x5A5A5A5A5A5A5A5BLL;
  if (is_float(dtype) || is_complex(dtype)) {
    convert(&nan, DType::f64, data, dtype, 1);
  } else {
    convert(&extreme, DType::i64, data, dtype, 1);
  }
  const std::size_t total = static_cast<std::size_t>(count) * size;
  for (std::size_t done = size; done < total; done *= 2) std::memcpy(data + done, data, std::min(done, total - done));
}

Tensors::Tensors(const CompiledProgram& program, const std::map<std::string, Array>& inputs, bool poison_fresh,
                 bool planned)
    : program_(program), arrays_(program.tensors.size()), owned_(program.tensors.size(), false) {
  if (planned) plan();
  std::vector<std::string> wanted;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const CompiledTensor& t = program.tensors[i];
    if (t.storage != static_cast<int>(i)) continue;
    if (is_given(t.tensor->role)) wanted.push_back(t.name);
    bind(i, inputs, poison_fresh);
  }
  for (const auto& [key, array] : inputs) {
    if (std::find(wanted.begin(), wanted.end(), key) == wanted.end()) {
      throw UserError({"the program has no such input", program.program().name, "'" + key + "'", join(wanted),
                       nearest(key, wanted)});
    }
  }
}

/// Elements below a byte occupy a full byte here, so this ratio scales all addresses.
void Tensors::plan() {
  constexpr std::int64_t granule = 64;
  std::int64_t scale = 1, low = std::numeric_limits<std::int64_t>::max();
  plan_ = plan_memory(program_.program(), granule);
  planned_ = plan_.shared;
  const auto moves = [](const MemoryPlan::Allocation& place) {
    return place.alias_of.empty() && !is_given(place.tensor->role) && place.level == Level::memory;
  };
  for (const MemoryPlan::Allocation& place : plan_.allocations) {
    if (!moves(place)) continue;
    const DType dtype = place.tensor->dtype;
    scale = std::max<std::int64_t>(scale, (8 * host_bytes(dtype) + bits(dtype) - 1) / bits(dtype));
    low = std::min(low, place.address);
  }
  std::int64_t end = 0;
  for (const MemoryPlan::Allocation& place : plan_.allocations) {
    if (!moves(place)) continue;
    places_[place.tensor->name] = scale * (place.address - low);
    end = std::max(end, scale * (place.address - low + place.bytes));
  }
  memory_ = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(end));
  std::map<std::string, int> ids;
  for (std::size_t i = 0; i < program_.tensors.size(); ++i) ids[program_.tensors[i].name] = static_cast<int>(i);
  for (const MemoryPlan::Allocation& place : plan_.allocations)
    if (moves(place)) last_.emplace(place.last, ids.at(place.tensor->name));
}

void Tensors::begin_kernel(const std::vector<const Call*>& calls, const Scope* scope) {
  if (!planned_) return;
  const std::int64_t number = plan_.numbers.number(calls, scope);
  if (number < 0) return;
  // The next trip of a loop begins with an earlier kernel.
  for (auto free = last_.lower_bound(kernel_); free != last_.end() && free->first < number; ++free) {
    Array& array = arrays_[storage(free->second)];
    poison(array.bytes(), array.dtype(), array.size());
  }
  kernel_ = number;
}

void Tensors::bind(std::size_t i, const std::map<std::string, Array>& inputs, bool poison_fresh) {
  const CompiledTensor& t = program_.tensors[i];
  if (!is_given(t.tensor->role)) {
    const auto place = places_.find(t.name);
    if (place != places_.end())
      arrays_[i] = Array(t.dtype, t.shape, memory_->data() + place->second, memory_);
    else
      arrays_[i] = naming("tensor \"" + t.name + "\"", [&] { return Array(t.dtype, t.shape); });
    owned_[i] = true;
    if (poison_fresh) poison(arrays_[i].bytes(), t.dtype, arrays_[i].size());
    return;
  }
  const auto found = inputs.find(t.name);
  if (found == inputs.end()) {
    throw UserError({"an input is missing", t.name, {}, type_text(t.dtype, t.shape), {}});
  }
  const Array& given = found->second;
  if (given.dtype() != t.dtype || given.shape() != t.shape) {
    const bool shape = given.shape() != t.shape;
    throw UserError({shape ? "an input has the wrong shape" : "an input has the wrong dtype", t.name,
                     type_text(given.dtype(), given.shape()), type_text(t.dtype, t.shape),
                     shape ? "" : "Convert it with numpy's astype"});
  }
  owned_[i] = t.tensor->role == Role::state;
  arrays_[i] = owned_[i] ? given.clone() : given;
}

std::int64_t Tensors::read(int tensor, const std::int64_t* index, int rank) const {
  const CompiledTensor& t = program_.tensors[static_cast<std::size_t>(tensor)];
  if (rank != static_cast<int>(t.shape.size())) {
    throw UserError(
        {"read() names the wrong number of axes.", t.name, std::to_string(rank), std::to_string(t.shape.size()), {}});
  }
  std::int64_t position = 0;
  for (std::size_t axis = 0; axis < t.shape.size(); ++axis) {
    if (index[axis] < 0 || index[axis] >= t.shape[axis]) {
      throw UserError({"read() lies outside its tensor.",
                       t.name + " axis " + std::to_string(axis),
                       std::to_string(index[axis]),
                       "0 to " + std::to_string(t.shape[axis] - 1),
                       {}});
    }
    position += index[axis] * t.strides[axis];
  }
  return read_flat(tensor, position);
}

std::int64_t Tensors::read_flat(int tensor, std::int64_t position) const {
  const CompiledTensor& t = program_.tensors[static_cast<std::size_t>(tensor)];
  if (!is_integer(t.dtype) && t.dtype != DType::boolean) {
    throw UserError({"Indices are read from a tensor that is not of integers.",
                     t.name,
                     std::string(name(t.dtype)),
                     "an integer type",
                     {}});
  }
  const Array& array = arrays_[storage(tensor)];
  if (position < 0 || position >= array.size()) {
    throw UserError({"An index is read outside its tensor.",
                     t.name,
                     std::to_string(position),
                     "0 to " + std::to_string(array.size() - 1),
                     {}});
  }
  return array.dtype() == t.dtype ? array.int_at(position) : view(tensor).int_at(position);
}

std::byte* Tensors::writable(int tensor) {
  const std::size_t at = storage(tensor);
  if (!owned_[at]) {
    arrays_[at] = arrays_[at].clone();
    owned_[at] = true;
  }
  return arrays_[at].bytes();
}

Array Tensors::view(int tensor) const {
  const CompiledTensor& t = program_.tensors[static_cast<std::size_t>(tensor)];
  const Array& array = arrays_[storage(tensor)];
  if (array.dtype() == t.dtype) return array.reshaped(t.shape);
  const auto keeper = std::make_shared<Array>(array);
  return Array(t.dtype, t.shape, keeper->bytes(), keeper);
}

std::map<std::string, Array> Tensors::results() const {
  std::map<std::string, Array> results;
  for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
    const CompiledTensor& t = program_.tensors[i];
    if (t.tensor->role == Role::output || t.tensor->role == Role::state) results[t.name] = view(static_cast<int>(i));
  }
  return results;
}

}  // namespace tilesim::program
