// Programs as text for the tests.
#pragma once

#include <cstring>
#include <functional>
#include <string>

#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/run/execute.hpp"

namespace tilesim::test {

inline program::Program parse(const std::string& body, const std::string& rest = R"("tensors": [], )") {
  return program::Program::from_json(Json::parse(
      R"({"schema": "tilesim.program", "version": 1, "name": "test", )" + rest + R"("do": [)" + body + "]}", "p.json"));
}

/// c = a * b in tiles of 4, ragged, with double buffers: a [7, 6], b [6, 5].
inline const std::string gemm_parts = R"x(
  "parameters": {"M": 7, "N": 5, "K": 6},
  "tensors": [{"name": "A", "dtype": "f32", "shape": ["M", "K"], "role": "input"},
              {"name": "B", "dtype": "f32", "shape": ["K", "N"], "role": "input"},
              {"name": "C", "dtype": "f32", "shape": ["M", "N"], "role": "output"}],
  "slots": [{"name": "a", "dtype": "f32", "elements": 16, "depth": 2, "address": 0, "consumers": ["mma0"]},
            {"name": "b", "dtype": "f32", "elements": 16, "depth": 2, "address": 128, "consumers": ["mma0"]},
            {"name": "c", "dtype": "f32", "elements": 16, "depth": 2, "address": 256, "consumers": ["store0"]}], )x";
inline const std::string gemm_body = R"x(
  {"for": "m", "extent": "ceildiv(M, 4)", "do": [{"for": "n", "extent": "ceildiv(N, 4)", "do": [
    {"acquire": "c", "queues": ["mma0"]},
    {"for": "k", "extent": "ceildiv(K, 4)", "do": [
      {"acquire": "a", "queues": ["load0"]},
      {"load": {"tensor": "A", "at": ["4*m", "4*k"], "slot": "a", "dims": [
        {"extent": "min(4, M - 4*m)", "axis": 0, "stride": 4},
        {"extent": "min(4, K - 4*k)", "axis": 1, "stride": 1}]}, "queue": "load0"},
      {"commit": "a", "queue": "load0"},
      {"acquire": "b", "queues": ["load0"]},
      {"load": {"tensor": "B", "at": ["4*k", "4*n"], "slot": "b", "dims": [
        {"extent": "min(4, K - 4*k)", "axis": 0, "stride": 4},
        {"extent": "min(4, N - 4*n)", "axis": 1, "stride": 1}]}, "queue": "load0"},
      {"commit": "b", "queue": "load0"},
      {"wait": "a", "queue": "mma0"},
      {"wait": "b", "queue": "mma0"},
      {"mma": {"a": {"slot": "a", "dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 1]]},
               "b": {"slot": "b", "dims": [["min(4, K - 4*k)", 4], ["min(4, N - 4*n)", 1]]},
               "c": {"slot": "c", "dims": [["min(4, M - 4*m)", 4], ["min(4, N - 4*n)", 1]]},
               "dims": [0, 1, 1, 1], "accumulate": "0 < k"}, "queue": "mma0"},
      {"release": "a", "queue": "mma0"},
      {"release": "b", "queue": "mma0"}]},
    {"commit": "c", "queue": "mma0"},
    {"wait": "c", "queue": "store0"},
    {"store": {"tensor": "C", "at": ["4*m", "4*n"], "slot": "c", "dims": [
      {"extent": "min(4, M - 4*m)", "axis": 0, "stride": 4},
      {"extent": "min(4, N - 4*n)", "axis": 1, "stride": 1}]}, "queue": "store0"},
    {"release": "c", "queue": "store0"}]}]})x";

inline program::Program gemm() { return parse(gemm_body, gemm_parts); }

/// The GEMM with one piece of its text replaced.
inline program::Program gemm_with(const std::string& from, const std::string& to) {
  std::string body = gemm_body, parts = gemm_parts;
  std::string& text = body.find(from) != std::string::npos ? body : parts;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw InternalError("not in the program: " + from);
  text.replace(at, from.size(), to);
  return parse(body, parts);
}

inline std::string mistake(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

inline Array matrix(std::int64_t rows, std::int64_t columns, int seed) {
  Array array(DType::f32, {rows, columns});
  for (std::int64_t i = 0; i < array.size(); ++i)
    array.as<float>()[i] = static_cast<float>((i * 7 + seed * 5) % 11 - 5);
  return array;
}

}  // namespace tilesim::test
