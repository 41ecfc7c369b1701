#include "base/arrays.hpp"

#include <array>
#include <string_view>

#include "tilesim/base/error.hpp"

namespace py = pybind11;

namespace tilesim::bindings {

namespace {

struct NumpyName {
  DType dtype;
  std::string_view name;
  bool in_ml_dtypes;
};

constexpr std::array<NumpyName, dtype_count> numpy_names{{
    {DType::f64, "float64", false},
    {DType::f32, "float32", false},
    {DType::f16, "float16", false},
    {DType::bf16, "bfloat16", true},
    {DType::f8e4m3fn, "float8_e4m3fn", true},
    {DType::f8e5m2, "float8_e5m2", true},
    {DType::f8e4m3fnuz, "float8_e4m3fnuz", true},
    {DType::f8e5m2fnuz, "float8_e5m2fnuz", true},
    {DType::f8e8m0fnu, "float8_e8m0fnu", true},
    {DType::f4e2m1fn, "float4_e2m1fn", true},
    {DType::i64, "int64", false},
    {DType::i32, "int32", false},
    {DType::i16, "int16", false},
    {DType::i8, "int8", false},
    {DType::i4, "int4", true},
    {DType::u64, "uint64", false},
    {DType::u32, "uint32", false},
    {DType::u16, "uint16", false},
    {DType::u8, "uint8", false},
    {DType::u4, "uint4", true},
    {DType::boolean, "bool", false},
    {DType::c64, "complex64", false},
    {DType::c128, "complex128", false},
    {DType::f8e4m3ieee, "float8_e4m3", true},
    {DType::f8e3m4, "float8_e3m4", true},
    {DType::f8e4m3b11fnuz, "float8_e4m3b11fnuz", true},
    {DType::f6e2m3fn, "float6_e2m3fn", true},
    {DType::f6e3m2fn, "float6_e3m2fn", true},
    {DType::i2, "int2", true},
    {DType::u2, "uint2", true},
}};

std::string name_of(const py::dtype& dtype) { return dtype.attr("name").cast<std::string>(); }

bool shareable(const py::array& array) {
  constexpr int needed = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  return (array.flags() & needed) == needed && array.dtype().attr("isnative").cast<bool>();
}

/// Drops a reference from any thread; during the interpreter's exit it is left alone.
void release(void* object) {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire gil;
  Py_DECREF(static_cast<PyObject*>(object));
}

}  // namespace

py::dtype numpy_dtype(DType dtype) {
  if (is_two_of_four(dtype)) {  // as an element lies
    const py::tuple values = py::make_tuple("values", numpy_dtype(plain_of(dtype)), py::make_tuple(pattern_values));
    py::list fields;
    fields.append(values);
    fields.append(py::make_tuple("places", py::dtype("uint8")));
    return py::dtype::from_args(fields);
  }
  const NumpyName& entry = numpy_names[static_cast<std::size_t>(dtype)];
  const std::string name(entry.name);
  if (!entry.in_ml_dtypes) return py::dtype(name);
  return py::dtype::from_args(py::module_::import("ml_dtypes").attr(name.c_str()));
}

DType from_numpy_dtype(const py::dtype& dtype) {
  if (dtype.has_fields() && py::object(dtype.attr("names")).equal(py::make_tuple("values", "places")))
    if (const DType plain = from_numpy_dtype(dtype[py::str("values")].attr("base").cast<py::dtype>());
        two_of_four(plain) != plain)
      return two_of_four(plain);
  const std::string name = name_of(dtype);
  for (const NumpyName& entry : numpy_names)
    if (entry.name == name) return entry.dtype;
  std::vector<std::string> allowed;
  for (const NumpyName& entry : numpy_names) allowed.emplace_back(entry.name);
  throw UserError({"an array has a dtype that Tilesim does not have", {}, name, join(allowed), nearest(name, allowed)});
}

Array array_from_python(py::handle object, const std::string& what) {
  py::module_ numpy = py::module_::import("numpy");
  py::array array = py::isinstance<py::array>(object) ? py::reinterpret_borrow<py::array>(object)
                                                      : py::array(numpy.attr("asarray")(object));
  DType dtype = DType::f32;
  try {
    dtype = from_numpy_dtype(array.dtype());
  } catch (const UserError& error) {
    UserError::Parts parts = error.parts();
    parts.place = what;
    throw UserError(std::move(parts));
  }
  if (!shareable(array)) array = numpy.attr("require")(array, numpy_dtype(dtype), py::make_tuple("C", "A"));
  Shape shape(array.shape(), array.shape() + array.ndim());
  auto* data = const_cast<void*>(array.data());
  return {dtype, std::move(shape), data, std::shared_ptr<void>(array.release().ptr(), release)};
}

py::array array_to_python(const Array& array) {
  require(!array.empty(), "an array without memory is handed to Python");
  auto* keeper = new Array(array);
  const py::capsule owner(keeper, [](void* pointer) { delete static_cast<Array*>(pointer); });
  return {numpy_dtype(array.dtype()), array.shape(), keeper->bytes(), owner};
}

std::vector<Array> arrays_from_python(const py::iterable& objects) {
  std::vector<Array> arrays;
  for (const py::handle object : objects)
    arrays.push_back(array_from_python(object, "array " + std::to_string(arrays.size())));
  return arrays;
}

py::list arrays_to_python(const std::vector<Array>& arrays) {
  py::list list;
  for (const Array& array : arrays) list.append(array_to_python(array));
  return list;
}

}  // namespace tilesim::bindings
