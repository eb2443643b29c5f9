/* SHA-256 (FIPS 180-4), one block after the other. */
#include "sha256.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_INSTRUCTIONS 1
#include <cpuid.h>
#include <immintrin.h>
#else
#define HAS_INSTRUCTIONS 0
#endif

const uint32_t BT_SHA256_START[BT_STATE_WORDS] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const uint32_t ROUND_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* ---- texts ------------------------------------------------------------------------------------------------------ */

void bt_sha256_put(const uint32_t *state, uint8_t *out)
{
    for (size_t i = 0; i < BT_STATE_WORDS; i++)
        for (size_t byte = 0; byte < 4; byte++)
            out[4 * i + byte] = (uint8_t)(state[i] >> (24 - 8 * byte));
}

size_t bt_sha256_pad(uint8_t *tail, size_t length)
{
    size_t used = length % BT_BLOCK_BYTES;
    /* A byte that begins the padding, and eight for the length, come into the same block or make one more. */
    size_t room = used + 9 <= BT_BLOCK_BYTES ? BT_BLOCK_BYTES : 2 * BT_BLOCK_BYTES;
    tail[used] = 0x80;
    memset(tail + used + 1, 0, room - used - 9);
    for (size_t byte = 0; byte < 8; byte++)
        tail[room - 8 + byte] = (uint8_t)((uint64_t)length * 8 >> (56 - 8 * byte));
    return length / BT_BLOCK_BYTES + room / BT_BLOCK_BYTES;
}

/* ---- in plain C ------------------------------------------------------------------------------------------------- */

static uint32_t turned(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void take_block(uint32_t *state, const uint8_t *block)
{
    uint32_t words[64];
    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8
            | block[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        uint32_t early = words[i - 15], late = words[i - 2];
        words[i] = words[i - 16] + words[i - 7] + (turned(early, 7) ^ turned(early, 18) ^ early >> 3)
            + (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t i = 0; i < 64; i++) {
        uint32_t first = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i]
            + words[i];
        uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void take_portably(uint32_t *state, const uint8_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        take_block(state, blocks + i * BT_BLOCK_BYTES);
}

static void take_two_portably(uint32_t *state_a, const uint8_t *blocks_a, uint32_t *state_b, const uint8_t *blocks_b,
                              size_t count)
{
    take_portably(state_a, blocks_a, count);
    take_portably(state_b, blocks_b, count);
}

const BtSha256 BT_SHA256_PORTABLE = {take_portably, take_two_portably};

/* ---- by instructions -------------------------------------------------------------------------------------------- */

#if HAS_INSTRUCTIONS

/* Only these functions may use the instructions: the others must run on every processor. */
#define BY_INSTRUCTIONS __attribute__((target("sha,sse4.1,ssse3")))
#define INLINE_BY_INSTRUCTIONS static inline __attribute__((always_inline, target("sha,sse4.1,ssse3")))

/* One text on its way. The instructions want the words of a state in this order, from the highest to the lowest. */
typedef struct {
    __m128i abef, cdgh;
    __m128i words[4];
} Lane;

INLINE_BY_INSTRUCTIONS __m128i loaded(const void *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

INLINE_BY_INSTRUCTIONS void open_state(Lane *lane, const uint32_t *state)
{
    __m128i cdab = _mm_shuffle_epi32(loaded(state), 0xB1);
    __m128i efgh = _mm_shuffle_epi32(loaded(state + 4), 0x1B);
    lane->abef = _mm_alignr_epi8(cdab, efgh, 8);
    lane->cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
}

INLINE_BY_INSTRUCTIONS void close_state(const Lane *lane, uint32_t *state)
{
    __m128i feba = _mm_shuffle_epi32(lane->abef, 0x1B);
    __m128i dchg = _mm_shuffle_epi32(lane->cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Four words of a block, the number `at` of four, as they are added in the first rounds. */
INLINE_BY_INSTRUCTIONS void read_words(Lane *lane, const uint8_t *block, int at)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    lane->words[at] = _mm_shuffle_epi8(loaded(block + 16 * at), big_endian);
}

/* The next four words from the sixteen before, in the place of the oldest four. */
INLINE_BY_INSTRUCTIONS void make_words(Lane *lane, int at)
{
    __m128i *words = lane->words;
    __m128i newest = words[(at + 3) & 3];
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(words[at], words[(at + 1) & 3]),
                                _mm_alignr_epi8(newest, words[(at + 2) & 3], 4));
    words[at] = _mm_sha256msg2_epu32(sum, newest);
}

INLINE_BY_INSTRUCTIONS void four_rounds(Lane *lane, int at, const uint32_t *constants)
{
    __m128i sum = _mm_add_epi32(lane->words[at], loaded(constants));
    lane->cdgh = _mm_sha256rnds2_epu32(lane->cdgh, lane->abef, sum);
    lane->abef = _mm_sha256rnds2_epu32(lane->abef, lane->cdgh, _mm_shuffle_epi32(sum, 0x0E));
}

INLINE_BY_INSTRUCTIONS void first_rounds(Lane *lane, const uint8_t *block, int at)
{
    read_words(lane, block, at);
    four_rounds(lane, at, ROUND_CONSTANTS + 4 * at);
}

INLINE_BY_INSTRUCTIONS void later_rounds(Lane *lane, int at, const uint32_t *constants)
{
    make_words(lane, at);
    four_rounds(lane, at, constants + 4 * at);
}

BY_INSTRUCTIONS static void take_by_instructions(uint32_t *state, const uint8_t *blocks, size_t count)
{
    Lane lane;
    open_state(&lane, state);
    for (; count; count--, blocks += BT_BLOCK_BYTES) {
        __m128i abef = lane.abef, cdgh = lane.cdgh;
        first_rounds(&lane, blocks, 0);
        first_rounds(&lane, blocks, 1);
        first_rounds(&lane, blocks, 2);
        first_rounds(&lane, blocks, 3);
        for (size_t round = 16; round < 64; round += 16) {
            later_rounds(&lane, 0, ROUND_CONSTANTS + round);
            later_rounds(&lane, 1, ROUND_CONSTANTS + round);
            later_rounds(&lane, 2, ROUND_CONSTANTS + round);
            later_rounds(&lane, 3, ROUND_CONSTANTS + round);
        }
        lane.abef = _mm_add_epi32(lane.abef, abef);
        lane.cdgh = _mm_add_epi32(lane.cdgh, cdgh);
    }
    close_state(&lane, state);
}

#define BOTH_FIRST(at) first_rounds(&a, blocks_a, at), first_rounds(&b, blocks_b, at)
#define BOTH_LATER(at) later_rounds(&a, at, ROUND_CONSTANTS + round), later_rounds(&b, at, ROUND_CONSTANTS + round)

BY_INSTRUCTIONS static void take_two_by_instructions(uint32_t *state_a, const uint8_t *blocks_a, uint32_t *state_b,
                                                     const uint8_t *blocks_b, size_t count)
{
    Lane a, b;
    open_state(&a, state_a);
    open_state(&b, state_b);
    for (; count; count--, blocks_a += BT_BLOCK_BYTES, blocks_b += BT_BLOCK_BYTES) {
        __m128i abef_a = a.abef, cdgh_a = a.cdgh, abef_b = b.abef, cdgh_b = b.cdgh;
        BOTH_FIRST(0);
        BOTH_FIRST(1);
        BOTH_FIRST(2);
        BOTH_FIRST(3);
        for (size_t round = 16; round < 64; round += 16) {
            BOTH_LATER(0);
            BOTH_LATER(1);
            BOTH_LATER(2);
            BOTH_LATER(3);
        }
        a.abef = _mm_add_epi32(a.abef, abef_a);
        a.cdgh = _mm_add_epi32(a.cdgh, cdgh_a);
        b.abef = _mm_add_epi32(b.abef, abef_b);
        b.cdgh = _mm_add_epi32(b.cdgh, cdgh_b);
    }
    close_state(&a, state_a);
    close_state(&b, state_b);
}

static const BtSha256 BY_PROCESSOR = {take_by_instructions, take_two_by_instructions};

const BtSha256 *bt_sha256_instructions(void)
{
    const unsigned ssse3 = 1u << 9, sse41 = 1u << 19, sha = 1u << 29;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & ssse3) == 0 || (c & sse41) == 0)
        return NULL;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & sha) == 0)
        return NULL;
    return &BY_PROCESSOR;
}

#else

const BtSha256 *bt_sha256_instructions(void)
{
    return NULL;
}

#endif

const BtSha256 *bt_sha256(void)
{
    /* Whoever comes at the same time finds the same. */
    static _Atomic(const BtSha256 *) chosen;
    const BtSha256 *found = atomic_load(&chosen);
    if (found == NULL) {
        found = bt_sha256_instructions();
        found = found == NULL ? &BT_SHA256_PORTABLE : found;
        atomic_store(&chosen, found);
    }
    return found;
}
