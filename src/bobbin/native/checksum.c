/* FNV-1a with 64 bits. Each step waits for the one before, so there is nothing to gain by doing several at once. */
#include "lazily.h"

uint64_t lazily_fnv1a64(const uint8_t *ptr, size_t len)
{
    uint64_t found = UINT64_C(0xCBF29CE484222325);
    for (size_t at = 0; at < len; at++)
        found = (found ^ ptr[at]) * UINT64_C(0x100000001B3);
    return found;
}
