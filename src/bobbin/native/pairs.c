#include "pairs.h"

static void put_length(uint8_t *out, size_t length)
{
    for (size_t byte = 0; byte < 4; byte++)
        out[byte] = (uint8_t)(length >> (24 - 8 * byte));
}

bool bt_pairs_are_whole(size_t count, const uint8_t *bytes, size_t bytes_count, const uint64_t *lengths,
                        bool may_be_gone)
{
    if ((bytes == NULL && bytes_count) || (lengths == NULL && count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (may_be_gone && lengths[i] == BOBBIN_TREE_GONE)
            continue;
        if (lengths[i] > bytes_count)
            return false;
        bytes_count -= (size_t)lengths[i];
    }
    return bytes_count == 0;
}

bool bt_form_fits(const BobbinForm *form, size_t names_bytes, size_t values_bytes)
{
    if (form == NULL)
        return true;
    if ((form->head == NULL && form->head_bytes) || (form->middle == NULL && form->middle_bytes))
        return false;
    return names_bytes <= UINT32_MAX && values_bytes <= UINT32_MAX;
}

void bt_pair_put(BtPair *pair, BtPart before, const BobbinForm *form, BtPart name, BtPart value)
{
    pair->count = 0;
    pair->parts[pair->count++] = before;
    if (form != NULL) {
        put_length(pair->name_length, name.length);
        put_length(pair->value_length, value.length);
        pair->parts[pair->count++] = (BtPart){form->head, form->head_bytes};
        pair->parts[pair->count++] = (BtPart){pair->name_length, sizeof pair->name_length};
        pair->parts[pair->count++] = name;
        pair->parts[pair->count++] = (BtPart){form->middle, form->middle_bytes};
        pair->parts[pair->count++] = (BtPart){pair->value_length, sizeof pair->value_length};
    }
    pair->parts[pair->count++] = value;
}
