/* The structs of DLPack 1.3 that arrays are exchanged by, written from the facts of its ABI: names, order and types of
 * the fields, numbers of the codes. (https://dmlc.github.io/dlpack/latest/c_api.html) */
#ifndef PY_DLPACK_H
#define PY_DLPACK_H

#include <stdint.h>

enum { DL_MAJOR = 1, DL_MINOR = 3 };
enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 }; /* devices whose memory a CPU reads */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_OPAQUE = 3, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
enum { DL_E4M3FN = 10 }; /* of the floats of 8 bits */
enum { DL_FLAG_READ_ONLY = 1, DL_FLAG_IS_COPIED = 2 };

typedef struct DLPackVersion {
    uint32_t major, minor;
} DLPackVersion;

typedef struct DLDevice {
    int32_t device_type, device_id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL, in versions before 1.2: contiguous */
    uint64_t byte_offset;
} DLTensor;

/* Capsules "dltensor", of producers before version 1. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/* Capsules "dltensor_versioned". */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

typedef struct DLPackExchangeAPIHeader {
    DLPackVersion version;
    struct DLPackExchangeAPIHeader *prev_api; /* of an older major version, or NULL */
} DLPackExchangeAPIHeader;

/* The target of the capsule type.__dlpack_c_exchange_api__, named "dlpack_exchange_api". Functions return 0 for
 * success. */
typedef struct DLPackExchangeAPI {
    DLPackExchangeAPIHeader header;
    int (*managed_tensor_allocator)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                                    void (*set_error)(void *error_ctx, const char *kind, const char *message));
    int (*managed_tensor_from_py_object_no_sync)(void *object, DLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor, void **object);
    int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out); /* borrowed; may be NULL */
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void **stream);
} DLPackExchangeAPI;

#endif
