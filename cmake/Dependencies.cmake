# Eigen, nlohmann-json, Boost.Test and pybind11: a system copy where CMake finds one, otherwise the wheel
# (cmeel-eigen, nlohmann-json, cmeel-boost, pybind11) seen by the Python interpreter.
set(Python_FIND_STRATEGY LOCATION)
set(python_parts Interpreter)
if(TILESIM_PYTHON)
  list(APPEND python_parts Development.Module)
endif()
find_package(Python 3.10 REQUIRED COMPONENTS ${python_parts})

execute_process(
  COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/wheel_dirs.py
  OUTPUT_VARIABLE wheel_dirs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(POP_FRONT wheel_dirs wheel_cmeel wheel_json wheel_pybind11)

# Eigen 3.4 or later.
find_package(Eigen3 CONFIG QUIET)
if(NOT Eigen3_FOUND OR Eigen3_VERSION VERSION_LESS 3.4)
  unset(Eigen3_DIR CACHE)
  find_package(Eigen3 CONFIG REQUIRED PATHS ${wheel_cmeel}/share/eigen3/cmake NO_DEFAULT_PATH)
endif()
target_link_libraries(tilesim_eigen INTERFACE Eigen3::Eigen)
message(STATUS "Eigen ${Eigen3_VERSION}: ${Eigen3_DIR}")

# nlohmann-json 3.10 or later; the wheel has headers and no CMake package.
find_package(nlohmann_json 3.10 CONFIG QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_path(json_include nlohmann/json.hpp HINTS ${wheel_json} REQUIRED NO_CACHE)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${json_include})
  message(STATUS "nlohmann-json: ${json_include}")
endif()

if(TILESIM_TESTS)
  find_path(boost_include boost/test/included/unit_test.hpp NO_CACHE)
  if(NOT boost_include)
    find_path(boost_include boost/test/included/unit_test.hpp PATHS ${wheel_cmeel}/include NO_DEFAULT_PATH REQUIRED NO_CACHE)
  endif()
  add_library(tilesim_boost_test INTERFACE IMPORTED)
  target_include_directories(tilesim_boost_test INTERFACE ${boost_include})
  # The library that belongs to the headers; to compile the framework instead takes 13 seconds.
  find_library(boost_test_library boost_unit_test_framework PATHS ${boost_include}/../lib NO_DEFAULT_PATH NO_CACHE)
  if(boost_test_library MATCHES "\\.so$" AND NOT TILESIM_SANITIZE)
    target_link_libraries(tilesim_boost_test INTERFACE ${boost_test_library})
    target_compile_definitions(tilesim_boost_test INTERFACE BOOST_TEST_DYN_LINK)
  endif()
  message(STATUS "Boost.Test: ${boost_include} ${boost_test_library}")
endif()

if(TILESIM_PYTHON)
  find_package(pybind11 3 CONFIG QUIET)
  if(NOT pybind11_FOUND)
    find_package(pybind11 3 CONFIG REQUIRED PATHS ${wheel_pybind11} NO_DEFAULT_PATH)
  endif()
  message(STATUS "pybind11 ${pybind11_VERSION}: ${pybind11_DIR}")
endif()
