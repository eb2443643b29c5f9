/* One hash over a changing set of named contents: the tree of bobbin.cluster.content_tree, bit for bit.
 *
 * A name belongs to one of 65,536 buckets by the low bits of its CRC-32. A bucket's hash covers the hashes of its
 * contents, ascending; where there is one only, it is that one. Above the buckets are 2,048 branches of 32 children, 64
 * of 32 and one of 64. Every hash is SHA-256 over a byte that says what it is (0 a content, 1 a bucket, 2 a branch) and
 * over what it covers; what is empty has 32 zero bytes.
 *
 * Drafts. A draft holds changes that are not decided. It notes what becomes different, and reads all else through to
 * the drafts below it and to the tree. Merged, its notes are the tree's. What it read is in its notes: whatever becomes
 * of the tree or of the drafts below, a draft is valid memory, and its hash is the one that it was given.
 *
 * Ownership. Bytes that go in stay the caller's and are copied. A tree and a draft are freed once each, in any order: a
 * draft keeps alive what it reads through.
 *
 * Changes. All names come in one piece and all contents in another, with the length of each. A content of the length
 * BOBBIN_TREE_GONE is none and has no bytes: its name is taken away. Where a name comes twice, the later change counts.
 * With a form (no null pointer) what comes is values, and a content is what the form makes of a name and its value.
 *
 * Threads. Every function may be called from any thread. Updates and merges of one tree, and whether it contains a
 * name, wait for one another; with `is_quick` they come back (BobbinTreeStatus_Slow) instead. Nothing else waits for as
 * long as an update takes, and nothing for what is done with another tree. Nothing may be used while or after it is
 * freed.
 *
 * No call ends the process. Where memory runs out the result says so and nothing has changed; merging and freeing need
 * none.
 */
#ifndef BOBBIN_CONTENT_TREE_H
#define BOBBIN_CONTENT_TREE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BOBBIN_TREE_API __attribute__((visibility("default")))
#else
#define BOBBIN_TREE_API
#endif

/* Of these functions. It changes with what they are given or mean, and with every change of a hash. */
#define BOBBIN_TREE_VERSION 2
/* How many bytes a hash has, and whatever `out` points to. */
#define BOBBIN_TREE_HASH_BYTES 32
/* The length of a content that is none: its name is taken away. */
#define BOBBIN_TREE_GONE UINT64_MAX

typedef enum {
    BobbinTreeStatus_Ok = 0,
    BobbinTreeStatus_NullPointer = 1,
    /* The lengths are not those of the bytes, bytes are missing that have a length, or a length is too large for a form. */
    BobbinTreeStatus_Invalid = 2,
    BobbinTreeStatus_NoMemory = 3,
    /* The draft has its changes already. */
    BobbinTreeStatus_Used = 4,
    /* The draft does not stand on the tree as it is. */
    BobbinTreeStatus_Stale = 5,
    /* It was to be quick and could not be: another call has the tree, or there is much in the buckets that change. */
    BobbinTreeStatus_Slow = 6,
} BobbinTreeStatus;

typedef struct BobbinTree BobbinTree;
typedef struct BobbinTreeDraft BobbinTreeDraft;

/* How a name and a value make a content: `head`, the length of the name in four bytes, the name, `middle`, the length of
 * the value in four bytes, the value; lengths with their most significant byte first. */
typedef struct {
    const uint8_t *head;
    size_t head_bytes;
    const uint8_t *middle;
    size_t middle_bytes;
} BobbinForm;

/* The version (BOBBIN_TREE_VERSION) that the library was built as. */
BOBBIN_TREE_API int bobbin_tree_version(void);

/* 1 where the processor has instructions for SHA-256 and they are used, otherwise 0. */
BOBBIN_TREE_API int bobbin_tree_is_fast(void);

/* An empty tree, or a null pointer where memory ran out. */
BOBBIN_TREE_API BobbinTree *bobbin_tree_new(void);

/* Gives a tree back. Nothing happens to a null pointer. */
BOBBIN_TREE_API void bobbin_tree_free(BobbinTree *tree);

/* How many names there are; 0 for a null pointer. */
BOBBIN_TREE_API size_t bobbin_tree_len(BobbinTree *tree);

/* 1 if a name is there, otherwise 0. */
BOBBIN_TREE_API int bobbin_tree_contains(BobbinTree *tree, const uint8_t *name, size_t length);

/* The hash over everything. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_tree_top(BobbinTree *tree, uint8_t *out);

/* Changes a tree, as a draft that is merged at once, and puts its hash into `out`. With `is_quick` (not 0) it gives up,
 * with nothing changed, where it would have to wait, or would take long for what is in the tree already. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_tree_update(BobbinTree *tree, const BobbinForm *form, int is_quick,
                                                    size_t count, const uint8_t *names, size_t names_bytes,
                                                    const uint64_t *name_lengths, const uint8_t *contents,
                                                    size_t contents_bytes, const uint64_t *content_lengths,
                                                    uint8_t *out);

/* Makes a draft's changes the tree's, and settles the draft. Stale unless the tree's hash is the one below the draft,
 * and for a draft that had changes and was settled before. With `is_quick` (not 0) it does not wait. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_tree_merge(BobbinTree *tree, BobbinTreeDraft *draft, int is_quick);

/* A draft of a tree, on another draft or (a null pointer) on the tree itself. A null pointer where memory ran out. */
BOBBIN_TREE_API BobbinTreeDraft *bobbin_tree_draft_new(BobbinTree *tree, BobbinTreeDraft *on);

/* Gives a draft back. Nothing happens to a null pointer. */
BOBBIN_TREE_API void bobbin_tree_draft_free(BobbinTreeDraft *draft);

/* Notes changes, once for each draft, and puts the hash with them into `out`; `is_quick` as for an update of a tree. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_tree_draft_update(BobbinTreeDraft *draft, const BobbinForm *form, int is_quick,
                                                          size_t count, const uint8_t *names, size_t names_bytes,
                                                          const uint64_t *name_lengths, const uint8_t *contents,
                                                          size_t contents_bytes, const uint64_t *content_lengths,
                                                          uint8_t *out);

/* Lets go of the notes and of what is below, which the tree has by now. */
BOBBIN_TREE_API BobbinTreeStatus bobbin_tree_draft_settle(BobbinTreeDraft *draft);

#ifdef __cplusplus
}
#endif

#endif
