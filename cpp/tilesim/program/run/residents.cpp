#include "tilesim/program/run/residents.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::program {

Residents::Residents(const CompiledProgram& program, std::size_t streams, bool holders)
    : program_(program), place_of_(program.tensors.size(), -1) {
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const CompiledTensor& t = program.tensors[i];
    if (t.tensor->level != Level::scratchpad) continue;
    place_of_[i] = static_cast<int>(places_.size());
    places_.push_back(
        {static_cast<int>(i), t.tensor->address, t.tensor->address + t.tensor->core_bytes, !t.tensor->parts.empty()});
    held_.push_back({{}, std::vector<std::int64_t>(streams, 0), host_bytes(t.dtype), {}});
  }
  if (places_.empty()) return;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const CompiledTensor& t = program.tensors[i];
    place_of_[i] = place_of_[at(t.storage)];
    if (place_of_[i] < 0) continue;
    Held& held = held_[at(place_of_[i])];
    held.unit = std::min(held.unit, static_cast<std::int64_t>(host_bytes(t.dtype)));
  }
  for (std::size_t p = 0; holders && p < places_.size(); ++p) {
    const CompiledTensor& t = program.tensors[at(places_[p].tensor)];
    held_[p].holder.assign(at(element_count(t.shape) * host_bytes(t.dtype) / held_[p].unit), -1);
    if (places_[p].shared) give_parts(held_[p], t);
  }
}

void Residents::give_parts(Held& held, const CompiledTensor& tensor) const {
  held.part.assign(held.holder.size(), -1);
  const std::int64_t units = host_bytes(tensor.dtype) / held.unit, contexts = program_.program().contexts;
  for (std::size_t unit = 0; unit < held.part.size(); ++unit) {
    const std::int64_t element = static_cast<std::int64_t>(unit) / units;
    for (const HeldPart& part : tensor.tensor->parts) {
      bool inside = true;
      for (std::size_t axis = 0; axis < part.low.size(); ++axis) {
        const std::int64_t index = element / tensor.strides[axis] % tensor.shape[axis];
        inside &= index >= part.low[axis] && index <= part.high[axis];
      }
      if (inside) held.part[unit] = static_cast<std::int16_t>(part.core * contexts);
    }
  }
}

const Residents::ResidentTensor* Residents::find(int tensor) const {
  const int place = place_of_[at(tensor)];
  return place < 0 ? nullptr : &places_[at(place)];
}

void Residents::drop(std::size_t stream, const ResidentTensor& place, Tensors* tensors) {
  Held& held = held_[at(&place - places_.data())];
  if (held.count[stream] == 0) return;
  const CompiledTensor& t = program_.tensors[at(place.tensor)];
  const bool whole = held.unit == host_bytes(t.dtype);
  std::byte* bytes = tensors ? tensors->writable(place.tensor) : nullptr;
  for (std::size_t i = 0; i < held.holder.size(); ++i) {
    if (held.holder[i] != static_cast<std::int16_t>(stream)) continue;
    held.holder[i] = -1;
    if (bytes) poison(bytes + at(held.unit) * i, whole ? t.dtype : DType::u8, whole ? 1 : held.unit);
  }
  held.count[stream] = 0;
}

void Residents::take(std::size_t stream, std::int64_t low, std::int64_t high, Tensors* tensors) {
  overlapping(low, high, [&](const ResidentTensor& place) { drop(stream, place, tensors); });
}

void Residents::access(std::size_t stream, const Operation& op, Tensors* tensors) {
  const ResidentTensor* place = find(op.tensor);
  if (!place) return;
  const bool store = op.opcode == Opcode::store;
  if (store)
    overlapping(place->low, place->high, [&](const ResidentTensor& other) {
      if (&other != place) drop(stream, other, tensors);
    });
  const CompiledTensor& named = program_.tensors[at(op.tensor)];
  const CompiledTensor& owner = program_.tensors[at(place->tensor)];
  Held& held = held_[at(place - places_.data())];
  const std::int64_t units = host_bytes(named.dtype) / held.unit;
  const auto touch = [&](std::int64_t element) {
    for (std::int64_t unit = element * units; unit < (element + 1) * units; ++unit) {
      std::int16_t& holder = held.holder[at(unit)];
      if (store && !held.part.empty() && held.part[at(unit)] != static_cast<std::int16_t>(stream))
        throw UserError({"A core stores to a part of a tensor that another core holds.",
                         named.name,
                         "element " + std::to_string(element),
                         "what `parts` gives to the core",
                         {}});
      if (holder == static_cast<std::int16_t>(stream) || (!store && place->shared && holder >= 0)) continue;
      if (!store)
        throw UserError(
            {"A core reads data from its scratchpad that it has not stored there.",
             named.name,
             "element " + std::to_string(element) +
                 (holder < 0 ? ", which no core holds" : ", which core " + std::to_string(holder) + " holds"),
             "data that the core has stored, until other values or tiles overwrite it",
             {}});
      if (holder >= 0) --held.count[at(holder)];
      holder = static_cast<std::int16_t>(stream);
      ++held.count[stream];
    }
  };
  for_each_run(op.transfer, [&](const Run& run) {
    for (std::int64_t i = 0; run.inside && i < run.count; ++i) touch(run.tensor_offset + i * run.tensor_stride);
  });
  if (!store || held.unit != host_bytes(owner.dtype)) return;
  if (const std::int64_t bytes = packed_bytes(owner.dtype, held.count[stream]); bytes > place->high - place->low)
    throw UserError({"A core stores more of a tensor than its scratchpad can hold.",
                     named.name,
                     std::to_string(bytes) + " bytes",
                     "at most " + std::to_string(place->high - place->low) + " (core_bytes)",
                     {}});
}

}  // namespace tilesim::program
