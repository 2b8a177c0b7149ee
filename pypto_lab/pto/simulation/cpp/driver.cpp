// Calls one kernel on values from a file and writes back what became of its tensors. One run for each block and lane.
//
// The file: 64-bit words - tensors, scalars, blocks, lanes, memory limit in bytes; for each tensor its bytes, dimensions,
// five extents, five strides and type; the scalars; then the tensors' bytes. The answer: the tensors' bytes.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "intrinsic.h"
#include "tensor.h"

extern "C" void kernel_entry(int64_t* args);

namespace {

constexpr size_t guard_bytes = 4096;
constexpr unsigned char guard = 0xa5;
constexpr int bad_call = 90, out_of_bounds = 91;

struct Buffer {
    std::vector<unsigned char> bytes;
    size_t size;
    unsigned char* data() { return bytes.data() + guard_bytes; }
    bool is_whole() const {
        for (size_t i = 0; i < guard_bytes; ++i)
            if (bytes[i] != guard || bytes[guard_bytes + size + i] != guard) return false;
        return true;
    }
};

uint64_t word(std::FILE* file) {
    uint64_t value = 0;
    if (std::fread(&value, sizeof(value), 1, file) != 1) std::exit(bad_call);
    return value;
}

void limit_memory(uint64_t bytes) {
    const rlimit limit{bytes, bytes}, none{0, 0};
    setrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_CORE, &none);
}

}  // namespace

int main(int count, char** names) {
    if (count != 3) return bad_call;
    std::FILE* file = std::fopen(names[1], "rb");
    if (file == nullptr) return bad_call;
    const uint64_t tensors = word(file), scalars = word(file), blocks = word(file), lanes = word(file);
    limit_memory(word(file));
    std::vector<ChipTensor> descriptors(tensors);
    for (ChipTensor& tensor : descriptors) {
        std::memset(&tensor, 0, sizeof(tensor));
        tensor.buffer.size = word(file);
        tensor.ndims = static_cast<uint32_t>(word(file));
        for (uint32_t& extent : tensor.shapes) extent = static_cast<uint32_t>(word(file));
        for (uint32_t& stride : tensor.strides) stride = static_cast<uint32_t>(word(file));
        tensor.dtype = static_cast<uint8_t>(word(file));
        tensor.is_contiguous = 1;
    }
    int64_t args[argument_words] = {};
    for (uint64_t i = 0; i < scalars; ++i) args[tensors + i] = static_cast<int64_t>(word(file));
    std::vector<Buffer> buffers(tensors);
    for (uint64_t i = 0; i < tensors; ++i) {
        const size_t size = descriptors[i].buffer.size;
        buffers[i] = {std::vector<unsigned char>(size + 2 * guard_bytes, guard), size};
        if (std::fread(buffers[i].data(), 1, size, file) != size) return bad_call;
        descriptors[i].buffer.addr = reinterpret_cast<uint64_t>(buffers[i].data());
        args[i] = reinterpret_cast<int64_t>(&descriptors[i]);
    }
    for (uint64_t block = 0; block < blocks; ++block) {
        for (uint64_t lane = 0; lane < lanes; ++lane) {
            LocalContext local{static_cast<int32_t>(block), static_cast<int32_t>(blocks)};
            GlobalContext global{static_cast<int32_t>(lane)};
            args[local_context_word] = reinterpret_cast<int64_t>(&local);
            args[global_context_word] = reinterpret_cast<int64_t>(&global);
            kernel_entry(args);
            for (uint64_t i = 0; i < tensors; ++i) {
                if (buffers[i].is_whole()) continue;
                std::fprintf(stderr, "block %d, lane %d wrote outside tensor argument %d\n", static_cast<int>(block),
                             static_cast<int>(lane), static_cast<int>(i));
                return out_of_bounds;
            }
        }
    }
    std::FILE* answer = std::fopen(names[2], "wb");
    if (answer == nullptr) return bad_call;
    for (Buffer& buffer : buffers)
        if (std::fwrite(buffer.data(), 1, buffer.size, answer) != buffer.size) return bad_call;
    return std::fclose(answer) == 0 ? 0 : bad_call;
}
