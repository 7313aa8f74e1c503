/* The devices: accelerators in addition to the CPU backend, like BLAS. ggml's scheduler gives an operation to the first
 * backend that supports it.
 *   Fovea           computes, on the CPU's own buffers, so that nothing is copied
 *   Fovea weights   is there for its buffer type (weights.h), which programs ask a device for when they place weights.
 *                   A device has one type, and that of tensors between operations must be the CPU's. It computes, too,
 *                   but the first one supports whatever it does. */
#include "device.h"
#include "backend.h"
#include "backend_operations.h"
#include "backend_options.h"
#include "delegate.h"
#include "pays.h"
#include "weights.h"

enum { COMPUTE, WEIGHTS, DEVICES };

static bool is_weights(ggml_backend_dev_t device) { return device->context != NULL; }

static const char *get_name(ggml_backend_dev_t device) { return is_weights(device) ? "Fovea weights" : "Fovea"; }

static const char *get_description(ggml_backend_dev_t device) {
    return is_weights(device) ? "Fovea " FOVEA_VERSION_STRING ": packed weights in the CPU's memory"
                              : "Fovea " FOVEA_VERSION_STRING ": attention and products on the CPU";
}

static void get_memory(ggml_backend_dev_t device, size_t *available, size_t *total) {
    (void)device;
    *available = *total = 0; /* the CPU's, which its own device tells */
}

static enum ggml_backend_dev_type get_type(ggml_backend_dev_t device) {
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void get_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props) {
    props->name = get_name(device);
    props->description = get_description(device);
    props->type = get_type(device);
    props->device_id = NULL;
    get_memory(device, &props->memory_free, &props->memory_total);
    props->caps = (struct ggml_backend_dev_caps){.buffer_from_host_ptr = !is_weights(device), .mmap_support = true};
}

static ggml_backend_t init_backend(ggml_backend_dev_t device, const char *params) {
    (void)params;
    return fg_backend_create(device);
}

static ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t device) {
    return is_weights(device) ? fg_weights_type(device) : fg_ggml.backend_cpu_buffer_type();
}

static ggml_backend_buffer_t buffer_from_host_ptr(ggml_backend_dev_t device, void *data, size_t size, size_t most) {
    (void)most;
    if (is_weights(device))
        return NULL;
    return fg_ggml.backend_cpu_buffer_from_ptr(data, size);
}

/* A program that looks for a place for weights asks with a tensor in a buffer of ours, without memory. The answer must
 * be no unless this is what a product multiplies by: others are best where all can read them. */
static bool is_question(const struct ggml_tensor *op) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor *t = op->src[i];
        if (t && fg_weights_hold(t) && !(t->view_src ? t->view_src : t)->data)
            return true;
    }
    return false;
}

static bool is_place(const struct ggml_tensor *op) {
    return fg_is_product(fg_op_of(op->op)) && !fg_weights_hold(op->src[1]);
}

/* Changes nothing: programs ask as often as they like, in any order. */
static bool supports_op(ggml_backend_dev_t device, const struct ggml_tensor *op) {
    (void)device;
    if (fg_is_view(op->op))
        return true;
    bool always = false;
    const fg_op known = fg_op_of(op->op);
    const bool served = known < FG_OPERATIONS && fg_options_take(known, &always) && fg_operations[known].serves(op);
    if (fg_weights_touched(op) && !is_question(op)) /* others could not even read it */
        return (served && !fg_weights_written(op)) || fg_delegate_serves(op);
    return served && (always || fg_pays(op)) && (!is_question(op) || is_place(op));
}

static bool supports_buft(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    (void)device;
    return fg_ggml.backend_buft_is_host(type) || type == fg_weights_type(NULL);
}

/* Without MUL_MAT there are no weights to place. */
size_t fg_device_count(void) {
    bool always;
    return fg_options_none() ? 0 : fg_options_take(FG_MUL_MAT, &always) ? DEVICES : COMPUTE + 1;
}

ggml_backend_dev_t fg_device(ggml_backend_reg_t reg, size_t index) {
    static const struct ggml_backend_device_i functions = {.get_name = get_name,
                                                           .get_description = get_description,
                                                           .get_memory = get_memory,
                                                           .get_type = get_type,
                                                           .get_props = get_props,
                                                           .init_backend = init_backend,
                                                           .get_buffer_type = get_buffer_type,
                                                           .buffer_from_host_ptr = buffer_from_host_ptr,
                                                           .supports_op = supports_op,
                                                           .supports_buft = supports_buft};
    static struct ggml_backend_device devices[DEVICES];
    if (index >= fg_device_count())
        return NULL;
    devices[index] = (struct ggml_backend_device){functions, reg, index == WEIGHTS ? devices : NULL};
    return &devices[index];
}
