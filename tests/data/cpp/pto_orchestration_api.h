// A runtime that only writes down what an orchestration asks of it, one line a call. Written for these tests against
// the names and arities the runtime documents; a function of the runtime that is missing here fails to compile.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

enum class DataType {
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FP8E4M3FN, FP8E8M0,
    FP4E2M1
};
enum class PTO2ScopeMode { AUTO, MANUAL };
enum class PredicateOp : uint8_t { NONE, EQ, NE, GT, LT, GE, LE };

inline std::ostream& line() { return std::cout; }

struct PTO2TaskId {
    int raw;
    static PTO2TaskId invalid() { return PTO2TaskId{-1}; }
    bool is_valid() const { return raw >= 0; }
};

struct ChipTensor {
    explicit ChipTensor(std::string name, std::vector<uint32_t> extents, const int64_t* elements = nullptr)
        : name(std::move(name)), ndims(static_cast<uint32_t>(extents.size())), elements(elements) {
        for (size_t i = 0; i < extents.size(); ++i) shapes[i] = extents[i];
    }
    ChipTensor(const ChipTensor&) = default;
    ChipTensor& operator=(const ChipTensor&) = default;
    ChipTensor view(const uint32_t extents[], const uint32_t offsets[], bool manual_dep = false) const {
        (void)manual_dep;
        std::ostringstream text;
        text << name << "[";
        for (uint32_t i = 0; i < ndims; ++i) text << (i ? "," : "") << offsets[i] << ":" << offsets[i] + extents[i];
        text << "]";
        return ChipTensor(text.str(), std::vector<uint32_t>(extents, extents + ndims), elements);
    }
    ChipTensor reshape(const uint32_t extents[], uint32_t rank) const {
        return ChipTensor(name + ".reshape", std::vector<uint32_t>(extents, extents + rank), elements);
    }
    ChipTensor transpose(uint32_t one, uint32_t other) const {
        ChipTensor turned = *this;
        turned.name += ".transpose";
        std::swap(turned.shapes[one], turned.shapes[other]);
        return turned;
    }
    std::string name;
    uint32_t ndims;
    uint32_t shapes[5] = {};
    const int64_t* elements;
};

struct TensorRef {
    ChipTensor tensor;
    const ChipTensor& ref() const { return tensor; }
};

struct ChipTaskArgs {
    std::vector<TensorRef> tensors;
    std::vector<uint64_t> scalars;
    const TensorRef& tensor(int place) const { return tensors.at(place); }
    uint64_t scalar(int place) const { return scalars.at(place); }
};

struct PTO2OrchestrationConfig { int expected_arg_count; };

template <typename T> uint64_t to_u64(T value) {
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(T));
    return word;
}
template <typename T> T from_u64(uint64_t word) {
    T value;
    memcpy(&value, &word, sizeof(T));
    return value;
}

struct TensorCreateInfo {
    std::vector<uint32_t> extents;
    TensorCreateInfo(const uint32_t shape[], uint32_t rank, DataType dtype, bool manual_dep = false)
        : extents(shape, shape + rank) {
        line() << "info";
        for (uint32_t extent : extents) line() << " " << extent;
        line() << " type " << static_cast<int>(dtype) << (manual_dep ? " manual" : "") << "\n";
    }
    template <typename T> void set_initial_value(T value) { line() << "initial " << value << "\n"; }
};

struct TaskOutputTensors {
    std::vector<ChipTensor> made;
    PTO2TaskId id = PTO2TaskId::invalid();
    const ChipTensor& get_ref(uint32_t place) const { return made.at(place); }
    PTO2TaskId task_id() const { return id; }
};

struct CorePredicateOperand {
    const ChipTensor* tensor = nullptr;
    uint32_t ndims = 0;
    uint32_t indices[5] = {};
};
struct CoreTaskPredicate {
    CorePredicateOperand operand;
    PredicateOp op = PredicateOp::NONE;
    int64_t target = 0;
};

struct LaunchSpec {
    std::string text;
#if defined(ARCH_A5)
    void set_core_num(int16_t count) { text += " blocks " + std::to_string(count); }
#else
    void set_block_num(int16_t count) { text += " blocks " + std::to_string(count); }
#endif
    void set_require_sync_start(bool together) { text += together ? " together" : ""; }
};

struct CoreTaskArgs {
    CoreTaskArgs() = default;
    CoreTaskArgs(const CoreTaskArgs&) = delete;
    void add_input(const ChipTensor& tensor) { tensor_argument("in ", tensor); }
    void add_output(const ChipTensor& tensor) { tensor_argument("out ", tensor); }
    void add_output(const TensorCreateInfo& info) { allocated.push_back(info); }
    void add_inout(const ChipTensor& tensor) { tensor_argument("inout ", tensor); }
    void add_no_dep(const ChipTensor& tensor) { tensor_argument("nodep ", tensor); }
    template <typename T> void add_scalar(T value) {
        if (scalars == 0) text += " |";
        ++scalars;
        text += " " + std::to_string(value);
    }
    template <typename... T> void dump(const T&... tensors) { ((text += " dump " + tensors.name), ...); }
    void set_dependencies(const PTO2TaskId ids[], uint32_t count) {
        text += " after";
        for (uint32_t i = 0; i < count; ++i) text += " " + std::to_string(ids[i].raw);
    }
    void set_predicate(const CoreTaskPredicate& predicate) {
        text += " if " + predicate.operand.tensor->name;
        for (uint32_t i = 0; i < predicate.operand.ndims; ++i)
            text += "," + std::to_string(predicate.operand.indices[i]);
        text += " op " + std::to_string(static_cast<int>(predicate.op)) + " " + std::to_string(predicate.target);
    }
    void set_allow_early_resolve(bool on) { text += on ? " early" : ""; }
    void tensor_argument(const char* direction, const ChipTensor& tensor) {
        if (scalars > 0) text += " TENSOR AFTER SCALAR";
        text += std::string(" ") + direction + tensor.name;
    }
    std::string text;
    int scalars = 0;
    std::vector<TensorCreateInfo> allocated;
    LaunchSpec launch_spec;
};

constexpr int32_t INVALID_KERNEL_ID = -1;
struct MixedKernels { int32_t aic, aiv0, aiv1; };

struct ScopeGuard {
    explicit ScopeGuard(PTO2ScopeMode mode = PTO2ScopeMode::AUTO) {
        line() << (mode == PTO2ScopeMode::MANUAL ? "manual {" : "scope {") << "\n";
    }
    ~ScopeGuard() { line() << "}\n"; }
};
#define PTO2_SCOPE(...) if (ScopeGuard scope_guard{__VA_ARGS__}; true)

inline int tasks_so_far = 0, tensors_so_far = 0;

inline ChipTensor made_tensor(const TensorCreateInfo& info) {
    return ChipTensor("new" + std::to_string(tensors_so_far++), info.extents);
}
template <typename... T> TaskOutputTensors alloc_tensors(const T&... infos) {
    TaskOutputTensors outputs;
    (outputs.made.push_back(made_tensor(infos)), ...);
    return outputs;
}
inline TaskOutputTensors submitted(const std::string& kernels, const CoreTaskArgs& args) {
    TaskOutputTensors outputs;
    outputs.id = PTO2TaskId{tasks_so_far++};
    line() << "task " << outputs.id.raw << " " << kernels << args.text << args.launch_spec.text << "\n";
    for (const TensorCreateInfo& info : args.allocated) outputs.made.push_back(made_tensor(info));
    return outputs;
}
inline TaskOutputTensors rt_submit_aic_task(int32_t kernel, const CoreTaskArgs& args) {
    return submitted("aic " + std::to_string(kernel), args);
}
inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel, const CoreTaskArgs& args) {
    return submitted("aiv " + std::to_string(kernel), args);
}
inline TaskOutputTensors rt_submit_task(const MixedKernels& k, const CoreTaskArgs& args) {
    auto shown = std::to_string(k.aic) + "," + std::to_string(k.aiv0) + "," + std::to_string(k.aiv1);
    return submitted("mixed " + shown, args);
}
inline TaskOutputTensors rt_submit_dummy_task(const CoreTaskArgs& args) { return submitted("dummy", args); }
inline int32_t rt_available_cluster_count() { return 24; }
inline int32_t rt_available_aiv_count() { return 48; }
template <typename T> T get_tensor_data(const ChipTensor& tensor, uint32_t ndims, const uint32_t indices[]) {
    uint64_t place = 0;
    for (uint32_t i = 0; i < ndims; ++i) place = place * tensor.shapes[i] + indices[i];
    return static_cast<T>(tensor.elements[place]);
}
template <typename T> void set_tensor_data(const ChipTensor& tensor, uint32_t ndims, const uint32_t indices[], T value) {
    line() << "write " << tensor.name;
    for (uint32_t i = 0; i < ndims; ++i) line() << "," << indices[i];
    line() << " = " << value << "\n";
}
