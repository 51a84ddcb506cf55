// Compiled once per instruction set. BUDGETRON_TARGET is the name of its namespace, BUDGETRON_VECTOR the size of a register in bytes.
//
// Neither this file nor the loops that it includes may use std:: templates. The linker keeps only one copy of each instance of a template, and
// it could keep the one that was compiled for an instruction set that the processor does not have.
#include "simd/simd.hpp"

#include "simd/dense_loops.hpp"
#include "simd/eviction_loops.hpp"
#include "simd/feature_loops.hpp"
#include "simd/kernel_loops.hpp"
#include "simd/sparse_loops.hpp"
#include "simd/vector_loops.hpp"
#include "simd/replay_loops.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {

#define BUDGETRON_STRING(x) #x
#define BUDGETRON_NAME(x) BUDGETRON_STRING(x)
extern const Simd table;
const Simd table = {BUDGETRON_NAME(BUDGETRON_TARGET),
                   products<float>,
                   products<double>,
                   products_lane<float>,
                   products_lane<double>,
                   squares<float>,
                   squares<double>,
                   rough_square<float>,
                   rough_square<double>,
                   scatter<float>,
                   scatter<double>,
                   scatter<int16_t>,
                   scatter_integers,
                   columns_integers,
                   to_doubles,
                   integer_sum<float>,
                   integer_sum<double>,
                   find,
                   sparse_square<float>,
                   sparse_square<double>,
                   gaussian<float>,
                   gaussian<double>,
                   polynomial<float>,
                   polynomial<double>,
                   clique,
                   dot,
                   axpy,
                   axpy_squares,
                   sizes,
                   residuals,
                   extremes,
                   oldest_within,
                   oldest,
                   shares,
                   first_above,
                   divide_by_survival,
                   symmetric_pass,
                   symmetric_pass_f32,
                   symmetric_multiply,
                   phases,
                   cos_sin,
                   cos_sin_f32,
                   dot_f32<double>,
                   dot_f32<float>,
                   adagrad<double>,
                   adagrad<float>,
                   symmetric_add,
                   replay,
                   evict_slot,
                   add_rows};

}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
