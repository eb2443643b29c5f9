#include "tree_texts.h"

#include <string.h>

void bt_texts_start(BtTexts *texts, const BtSha256 *sha256)
{
    texts->sha256 = sha256;
    texts->is_one_waiting = false;
}

uint8_t *bt_texts_next(BtTexts *texts)
{
    return texts->texts[texts->is_one_waiting];
}

void bt_texts_add(BtTexts *texts, size_t length, uint8_t *out)
{
    uint8_t *text = bt_texts_next(texts);
    size_t blocks = bt_sha256_pad(text + length / BT_BLOCK_BYTES * BT_BLOCK_BYTES, length);
    if (!texts->is_one_waiting) {
        texts->is_one_waiting = true;
        texts->blocks = blocks;
        texts->out = out;
        return;
    }
    uint32_t first[BT_STATE_WORDS], second[BT_STATE_WORDS];
    memcpy(first, BT_SHA256_START, sizeof first);
    memcpy(second, BT_SHA256_START, sizeof second);
    size_t both = blocks < texts->blocks ? blocks : texts->blocks;
    texts->sha256->take_two(first, texts->texts[0], second, text, both);
    /* What one has more than the other. */
    if (texts->blocks > both)
        texts->sha256->take(first, texts->texts[0] + both * BT_BLOCK_BYTES, texts->blocks - both);
    if (blocks > both)
        texts->sha256->take(second, text + both * BT_BLOCK_BYTES, blocks - both);
    bt_sha256_put(first, texts->out);
    bt_sha256_put(second, out);
    texts->is_one_waiting = false;
}

/* The text does not fit: its first and its last block are put together here, those between are taken where they are. */
static void add_long(const BtSha256 *sha256, uint8_t tag, const uint8_t *bytes, size_t length, uint8_t *out)
{
    uint32_t state[BT_STATE_WORDS];
    uint8_t blocks[2 * BT_BLOCK_BYTES];
    memcpy(state, BT_SHA256_START, sizeof state);
    blocks[0] = tag;
    memcpy(blocks + 1, bytes, BT_BLOCK_BYTES - 1);
    sha256->take(state, blocks, 1);
    size_t between = (length - (BT_BLOCK_BYTES - 1)) / BT_BLOCK_BYTES;
    sha256->take(state, bytes + (BT_BLOCK_BYTES - 1), between);
    size_t taken = BT_BLOCK_BYTES - 1 + between * BT_BLOCK_BYTES;
    memcpy(blocks, bytes + taken, length - taken);
    sha256->take(state, blocks, bt_sha256_pad(blocks, length + 1) - between - 1);
    bt_sha256_put(state, out);
}

void bt_texts_add_tagged(BtTexts *texts, uint8_t tag, const uint8_t *bytes, size_t length, uint8_t *out)
{
    if (length >= BT_TEXT_BYTES_MAX) {
        add_long(texts->sha256, tag, bytes, length, out);
        return;
    }
    uint8_t *text = bt_texts_next(texts);
    text[0] = tag;
    if (length)
        memcpy(text + 1, bytes, length);
    bt_texts_add(texts, length + 1, out);
}

void bt_texts_end(BtTexts *texts)
{
    if (!texts->is_one_waiting)
        return;
    uint32_t state[BT_STATE_WORDS];
    memcpy(state, BT_SHA256_START, sizeof state);
    texts->sha256->take(state, texts->texts[0], texts->blocks);
    bt_sha256_put(state, texts->out);
    texts->is_one_waiting = false;
}
