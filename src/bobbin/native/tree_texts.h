/* Texts that are hashed two at a time, as they come. */
#ifndef BOBBIN_TREE_TEXTS_H
#define BOBBIN_TREE_TEXTS_H

#include <stdbool.h>

#include "sha256.h"

/* The longest text that waits for another one: the top branch, a byte and 64 hashes. */
enum { BT_TEXT_BYTES_MAX = 1 + 64 * BT_HASH_BYTES };

typedef struct {
    const BtSha256 *sha256;
    bool is_one_waiting;
    size_t blocks;
    uint8_t *out;
    /* Two texts, each with room for its padding. */
    uint8_t texts[2][(BT_TEXT_BYTES_MAX / BT_BLOCK_BYTES + 2) * BT_BLOCK_BYTES];
} BtTexts;

void bt_texts_start(BtTexts *texts, const BtSha256 *sha256);

/* Where the next text is written, BT_TEXT_BYTES_MAX bytes at the most. */
uint8_t *bt_texts_next(BtTexts *texts);

/* The text at bt_texts_next is complete. Its hash is at `out` after bt_texts_end at the latest. */
void bt_texts_add(BtTexts *texts, size_t length, uint8_t *out);

/* A piece of a text. Where it has no length, its bytes may be a null pointer. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
} BtPart;

/* A text of some parts, one after the other, of any length, which are read now. */
void bt_texts_add_parts(BtTexts *texts, const BtPart *parts, size_t count, uint8_t *out);

/* All hashes are where they belong. */
void bt_texts_end(BtTexts *texts);

#endif
