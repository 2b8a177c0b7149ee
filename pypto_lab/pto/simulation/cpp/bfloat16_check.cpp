// Whether bfloat16_t has the range and the precision of bfloat16: where a compiler lacks the type, the simulation's
// headers quietly take a half float for it. Prints what two values become.
#include <pto/pto-inst.hpp>

#include <cstdio>

int main() {
    volatile float large = 3.0e38f, fine = 1.0f + 1.0f / 512;
    const float kept = static_cast<float>(static_cast<bfloat16_t>(static_cast<float>(large)));
    const float cut = static_cast<float>(static_cast<bfloat16_t>(static_cast<float>(fine)));
    std::printf("3.0e38 becomes %g, 1+2^-9 becomes %.9g\n", kept, cut);
    const bool range = kept > 2.9e38f && kept < 3.1e38f, precision = cut == 1.0f || cut == 1.0f + 1.0f / 128;
    return range && precision ? 0 : 1;
}
