/* Objects with named fields: what may stand in them, and in which order they are written.
 *
 * A struct is a table of fields. `lz_write_struct` finds each member of an object in the table, refuses what is
 * unknown, missing or given twice, and writes the fields in the order of the table. What a field's value may be is the
 * affair of its `write`, which returns false for what is not right.
 */
#ifndef LAZILY_FIELDS_H
#define LAZILY_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "output.h"

typedef struct {
    const LzDocument *document;
    LzOutput *output;
} LzContext;

typedef bool (*LzWrite)(LzContext *context, uint32_t token);

typedef enum {
    LZ_REQUIRED,
    /* Required, and a list of what `write` takes. */
    LZ_REQUIRED_LIST,
    /* Left out when it is absent or null. */
    LZ_OPTIONAL,
    /* Left out when it is absent; null is refused. */
    LZ_LEFT_OUT,
    /* Written as null when it is absent or null. */
    LZ_NULL_WHEN_ABSENT,
    /* As optional, and also left out when it says what holds anyway: of the backends of a blob, "shm". */
    LZ_UNLESS_SHM,
} LzPresence;

typedef struct {
    const char *name;
    LzWrite write;
    LzPresence presence;
} LzField;

enum { LZ_FIELDS_MAX = 8 };

/* One of several structs, known by its name. */
typedef struct {
    const char *name;
    const LzField *fields;
    size_t count;
} LzVariant;

/* The value of a member, or 0, which is the document and never a member. */
uint32_t lz_member(const LzDocument *document, uint32_t object, const char *name);

/* The name and the value of the only member of an object; false for anything else. */
bool lz_only_member(const LzDocument *document, uint32_t object, uint32_t *name, uint32_t *value);

bool lz_write_struct(LzContext *context, uint32_t object, const LzField *fields, size_t count);
/* The same, with the values that were found in `found`, 0 for what is absent. */
bool lz_write_found(LzContext *context, uint32_t object, const LzField *fields, size_t count, uint32_t *found);
bool lz_write_list(LzContext *context, uint32_t array, LzWrite write);
bool lz_write_string(LzContext *context, uint32_t token);
bool lz_write_u64(LzContext *context, uint32_t token);
/* A list of u64. */
bool lz_write_ids(LzContext *context, uint32_t array);
/* Bytes as a list of integers. */
bool lz_write_byte_list(LzContext *context, uint32_t array);
/* Bytes as base64. */
bool lz_write_base64(LzContext *context, uint32_t token);
/* A path by which a node is named. */
bool lz_write_key(LzContext *context, uint32_t token);
/* Where the bytes of a value lie in shared memory. */
bool lz_write_blob(LzContext *context, uint32_t token);
bool lz_write_edge(LzContext *context, uint32_t token);
/* A moment of a hybrid logical clock. */
bool lz_write_stamp(LzContext *context, uint32_t token);
/* How far a peer has seen others: a list of pairs of a peer and a stamp. */
bool lz_write_frontier(LzContext *context, uint32_t token);

#define LZ_COUNT(table) (sizeof(table) / sizeof((table)[0]))

#endif
