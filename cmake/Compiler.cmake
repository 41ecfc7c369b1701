# Language level, warnings, floating point and sanitizers, the same for every target (through `tilesim_options`).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TILESIM_CCACHE ccache)
  if(TILESIM_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TILESIM_CCACHE})
  endif()
endif()

add_library(tilesim_options INTERFACE)
target_compile_features(tilesim_options INTERFACE cxx_std_20)
# No contraction and no fast-math: the same expression gives the same bits in every function of a build.
target_compile_options(tilesim_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
if(TILESIM_WERROR)
  target_compile_options(tilesim_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # `"text" + std::string` (GCC bug 105651, mended in 13).
  target_compile_options(tilesim_options INTERFACE -Wno-restrict)
endif()

if(TILESIM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Classes local to one source look as if a header declared them, names of one as if those of another hid them.
  # The collector of the compiler itself starts at 128 MB, which a batch passes many times: a tenth of the time.
  target_compile_options(tilesim_options INTERFACE -Wno-subobject-linkage -Wno-shadow "SHELL:--param ggc-min-heapsize=500000")
endif()

if(TILESIM_SANITIZE)
  target_compile_options(tilesim_options INTERFACE -fsanitize=${TILESIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tilesim_options INTERFACE -fsanitize=${TILESIM_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers GCC reports uninitialized values and array bounds that no path reaches.
    target_compile_options(tilesim_options INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()

# Every unit that includes Eigen links this, so that all of them agree on vector width and alignment.
add_library(tilesim_eigen INTERFACE)
if(TILESIM_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native TILESIM_HAS_MARCH_NATIVE)
  if(TILESIM_HAS_MARCH_NATIVE)
    target_compile_options(tilesim_eigen INTERFACE -march=native)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's own AVX-512 intrinsics start from values that are undefined on purpose (GCC bug 105593).
  target_compile_options(tilesim_eigen INTERFACE -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
target_compile_definitions(tilesim_eigen INTERFACE EIGEN_MPL2_ONLY EIGEN_DONT_PARALLELIZE)
