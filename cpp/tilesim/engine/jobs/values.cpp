#include "tilesim/engine/jobs/values.hpp"

#include "tilesim/base/error.hpp"

namespace tilesim::engine {

ArrayReader::ArrayReader(const program::CompiledProgram& program, const std::map<std::string, Array>& tensors)
    : program_(program),
      arrays_(program.tensors.size()),
      assumed_(program.tensors.size(), false),
      given_(program.tensors.size(), false),
      neighbours_(program.tensors.size(), false),
      weights_(program.tensors.size(), false) {
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    if (const auto found = tensors.find(program.tensors[i].name); found != tensors.end()) {
      if (found->second.shape() != program.tensors[i].shape)
        throw UserError({"values given for timing have another shape than their tensor",
                         program.tensors[i].name,
                         to_string(found->second.shape()),
                         to_string(program.tensors[i].shape),
                         {}});
      arrays_[i] = found->second.to(DType::i64);
    }
}

std::int64_t ArrayReader::read(int tensor, const std::int64_t* index, int rank) const {
  used_ = true;
  const auto id = static_cast<std::size_t>(tensor);
  require(id < arrays_.size(), "an expression reads a formal tensor");
  const program::CompiledTensor& t = program_.tensors[id];
  std::int64_t offset = 0;
  for (int i = 0; i < rank; ++i) offset += index[i] * t.strides[static_cast<std::size_t>(i)];
  if (offset < 0 || offset >= element_count(t.shape))
    throw UserError({"an expression reads outside a tensor", t.name, std::to_string(offset), {}, {}});
  if (!arrays_[id].empty()) {
    given_[id] = true;
    return arrays_[id].as<std::int64_t>()[offset];
  }
  const std::vector<std::int64_t>& typical = t.tensor->typical.values;
  if (typical.size() != 1 && offset >= static_cast<std::int64_t>(typical.size()))
    throw UserError(
        {"timing depends on the values of a tensor that were not given", t.name, {}, {}, "pass it in `tensors`"});
  (t.tensor->role == program::Role::weight ? weights_ : assumed_)[id] = true;
  return typical[typical.size() == 1 ? 0 : static_cast<std::size_t>(offset)];
}

std::span<const std::int64_t> ArrayReader::values(int tensor) const {
  named_ = true;
  const auto id = static_cast<std::size_t>(tensor);
  if (arrays_[id].empty()) {
    neighbours_[id] = true;
    return {};
  }
  given_[id] = true;
  return {arrays_[id].as<std::int64_t>(), static_cast<std::size_t>(arrays_[id].size())};
}

std::map<std::string, std::string> ArrayReader::sources() const {
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < assumed_.size(); ++i) {
    if (neighbours_[i]) found[program_.tensors[i].name] = "default: consecutive rows";
    if (weights_[i]) found[program_.tensors[i].name] = "weights: " + program_.tensors[i].tensor->typical.how;
    if (given_[i]) found[program_.tensors[i].name] = "given";
    if (assumed_[i]) found[program_.tensors[i].name] = "default: " + program_.tensors[i].tensor->typical.how;
  }
  return found;
}

std::string ArrayReader::assumed() const {
  std::map<std::string, std::vector<std::string>> by_how;
  for (std::size_t i = 0; i < assumed_.size(); ++i)
    if (assumed_[i]) by_how[program_.tensors[i].tensor->typical.how].push_back(program_.tensors[i].name);
  std::string text;
  for (const auto& [how, names] : by_how) text += (text.empty() ? "" : "; ") + how + " (" + join(names) + ")";
  return text;
}

}  // namespace tilesim::engine
