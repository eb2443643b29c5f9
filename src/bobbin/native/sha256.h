/* The compression of SHA-256, in plain C and by the processor's own instructions for it. */
#ifndef BOBBIN_SHA256_H
#define BOBBIN_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { BT_HASH_BYTES = 32, BT_BLOCK_BYTES = 64, BT_STATE_WORDS = 8 };

extern const uint32_t BT_SHA256_START[BT_STATE_WORDS];

typedef struct {
    /* Takes `count` blocks into a state. */
    void (*take)(uint32_t *state, const uint8_t *blocks, size_t count);
    /* The same for two texts of as many blocks each. The instructions have a long latency and the steps of one text
     * wait for one another, so two texts together take little longer than one. */
    void (*take_two)(uint32_t *state_a, const uint8_t *blocks_a, uint32_t *state_b, const uint8_t *blocks_b,
                     size_t count);
} BtSha256;

extern const BtSha256 BT_SHA256_PORTABLE;

/* By instructions; a null pointer where this processor, or this compiler, has none. It asks the processor each time. */
const BtSha256 *bt_sha256_instructions(void);

/* The better one of both. The processor is asked once. */
const BtSha256 *bt_sha256(void);

/* The hash that a state has come to. */
void bt_sha256_put(const uint32_t *state, uint8_t *out);

/* Ends a text of `length` bytes as the standard says, and returns how many blocks it makes. `tail` is where its last
 * block begins that is not full, with `length` modulo 64 bytes in it; there is room for two blocks. */
size_t bt_sha256_pad(uint8_t *tail, size_t length);

#endif
