// What a launch tells a kernel of itself: words 48 and 49 of its arguments point to these two records.
// Written for PyPTO Lab's simulation; a device build uses the runtime's own header.
#pragma once

#include <cstdint>

struct LocalContext {
    int32_t block_idx;
    int32_t block_num;
};

struct GlobalContext {
    int32_t sub_block_id;
};

constexpr int argument_words = 50, local_context_word = 48, global_context_word = 49;

inline int32_t get_block_idx(const int64_t* args) {
    return reinterpret_cast<const LocalContext*>(args[local_context_word])->block_idx;
}
inline int32_t get_block_num(const int64_t* args) {
    return reinterpret_cast<const LocalContext*>(args[local_context_word])->block_num;
}
inline int32_t get_sub_block_id(const int64_t* args) {
    return reinterpret_cast<const GlobalContext*>(args[global_context_word])->sub_block_id;
}
