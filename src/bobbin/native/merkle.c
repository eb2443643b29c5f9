#include "merkle.h"

#include <stdlib.h>
#include <string.h>

#include "pairs.h"
#include "tree_texts.h"

static void hash_leaves(BtTexts *texts, const BobbinForm *form, size_t count, const uint8_t *names,
                        const uint64_t *name_lengths, const uint8_t *values, const uint64_t *value_lengths,
                        uint8_t *hashes)
{
    for (size_t i = 0; i < count; i++) {
        BtPart name = {names, (size_t)name_lengths[i]}, value = {values, (size_t)value_lengths[i]};
        BtPair pair;
        bt_pair_put(&pair, (BtPart){NULL, 0}, form, name, value);
        bt_texts_add_parts(texts, pair.parts, pair.count, hashes + i * BT_HASH_BYTES);
        names = name.length ? names + name.length : names;
        values = value.length ? values + value.length : values;
    }
    bt_texts_end(texts);
}

/* Each level takes the place of the one below it: a node is written where nothing is read any more, since the text of a
 * pair is copied before its hash is there. */
static void climb(BtTexts *texts, BtPart tag, uint8_t *hashes, size_t count)
{
    while (count > 1) {
        size_t pairs = count / 2;
        for (size_t i = 0; i < pairs; i++) {
            BtPart parts[] = {tag, {hashes + 2 * i * BT_HASH_BYTES, 2 * BT_HASH_BYTES}};
            bt_texts_add_parts(texts, parts, 2, hashes + i * BT_HASH_BYTES);
        }
        bt_texts_end(texts);
        if (count % 2)
            memmove(hashes + pairs * BT_HASH_BYTES, hashes + (count - 1) * BT_HASH_BYTES, BT_HASH_BYTES);
        count = pairs + count % 2;
    }
}

BobbinTreeStatus bobbin_merkle_root(const BobbinForm *form, const uint8_t *node_tag, size_t node_tag_bytes,
                                    size_t count, const uint8_t *names, size_t names_bytes,
                                    const uint64_t *name_lengths, const uint8_t *values, size_t values_bytes,
                                    const uint64_t *value_lengths, uint8_t *out)
{
    if (out == NULL || (node_tag == NULL && node_tag_bytes))
        return BobbinTreeStatus_NullPointer;
    if (!bt_pairs_are_whole(count, names, names_bytes, name_lengths, false)
        || !bt_pairs_are_whole(count, values, values_bytes, value_lengths, false)
        || !bt_form_fits(form, names_bytes, values_bytes))
        return BobbinTreeStatus_Invalid;
    memset(out, 0, BT_HASH_BYTES);
    if (count == 0)
        return BobbinTreeStatus_Ok;
    uint8_t *hashes = count > SIZE_MAX / BT_HASH_BYTES ? NULL : malloc(count * BT_HASH_BYTES);
    if (hashes == NULL)
        return BobbinTreeStatus_NoMemory;
    BtTexts texts;
    bt_texts_start(&texts, bt_sha256());
    hash_leaves(&texts, form, count, names, name_lengths, values, value_lengths, hashes);
    climb(&texts, (BtPart){node_tag, node_tag_bytes}, hashes, count);
    memcpy(out, hashes, BT_HASH_BYTES);
    free(hashes);
    return BobbinTreeStatus_Ok;
}
