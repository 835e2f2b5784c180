// Products of large matrices: B is packed in blocks of which a panel fits the second-level cache.
#pragma once
#include <cstdlib>
#include <memory>
#include "packed.h"

constexpr long BLOCK_INNER = 2048, BLOCK_NUMBERS = 512 << 10, BLOCK_ROWS = 200;
// A product with a short inner dimension is bound by writing C; B then stays in the second-level cache.
constexpr long NARROW = 96, NARROW_NUMBERS = 128 << 10;

// A buffer for that many numbers, which each thread keeps, since first use of memory is slow.
inline float* room_for(long numbers) {
  struct Freed { void operator()(float* at) const { std::free(at); } };
  static thread_local std::unique_ptr<float, Freed> room;
  static thread_local long size = 0;
  if (numbers > size) {
    room.reset((float*)std::aligned_alloc(64, (4 * numbers + 63) / 64 * 64));
    size = numbers;
  }
  return room.get();
}

// C (+)= A B, for a range of C's rows. One of A's strides is 1, and one of B's. start: C's initial
// value for every column, padded to whole panels; null: C itself.
extern "C" void multiply(long inner, long columns, const float* a_at, long a_row, long a_column,
                         const float* b_at, long b_row, long b_column, const float* start, float* c,
                         long c_step, long first, long last, long) {
  const Matrix a{a_at, a_row, a_column}, b{b_at, b_row, b_column};
  const long most_inner = std::max(1L, std::min(inner, BLOCK_INNER));
  const bool narrow = inner < NARROW;
  const long numbers = narrow ? NARROW_NUMBERS : BLOCK_NUMBERS;
  const long block_rows = narrow ? MOST_ROWS : BLOCK_ROWS;
  const long most_columns = std::max(PANEL, numbers / most_inner / PANEL * PANEL);
  float* packed = room_for(packed_size(most_inner, std::min(columns, most_columns)));
  for (long column = 0; column < columns; column += most_columns) {
    const long width = std::min(most_columns, columns - column);
    for (long k = 0; k < std::max(1L, inner); k += most_inner) {  // once even if inner = 0, for start
      const long depth = std::min(most_inner, inner - k);
      pack(depth, width, b.from(k, column), packed);
      for (long row = first; row < last; row += block_rows) {
        const long rows = std::min(block_rows, last - row);
        const Matrix part = a.from(row, k);
        float* into = c + row * c_step + column;
        const float* begin = start && k == 0 ? start + column : nullptr;
        if (a_row == 1) add_tiles<true>(rows, depth, width, part, packed, into, c_step, begin);
        else add_tiles<false>(rows, depth, width, part, packed, into, c_step, begin);
      }
    }
  }
}
