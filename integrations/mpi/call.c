/* Arguments, memory and tensors of an execution (call.h). */
#include "call.h"

#include <string.h>

int64_t fv_mpi_kv_len(const fv_mpi_call *call, int64_t b) {
    return call->args.kv_lens ? call->args.kv_lens[b] : call->plan->problem.desc.kv_len;
}

int64_t fv_mpi_q_len(const fv_mpi_call *call, int64_t b) {
    return call->args.q_lens ? call->args.q_lens[b] : call->plan->problem.desc.q_len;
}

void *fv_mpi_take(fv_mpi_call *call, int64_t bytes) {
    void *begin = call->memory;
    call->memory += fv_mpi_units(bytes);
    return begin;
}

int64_t fv_mpi_scratch_bytes(const fovea_mpi_attention_plan *plan) {
    return fv_mpi_units(4 * fv_mpi_max(1, plan->problem.desc.batch) * (int64_t)sizeof(int64_t)) +
           fv_mpi_units((int64_t)plan->attention_bytes);
}

fv_mpi_scratch fv_mpi_scratch_take(fv_mpi_call *call) {
    int64_t *lens = fv_mpi_take(call, 4 * fv_mpi_max(1, call->plan->problem.desc.batch) * (int64_t)sizeof(int64_t));
    return (fv_mpi_scratch){lens, fv_mpi_take(call, (int64_t)call->plan->attention_bytes)};
}

fovea_tensor fv_mpi_part(const fovea_tensor *whole, int64_t head, int64_t heads, int64_t token, int64_t tokens) {
    fovea_tensor t = *whole;
    t.shape[1] = heads;
    t.shape[2] = tokens;
    if (t.data)
        t.data = (char *)t.data + (head * t.stride[1] + token * t.stride[2]) * fv_mpi_element(t.dtype);
    return t;
}

fovea_tensor fv_mpi_view(const fv_mpi_call *call, const fv_mpi_block *b, const fovea_tensor *whole) {
    const int64_t group = fv_mpi_heads_per_key(&call->plan->problem.desc);
    return fv_mpi_part(whole, b->head * group, b->heads * group, b->q_local, b->queries);
}

fovea_tensor fv_mpi_packed(const fv_mpi_call *call, const fv_mpi_block *b, const fovea_tensor *like, void *data) {
    const fovea_attention_desc *d = &call->plan->problem.desc;
    return fovea_tensor_bhtd(data, like->dtype, d->batch, b->heads * fv_mpi_heads_per_key(d), b->queries,
                             like->shape[3]);
}

void fv_mpi_copy(const fovea_tensor *from, const fovea_tensor *to) {
    const int64_t size = fv_mpi_element(from->dtype);
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t h = 0; h < to->shape[1]; h++)
            for (int64_t t = 0; t < to->shape[2]; t++)
                memcpy((char *)to->data + (b * to->stride[0] + h * to->stride[1] + t * to->stride[2]) * size,
                       (const char *)from->data +
                           (b * from->stride[0] + h * from->stride[1] + t * from->stride[2]) * size,
                       (size_t)(to->shape[3] * size));
}

void fv_mpi_result(const fv_mpi_call *call, const fv_mpi_block *b, void *data, fovea_tensor *out, fovea_tensor *lse) {
    *out = fv_mpi_packed(call, b, &call->args.out, data);
    *lse = (fovea_tensor){0};
    const int64_t outs = out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3] * fv_mpi_element(out->dtype);
    if (call->args.lse.data)
        *lse = fv_mpi_packed(call, b, &call->args.lse, (char *)data + fv_mpi_units(outs));
}

static void copy_result(const fv_mpi_call *call, const fv_mpi_block *b, void *data, bool pack) {
    fovea_tensor out, lse;
    fv_mpi_result(call, b, data, &out, &lse);
    const fovea_tensor mine = fv_mpi_view(call, b, &call->args.out), my_lse = fv_mpi_view(call, b, &call->args.lse);
    fv_mpi_copy(pack ? &mine : &out, pack ? &out : &mine);
    if (lse.data)
        fv_mpi_copy(pack ? &my_lse : &lse, pack ? &lse : &my_lse);
}

void fv_mpi_result_unpack(const fv_mpi_call *call, const fv_mpi_block *b, void *data) {
    copy_result(call, b, data, false);
}

void fv_mpi_result_pack(const fv_mpi_call *call, const fv_mpi_block *b, void *data) {
    copy_result(call, b, data, true);
}
