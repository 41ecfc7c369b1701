// Translations of device coordinates: per axis the sum modulo its size, or the exclusive or.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::cluster {

/// Positions are numbered with the first axis innermost.
struct Group {
  struct Axis {
    int size = 1;
    bool by_xor = false;  ///< size is a power of two
  };
  std::vector<Axis> axes;

  int size() const {
    int product = 1;
    for (const Axis& axis : axes) product *= axis.size;
    return product;
  }
  int add(int a, int b) const { return combine(a, b, false); }
  int subtract(int a, int b) const { return combine(a, b, true); }
  int negate(int a) const { return combine(0, a, true); }

 private:
  int combine(int a, int b, bool minus) const {
    int result = 0, stride = 1;
    for (const Axis& axis : axes) {
      const int x = a % axis.size, y = b % axis.size;
      a /= axis.size;
      b /= axis.size;
      const int sum = axis.by_xor ? x ^ y : (minus ? (x - y + axis.size) % axis.size : (x + y) % axis.size);
      result += sum * stride;
      stride *= axis.size;
    }
    return result;
  }
};

}  // namespace tilesim::cluster
