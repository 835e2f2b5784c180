// Everything that is compiled; see `ablate.lm.model.native.library` for when and how.
#include "highway.h"
#include "lstm.h"
#include "mogrifier.h"
#include "packed.h"
#include "product.h"
#include "scan.h"
#include "softmax.h"

extern "C" long packed_numbers(long inner, long columns) { return packed_size(inner, columns); }

extern "C" void pack_matrix(long inner, long columns, const float* from, long step_k, long step_n,
                            float* to) {
  pack(inner, columns, {from, step_k, step_n}, to);
}
