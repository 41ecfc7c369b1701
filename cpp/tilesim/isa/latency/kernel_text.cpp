#include "tilesim/isa/latency/kernel_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/tile/latency_book.hpp"

namespace tilesim::isa {

namespace {

constexpr std::string_view product_form = "'mma bf16 bf16 b1 m128 n128 k256 ko1'",
                           permute_form = "'permute bf16 e64,32 i32,1 o1,64'";

struct Field {
  std::string_view label;
  const char* meaning;
};
constexpr std::array<Field, 5> product_fields{
    {{"b", "batch"}, {"m", "rows"}, {"n", "columns"}, {"k", "contraction"}, {"ko", "outer contraction"}}};
constexpr std::array<Field, 3> permute_fields{
    {{"e", "extents"}, {"i", "strides of what is read"}, {"o", "strides of what is written"}}};

[[noreturn]] void refuse(const std::string& what, const std::string& value, std::string_view form) {
  throw UserError({"cannot read a tile compute: " + what, {}, value, "as " + std::string(form), {}});
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream from(text);
  std::vector<std::string> words;
  for (std::string word; from >> word;) words.push_back(word);
  return words;
}

/// The text after each label. Each field must occur once, and words of `more` at most once.
template <std::size_t count>
std::map<std::string_view, std::string> fields_of(const std::vector<std::string>& words, std::size_t first,
                                                  const std::array<Field, count>& fields, std::string_view form,
                                                  const std::vector<std::string_view>& more) {
  std::map<std::string_view, std::string> found;
  std::vector<std::string> seen;
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool hash = word[0] == 'g' && word.size() > 1;  // hexadecimal hash
    const std::string label = hash ? "g" : word.substr(0, std::min(word.find_first_of("0123456789-+,."), word.size()));
    const auto twice = [&] { return std::find(seen.begin(), seen.end(), label) != seen.end(); };
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& one) { return one.label == label; });
    const bool known = field != fields.end() || std::find(more.begin(), more.end(), label) != more.end();
    if (!known) refuse("unknown field '" + label + "'", "'" + word + "'", form);
    if (twice()) refuse("'" + label + "' stands twice", "'" + word + "'", form);
    seen.push_back(label);
    if (field != fields.end()) found[field->label] = word.substr(label.size());
  }
  for (const Field& field : fields)
    if (!found.contains(field.label))
      refuse("'" + std::string(field.label) + "' (" + field.meaning + ") is missing",
             "'" + std::string(words[0]) + "' of " + std::to_string(words.size()) + " words", form);
  return found;
}

std::vector<std::int64_t> numbers_of(std::string_view label, const std::string& text, std::int64_t lowest,
                                     std::string_view form) {
  std::vector<std::int64_t> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value < lowest ||
        value > std::numeric_limits<std::int32_t>::max())
      refuse("'" + std::string(label) + "' is a number from " + std::to_string(lowest) + " to 2147483647",
             "'" + std::string(label) + text + "'", form);
    numbers.push_back(value);
  }
  if (numbers.empty() || text.back() == ',')
    refuse("'" + std::string(label) + "' has no number", "'" + std::string(label) + text + "'", form);
  return numbers;
}

DType type_of(const std::vector<std::string>& words, std::size_t at, std::string_view form) {
  if (at >= words.size()) refuse("the element type is missing", "'" + words[0] + "'", form);
  return parse_dtype(words[at]);
}

KernelText product_text(const std::string& text, const std::vector<std::string>& words) {
  type_of(words, 1, product_form);
  if (words.size() < 3) refuse("the second element type is missing", "'" + text + "'", product_form);
  parse_held_dtype(words[2]);
  const auto fields = fields_of(words, 3, product_fields, product_form,
                                {"stationary_a", "accumulate", "run", "resident", "pipelined", "g"});
  for (const auto& [label, number] : fields)
    if (numbers_of(label, number, 1, product_form).size() != 1)
      refuse("'" + std::string(label) + "' is one number", "'" + std::string(label) + number + "'", product_form);
  KernelText made{parse_compute(text).first, Mma()};
  const Descriptor& d = made.descriptor;
  Mma mma;
  mma.batch_dims = 1, mma.k_dims = 2, mma.packed = 1;
  mma.stationary_a = d.stationary_a, mma.accumulate = d.accumulate;
  const DType sums = is_float(d.dtype) ? DType::f32 : DType::i32;
  mma.a.dtype = d.dtype, mma.b.dtype = d.second, mma.c.dtype = sums;
  const std::int64_t m = d.m, n = d.n, k = d.k, ko = d.k_outer;
  mma.a.dims = {{d.batch, ko * m * k}, {m, k}, {ko, m * k}, {k, 1}};
  mma.b.dims = {{d.batch, ko * k * n}, {ko, k * n}, {k, n}, {n, 1}};
  mma.c.dims = {{d.batch, m * n}, {m, n}, {n, 1}};
  made.compute = mma;
  return made;
}

KernelText permute_text(const std::vector<std::string>& words) {
  Permute permute;
  permute.in.dtype = permute.out.dtype = type_of(words, 1, permute_form);
  const auto fields = fields_of(words, 2, permute_fields, permute_form, {});
  const auto extents = numbers_of("e", fields.at("e"), 1, permute_form);
  const auto read = numbers_of("i", fields.at("i"), 0, permute_form);
  const auto written = numbers_of("o", fields.at("o"), 0, permute_form);
  for (const auto& [label, strides] : {std::pair{"i", &read}, {"o", &written}})
    if (strides->size() != extents.size())
      refuse("'" + std::string(label) + "' has a stride for each extent of 'e'",
             std::to_string(strides->size()) + " strides of " + std::to_string(extents.size()) + " extents",
             permute_form);
  KernelText made;
  made.descriptor.kind = ComputeKind::permute;
  made.descriptor.dtype = permute.in.dtype;
  made.descriptor.elements = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    permute.in.dims.push_back({extents[i], read[i]});
    permute.out.dims.push_back({extents[i], written[i]});
  }
  made.compute = permute;
  return made;
}

[[noreturn]] void too_large(const std::string& text) {
  throw UserError({"operands of a kernel are too large", {}, text, "2^28 elements", {}});
}

constexpr double most_elements_of_operand = 1 << 28;  // limit on the size of a tile

/// Bytes from a view's first element to the end of its last.
std::int64_t bytes_of_view(const TileView& view, const std::string& text) {
  double last = 0;
  for (const ViewDim& dim : view.dims) last += static_cast<double>(dim.extent - 1) * static_cast<double>(dim.stride);
  if (last >= most_elements_of_operand) too_large(text);
  return ceil_div((static_cast<std::int64_t>(last) + 1) * bits(view.dtype), 8);
}

NamedKernel product_kernel(const Machine& machine, const std::string& text, const KernelText& made,
                           const std::vector<Address>& places) {
  const CoreTiming core = core_of(machine);
  const MmaForm form = form_of(machine, std::get<Mma>(made.compute), made.descriptor);
  const MmaBytes bytes = bytes_of(core, form);
  const auto number = [](auto value) { return static_cast<double>(value); };
  if (number(form.batch) * number(form.taps) * number(form.depth) * number(form.moving + form.across) >
          most_elements_of_operand ||
      number(form.batch) * number(form.moving) * number(form.across) > most_elements_of_operand)
    too_large(text);
  return {mma_kernel(*set_of(machine), core, form, {places.at(0), places.at(1), places.at(2)}),
          {{"moving", bytes.moving}, {"kept", bytes.kept}, {"sums", bytes.sums}}};
}

NamedKernel permute_kernel(const Machine& machine, const std::string& text, const KernelText& made,
                           const std::vector<Address>& places) {
  const auto& permute = std::get<Permute>(made.compute);
  double elements = 1;
  for (const ViewDim& dim : permute.in.dims) elements *= static_cast<double>(dim.extent);
  if (elements > most_elements_of_operand) too_large(text);
  const std::int64_t read = bytes_of_view(permute.in, text), written = bytes_of_view(permute.out, text);
  const InstructionLatency model(machine);
  NamedKernel best{{}, {{"in", read}, {"out", written}}};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (Kernel& kernel :
       permute_kernels(*model.table()->set, model.core(), permute, {places.at(0), places.at(1), Address{1} << 38})) {
    DryRun run(model.table());
    run.run(kernel);
    if (const std::int64_t cycles = run.pipeline().drain(); cycles < least)
      least = cycles, best.kernel = std::move(kernel);
  }
  return best;
}

}  // namespace

KernelText kernel_text(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words.empty()) refuse("it is empty", "''", product_form);
  if (words[0] == "mma") return product_text(text, words);
  if (words[0] == "permute") return permute_text(words);
  if (const auto kind = compute_kind(words[0]))
    throw Unsupported({"the text does not name a kernel", {}, std::string(name(*kind)), "mma, permute", {}});
  refuse("unknown kind", "'" + words[0] + "'", product_form);
}

NamedKernel named_kernel(const Machine& machine, const std::string& text, const std::vector<Address>& places) {
  const KernelText made = kernel_text(text);
  return made.descriptor.kind == ComputeKind::mma ? product_kernel(machine, text, made, places)
                                                  : permute_kernel(machine, text, made, places);
}

}  // namespace tilesim::isa
