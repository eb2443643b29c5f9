/* Names and values as they come in, and the text that a name and its value make. */
#ifndef BOBBIN_PAIRS_H
#define BOBBIN_PAIRS_H

#include <stdbool.h>

#include "content_tree.h"
#include "tree_texts.h"

/* Parts of a text: what is before the form, the form's own four, the name and the value. */
enum { PAIR_PARTS_MAX = 7 };

typedef struct {
    BtPart parts[PAIR_PARTS_MAX];
    size_t count;
    uint8_t name_length[4];
    uint8_t value_length[4];
} BtPair;

/* Whether lengths are those of some bytes; of a value that is none (BOBBIN_TREE_GONE) there are no bytes. */
bool bt_pairs_are_whole(size_t count, const uint8_t *bytes, size_t bytes_count, const uint64_t *lengths,
                        bool may_be_gone);

/* Whether a form, or none, is there as it should be, and every length fits into it. */
bool bt_form_fits(const BobbinForm *form, size_t names_bytes, size_t values_bytes);

/* The parts of a text: `before`, and then a name and a value as the form has it; the value alone where there is none. */
void bt_pair_put(BtPair *pair, BtPart before, const BobbinForm *form, BtPart name, BtPart value);

#endif
