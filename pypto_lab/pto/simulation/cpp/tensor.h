// The tensor descriptor of a kernel's argument words, laid out as the runtime has it (offsets in bytes are asserted).
// Written for PyPTO Lab's simulation; a device build uses the runtime's own header.
#pragma once

#include <cstddef>
#include <cstdint>

struct ChipTensor {
    struct {
        uint64_t addr;
        uint64_t size;
    } buffer;
    uint64_t owner_task_id;
    uint64_t start_offset;
    int32_t version;
    uint32_t ndims;
    uint8_t dtype;
    uint8_t manual_dep;
    uint8_t is_contiguous;
    uint8_t address_space;
    uint32_t shapes[5];
    uint64_t extent;
    uint32_t strides[5];
    uint8_t unused[36];
};

static_assert(sizeof(ChipTensor) == 128 && offsetof(ChipTensor, owner_task_id) == 16);
static_assert(offsetof(ChipTensor, start_offset) == 24 && offsetof(ChipTensor, ndims) == 36);
static_assert(offsetof(ChipTensor, dtype) == 40 && offsetof(ChipTensor, shapes) == 44);
static_assert(offsetof(ChipTensor, extent) == 64 && offsetof(ChipTensor, strides) == 72);
