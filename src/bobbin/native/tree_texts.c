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

/* The text does not fit. Blocks that two parts share are put together here, the others are taken where they are. */
static void add_long(const BtSha256 *sha256, const BtPart *parts, size_t count, uint8_t *out)
{
    uint32_t state[BT_STATE_WORDS];
    uint8_t blocks[2 * BT_BLOCK_BYTES];
    size_t held = 0, length = 0;
    memcpy(state, BT_SHA256_START, sizeof state);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = parts[i].bytes;
        size_t left = parts[i].length;
        length += left;
        if (held && left) {
            size_t more = left < BT_BLOCK_BYTES - held ? left : BT_BLOCK_BYTES - held;
            memcpy(blocks + held, bytes, more);
            held += more;
            bytes += more;
            left -= more;
            if (held == BT_BLOCK_BYTES) {
                sha256->take(state, blocks, 1);
                held = 0;
            }
        }
        if (left) { /* and nothing is held */
            size_t whole = left / BT_BLOCK_BYTES;
            sha256->take(state, bytes, whole);
            held = left - whole * BT_BLOCK_BYTES;
            memcpy(blocks, bytes + whole * BT_BLOCK_BYTES, held);
        }
    }
    sha256->take(state, blocks, bt_sha256_pad(blocks, length) - length / BT_BLOCK_BYTES);
    bt_sha256_put(state, out);
}

void bt_texts_add_parts(BtTexts *texts, const BtPart *parts, size_t count, uint8_t *out)
{
    size_t length = 0;
    uint8_t *text = bt_texts_next(texts);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].length > BT_TEXT_BYTES_MAX - length) {
            add_long(texts->sha256, parts, count, out);
            return;
        }
        if (parts[i].length)
            memcpy(text + length, parts[i].bytes, parts[i].length);
        length += parts[i].length;
    }
    bt_texts_add(texts, length, out);
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
