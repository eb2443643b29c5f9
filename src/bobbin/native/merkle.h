/* One hash over names and values in order: the root of bobbin.cluster.chain.merkle, bit for bit.
 *
 * The leaves are the hashes (SHA-256) of the texts that names and values make. A node is the hash of a tag and its two
 * children; one without a partner goes up as it is. Names and values come as they do for a tree (content_tree.h).
 */
#ifndef BOBBIN_MERKLE_H
#define BOBBIN_MERKLE_H

#include "content_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts the root into `out`: 32 zero bytes for nothing; a single leaf is its own root. Without a form, a leaf is the hash
 * of its value. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_merkle_root(const BobbinForm *form, const uint8_t *node_tag,
                                                    size_t node_tag_bytes, size_t count, const uint8_t *names,
                                                    size_t names_bytes, const uint64_t *name_lengths,
                                                    const uint8_t *values, size_t values_bytes,
                                                    const uint64_t *value_lengths, uint8_t *out);

#ifdef __cplusplus
}
#endif

#endif
