// C = A B where B is packed into panels two vectors wide, which tiles of C read sequentially, at
// memory speed. A recurrence reads the same B at every step, so packing pays even with few rows.
#pragma once
#include <algorithm>
#include "vector.h"

constexpr long PANEL = 2 * WIDTH;
constexpr long LINE = 16;  // numbers of a cache line

// The last panel is one vector wide if that is enough.
inline long panel_width(long columns) { return columns > WIDTH ? PANEL : WIDTH; }

inline long packed_size(long inner, long columns) {
  const long rest = columns % PANEL;
  return inner * (columns - rest + (rest ? panel_width(rest) : 0));
}

// A matrix whose element [i][j] is at[i * row + j * column].
struct Matrix {
  const float* at;
  long row, column;
  Matrix from(long i, long j) const { return {at + i * row + j * column, row, column}; }
};

// One of log2(WIDTH) steps: exchange blocks of BY by BY numbers across the diagonal.
template <long BY>
inline void exchange(Vector* rows) {
  Bits low, high;
  for (long lane = 0; lane < WIDTH; lane++) {
    low[lane] = lane & BY ? WIDTH + lane - BY : lane;
    high[lane] = lane & BY ? WIDTH + lane : lane + BY;
  }
  for (long i = 0; i < WIDTH; i++)
    if (!(i & BY)) {
      const Vector a = rows[i], b = rows[i + BY];
#if defined(__clang__)
      for (long lane = 0; lane < WIDTH; lane++) {
        rows[i][lane] = low[lane] < WIDTH ? a[low[lane]] : b[low[lane] - WIDTH];
        rows[i + BY][lane] = high[lane] < WIDTH ? a[high[lane]] : b[high[lane] - WIDTH];
      }
#else
      rows[i] = __builtin_shuffle(a, b, low);
      rows[i + BY] = __builtin_shuffle(a, b, high);
#endif
    }
}

// WIDTH vectors become their transpose. Each step has constants of its own, so that the vectors stay
// in registers.
template <long BY = 1>
inline void transpose(Vector* rows) {
  if constexpr (BY < WIDTH) {
    exchange<BY>(rows);
    transpose<2 * BY>(rows);
  }
}

// WIDTH rows of `columns` columns of a matrix stored column by column; the other columns are zeros.
template <bool WHOLE>
inline void pack_square(long columns, const float* from, long step, float* to, long width) {
  Vector rows[WIDTH]{};
  for (long n = 0; n < (WHOLE ? WIDTH : columns); n++) rows[n] = load(from + n * step);
  transpose(rows);
  for (long i = 0; i < WIDTH; i++) store(to + i * width, rows[i]);
}

// Pack one panel of a matrix stored column by column.
inline void pack_turned(long inner, long left, Matrix b, float* to, long width) {
  const long whole = inner / WIDTH * WIDTH;
  for (long half = 0; half < width; half += WIDTH) {
    const long columns = std::min(WIDTH, left - half);
    const float* from = b.at + half * b.column;
    float* into = to + half;
    for (long k = 0; k < whole; k += WIDTH)
      if (columns == WIDTH) pack_square<true>(columns, from + k, b.column, into + k * width, width);
      else pack_square<false>(columns, from + k, b.column, into + k * width, width);
    for (long k = whole; k < inner; k++)
      for (long n = 0; n < WIDTH; n++)
        into[k * width + n] = n < columns ? from[n * b.column + k] : 0;
  }
}

// Pack one panel of a matrix stored row by row.
inline void pack_straight(long inner, long left, Matrix b, float* to, long width) {
  for (long k = 0; k < inner; k++, to += width) {
    const float* from = b.at + k * b.row;
    if (left == PANEL) {  // almost always, and then no call
      store(to, load(from));
      store(to + WIDTH, load(from + WIDTH));
      continue;
    }
    std::memcpy(to, from, 4 * left);
    std::memset(to + left, 0, 4 * (width - left));
  }
}

inline void pack(long inner, long columns, Matrix b, float* to) {
  for (long first = 0; first < columns; first += PANEL) {
    const long left = std::min(PANEL, columns - first), width = panel_width(left);
    const Matrix here = b.from(0, first);
    if (b.row == 1) pack_turned(inner, left, here, to, width);
    else pack_straight(inner, left, here, to, width);
    to += inner * width;
  }
}

template <long ROWS, long VECTORS, bool TURNED>
static void tile(Matrix a, const float* b, long inner, float* c, long c_step, const float* start) {
  Vector sums[ROWS][VECTORS];
  // C comes from far away: this tile while it is computed, or the next, if this one starts from C.
  const float* soon = start ? c : c + ROWS * c_step;
  for (long i = 0; i < ROWS; i++) {
    for (long j = 0; j < VECTORS; j += LINE / WIDTH)
      __builtin_prefetch(soon + i * c_step + j * WIDTH, 1);
    for (long j = 0; j < VECTORS; j++)
      sums[i][j] = load(start ? start + j * WIDTH : c + i * c_step + j * WIDTH);
  }
  const long step = TURNED ? a.column : a.row;
  for (long k = 0; k < inner; k++, b += VECTORS * WIDTH) {
    Vector row[VECTORS];
    for (long j = 0; j < VECTORS; j++) row[j] = load(b + j * WIDTH);
    for (long j = 0; j < VECTORS; j++) __builtin_prefetch(b + (24 * VECTORS + j) * WIDTH);
    if (TURNED) __builtin_prefetch(a.at + (k + 12) * step + ROWS);
    for (long i = 0; i < ROWS; i++)
      for (long j = 0; j < VECTORS; j++)
        sums[i][j] += (TURNED ? a.at[i + k * step] : a.at[i * step + k]) * row[j];
  }
  for (long i = 0; i < ROWS; i++)
    for (long j = 0; j < VECTORS; j++) store(c + i * c_step + j * WIDTH, sums[i][j]);
}

template <long VECTORS, bool TURNED, long ROWS = MOST_ROWS>
static void some_rows(long rows, Matrix a, const float* b, long inner, float* c, long c_step,
                      const float* start) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS) tile<ROWS, VECTORS, TURNED>(a, b, inner, c, c_step, start);
    else some_rows<VECTORS, TURNED, ROWS - 1>(rows, a, b, inner, c, c_step, start);
  }
}

// Some rows of a panel; a panel wider than C's remaining columns goes through a buffer.
template <bool TURNED>
inline void add_panel(long rows, long inner, long columns, Matrix a, const float* b, float* c,
                      long c_step, const float* start) {
  const long width = panel_width(columns);
  float room[MOST_ROWS * PANEL];
  float* into = columns == width ? c : room;
  const long step = columns == width ? c_step : width;
  if (into == room && !start)
    for (long i = 0; i < rows; i++) std::memcpy(room + i * width, c + i * c_step, 4 * columns);
  if (width == PANEL) some_rows<2, TURNED>(rows, a, b, inner, into, step, start);
  else some_rows<1, TURNED>(rows, a, b, inner, into, step, start);
  if (into == room)
    for (long i = 0; i < rows; i++) std::memcpy(c + i * c_step, room + i * width, 4 * columns);
}

// C [rows, columns] (+)= A [rows, inner] B, tile by tile. start: the initial value of every column,
// padded to whole panels; null: C itself.
template <bool TURNED>
inline void add_tiles(long rows, long inner, long columns, Matrix a, const float* packed, float* c,
                      long c_step, const float* start) {
  const long tiles = (rows + MOST_ROWS - 1) / MOST_ROWS;
  for (long first = 0; first < columns; first += PANEL) {
    const long width = std::min(PANEL, columns - first);
    for (long number = 0; number < tiles; number++) {
      const long from = rows * number / tiles, to = rows * (number + 1) / tiles;
      add_panel<TURNED>(to - from, inner, width, a.from(from, 0), packed,
                        c + from * c_step + first, c_step, start ? start + first : nullptr);
    }
    packed += inner * panel_width(width);
  }
}

// C += A B, for few rows stored one after the other.
inline void add_product(long rows, long inner, long columns, const float* a, long a_step,
                        const float* packed, float* c, long c_step) {
  add_tiles<false>(rows, inner, columns, {a, a_step, 1}, packed, c, c_step, nullptr);
}
