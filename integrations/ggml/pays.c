/* Which operations are faster here than on ggml's CPU backend (pays.h), by rules (rules.h). */
#include "pays.h"
#include "backend_options.h"
#include "rules.h"
#include "weights.h"

static fg_rule rule_of(fg_op op, const struct ggml_tensor *t, int64_t rows) {
    const fg_shape shape = op == FG_MUL_MAT ? fg_shape_of(t->ne[0], t->ne[1]) : FG_SHAPE_ANY;
    return fg_rule_for(fg_options_info()->isa, op, fg_type_of(t->type), shape, rows);
}

static bool attention_pays(const struct ggml_tensor *op) {
    const struct ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2];
    const double pairs = (double)(q->ne[1] * q->ne[2] * q->ne[3]) * (double)k->ne[1];
    const double operations = 2 * pairs * (double)(k->ne[0] + v->ne[0]);
    const int64_t items = k->ne[2] * q->ne[3] * q->ne[1];
    for (int i = 1; i <= 2; i++) {
        const fg_rule rule = rule_of(FG_FLASH_ATTN_EXT, op->src[i], q->ne[1]);
        if (!rule.take || operations < (double)rule.least ||
            (rule.spread && rule.spread * items < fg_options_info()->threads))
            return false;
    }
    return true;
}

/* Only weights that are packed once pay: the others are packed in each call. A program that looks for a place for them
 * asks before they are in one. */
static bool product_pays(const struct ggml_tensor *op) {
    const struct ggml_tensor *weights = op->src[0];
    return fg_weights_known(weights) ||
           (fg_weights_hold(weights) && !weights->view_src && rule_of(fg_op_of(op->op), weights, 0).take);
}

/* The first source that is computed, or NULL. */
static const struct ggml_tensor *before(const struct ggml_tensor *op) {
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (op->src[i] && op->src[i]->op != fg_op_none())
            return op->src[i];
    return NULL;
}

/* Operations between attention and products pay if the product before them is ours, or if none is before them in the
 * graph: a change of backend costs more than they do. */
static bool others_pay(const struct ggml_tensor *op) {
    enum { FAR = 64 }; /* within a layer */
    for (int i = 0; i < FAR; i++) {
        op = before(op);
        if (!op)
            return true;
        const fg_op known = fg_op_of(op->op);
        if (fg_is_product(known))
            return product_pays(op);
        if (!fg_is_view(op->op) && known == FG_OPERATIONS)
            return false;
    }
    return false;
}

bool fg_pays(const struct ggml_tensor *op) {
    const fg_op known = fg_op_of(op->op);
    return known == FG_FLASH_ATTN_EXT ? attention_pays(op) : fg_is_product(known) ? product_pays(op) : others_pay(op);
}
