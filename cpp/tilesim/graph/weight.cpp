// Elements of weights: in memory, generated from a counter, or read from a file.
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/file.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/no_memory.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian elements");

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t hash(const std::string& text) {  // FNV-1a
  std::uint64_t value = 1469598103934665603U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return value;
}

/// Floats: uniform in offset ± scale, and so are integers of a scale from 1 on, rounded: codes of such floats. Other
/// integers: -4 to 4 (unsigned: 0 to 7). bool: one bit.
Array random_array(const Weight& weight, const std::string& name) {
  const std::uint64_t stream = mix(mix(static_cast<std::uint64_t>(weight.seed)) ^ hash(name));
  const auto bits_at = [&](std::int64_t i) {
    return mix(stream + static_cast<std::uint64_t>(i) * 0xd1342543de82ef95U);
  };
  const auto number = [&](std::int64_t i) {
    return weight.offset + weight.scale * (static_cast<double>(bits_at(i) >> 11) * 0x1p-52 - 1);
  };
  const DType dtype = weight.type.dtype;
  const bool floating = is_float(dtype) || dtype_class(dtype) == DTypeClass::complex;
  if (dtype == DType::f32) {
    Array values(dtype, weight.type.shape);
    for (std::int64_t i = 0; i < values.size(); ++i) {
      if ((i & 0xFFFF) == 0) worked(0x10000);
      values.as<float>()[i] = static_cast<float>(number(i));
    }
    return values;
  }
  Array values(floating ? DType::f64 : DType::i64, weight.type.shape);
  const bool is_signed = dtype_class(dtype) == DTypeClass::signed_integer;
  const bool codes = !floating && dtype != DType::boolean && weight.scale >= 1;
  for (std::int64_t i = 0; i < values.size(); ++i) {
    if ((i & 0xFFFF) == 0) worked(0x10000);
    if (floating) {
      values.as<double>()[i] = number(i);
    } else if (codes) {
      values.as<std::int64_t>()[i] = std::llrint(number(i));
    } else {
      const std::uint64_t range = dtype == DType::boolean ? 2 : is_signed ? 9 : 8;
      values.as<std::int64_t>()[i] = static_cast<std::int64_t>((bits_at(i) >> 1) % range) - (is_signed ? 4 : 0);
    }
  }
  return values.to(dtype);
}

class WeightFile {
 public:
  WeightFile(const Weight& weight, const std::string& name)
      : weight_(weight), name_(name), file_(weight.path, "weight \"" + name + "\"") {}

  Array read() {
    if (!weight_.path.ends_with(".npy")) return mapped();
    const std::int64_t start = after_numpy_header();
    check_fits(start);
    Array array(weight_.type.dtype, weight_.type.shape);
    file_.read(start, array.bytes(), array.nbytes());
    return array;
  }

 private:
  /// The elements of a raw file where they lie: pages are read when they are used. Private, so a write stays here.
  Array mapped() const {
    check_fits(weight_.byte_offset);
    if (bytes() == 0) return Array(weight_.type.dtype, weight_.type.shape);
    const std::int64_t size = file_.size();
    void* start = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                         file_.descriptor(), 0);
    if (start == MAP_FAILED) fail("the file of a weight cannot be mapped", {}, {});
    const std::shared_ptr<void> keeper(start, [size](void* p) { ::munmap(p, static_cast<std::size_t>(size)); });
    const Array view(weight_.type.dtype, weight_.type.shape, static_cast<std::byte*>(start) + weight_.byte_offset,
                     keeper);
    // Kernels read elements in place; an element that is not aligned to its width must be copied.
    return weight_.byte_offset % host_bytes(weight_.type.dtype) == 0 ? view : view.clone();
  }

  std::int64_t bytes() const { return element_count(weight_.type.shape) * host_bytes(weight_.type.dtype); }

  void check_fits(std::int64_t start) const {
    if (start >= 0 && file_.size() >= bytes() && start <= file_.size() - bytes()) return;
    const bool inside = start >= 0 && start <= file_.size();
    fail("the file of a weight is too short", std::to_string(inside ? file_.size() - start : 0) + " bytes",
         std::to_string(bytes()) + " bytes for " + to_string(weight_.type));
  }

  [[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& wanted) const {
    throw UserError({what, "weight \"" + name_ + "\", file " + weight_.path, got, wanted, {}});
  }

  /// NumPy enhancement proposal 1: magic, version, header length, and a Python dictionary as text.
  std::int64_t after_numpy_header() const {
    char head[12] = {};
    const std::int64_t got = file_.read(0, head, sizeof head);
    if (got < 10 || std::memcmp(head, "\x93NUMPY", 6) != 0) fail("not a .npy file", {}, "the NumPy array format");
    std::uint32_t length = 0;
    const bool wide = head[6] >= 2;
    std::memcpy(&length, head + 8, wide ? 4 : 2);
    const std::int64_t before = wide ? 12 : 10;
    if (length > (1U << 20)) fail("the header of a .npy file is too long", std::to_string(length), "at most 1 MiB");
    std::string header(length, ' ');
    if (file_.read(before, header.data(), length) != length) fail("a .npy file ends in its header", {}, {});
    check_header(header);
    return before + length;
  }

  static std::string value_of(const std::string& header, const std::string& key) {
    const std::size_t at = header.find("'" + key + "':");
    if (at == std::string::npos) return {};
    const std::size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
    if (begin == std::string::npos) return {};
    const std::size_t end = header.find(header[begin] == '(' ? ')' : ',', begin);
    return end == std::string::npos ? std::string() : header.substr(begin, end - begin);
  }

  void check_header(const std::string& header) const {
    if (value_of(header, "fortran_order") != "False")
      fail("a .npy file must be in row-major order", value_of(header, "fortran_order"), "fortran_order False");
    std::string shape = value_of(header, "shape"), wanted;
    std::erase_if(shape, [](char c) { return c == ' ' || c == '('; });
    if (shape.ends_with(',')) shape.pop_back();
    for (const std::int64_t extent : weight_.type.shape) wanted += (wanted.empty() ? "" : ",") + std::to_string(extent);
    if (shape != wanted) fail("a .npy file has another shape", "[" + shape + "]", to_string(weight_.type.shape));
    std::string descr = value_of(header, "descr");
    std::erase_if(descr, [](char c) { return c == '\''; });
    if (!names_dtype(descr)) fail("a .npy file has another dtype", descr, std::string(name(weight_.type.dtype)));
  }

  /// ml_dtypes arrays are saved as raw bytes ("V2", "V1").
  bool names_dtype(const std::string& descr) const {
    const DType dtype = weight_.type.dtype;
    if (descr.size() < 3 || descr[0] == '>') return false;
    const std::string width = std::to_string(host_bytes(dtype)), code = descr.substr(1);
    switch (dtype) {
      case DType::f64:
      case DType::f32:
      case DType::f16:
        return code == "f" + width;
      case DType::c64:
      case DType::c128:
        return code == "c" + width;
      case DType::boolean:
        return code == "b1";
      default:
        break;
    }
    if (is_integer(dtype) && value_bits(dtype) >= 8)
      return code == (dtype_class(dtype) == DTypeClass::signed_integer ? "i" : "u") + width;
    return code == "V" + width;
  }

  const Weight& weight_;
  const std::string& name_;
  InputFile file_;
};

}  // namespace

Array Weight::load(const std::string& name) const {
  switch (source) {
    case Source::random:
      return naming("weight \"" + name + "\"", [&] { return random_array(*this, name); });
    case Source::file:
      return naming("weight \"" + name + "\"", [&] { return WeightFile(*this, name).read(); });
    case Source::data:
      break;
  }
  if (data.empty() && element_count(type.shape) > 0)
    throw UserError({"a weight has no data", "weight \"" + name + "\"", {}, to_string(type), {}});
  if (data.dtype() != type.dtype || data.shape() != type.shape)
    throw UserError({"the data of a weight have another type",
                     "weight \"" + name + "\"",
                     to_string(TensorType{data.dtype(), data.shape()}),
                     to_string(type),
                     {}});
  return data;
}

}  // namespace tilesim
