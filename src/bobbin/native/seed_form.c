/* The JSON with a "type" in each message and an "op" in each operation; bytes are base64. */
#include "message.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool write_value(LzContext *context, uint32_t token)
{
    return context->document->tokens[token].kind == LZ_OBJECT ? lz_write_blob(context, token)
                                                              : lz_write_base64(context, token);
}

/* The fields of a node come with conditions on one another, so a state is written whatever text it is. */
static bool write_node(LzContext *context, uint32_t token)
{
    enum { STATE = 2, PAYLOAD = 3 };
    static const LzField fields[] = {
        {"slot_id", lz_write_u64, LZ_REQUIRED},
        {"type_tag", lz_write_string, LZ_REQUIRED},
        {"state", lz_write_string, LZ_REQUIRED},
        {"payload", write_value, LZ_NULL_WHEN_ABSENT},
    };
    uint32_t found[LZ_COUNT(fields)];
    if (!lz_write_found(context, token, fields, LZ_COUNT(fields), found))
        return false;
    const LzDocument *document = context->document;
    bool has_value = found[PAYLOAD] != 0 && document->tokens[found[PAYLOAD]].kind != LZ_NULL;
    if (lz_is_text(document, found[STATE], "resolved"))
        return has_value;
    if (lz_is_text(document, found[STATE], "unset"))
        return !has_value;
    return lz_is_text(document, found[STATE], "dirty");
}

/* ---- alternatives ----------------------------------------------------------------------------------------------- */

/* The number of the variant that a token is, once it is written; -1 where it is none. */
static int write_variant(LzContext *context, uint32_t token, const char *tag, const LzVariant *variants, int count)
{
    uint32_t name = lz_member(context->document, token, tag);
    for (int i = 0; name != 0 && i < count; i++)
        if (lz_is_text(context->document, name, variants[i].name))
            return lz_write_struct(context, token, variants[i].fields, variants[i].count) ? i : -1;
    return -1;
}

static const LzField ID_AND_VALUE[] = {
    {"op", lz_write_string, LZ_REQUIRED},
    {"slot_id", lz_write_u64, LZ_REQUIRED},
    {"payload", write_value, LZ_REQUIRED},
};

static const LzField ID[] = {
    {"op", lz_write_string, LZ_REQUIRED},
    {"slot_id", lz_write_u64, LZ_REQUIRED},
};

static const LzField ADDED[] = {
    {"op", lz_write_string, LZ_REQUIRED},
    {"slot_id", lz_write_u64, LZ_REQUIRED},
    {"type_tag", lz_write_string, LZ_REQUIRED},
    {"payload", write_value, LZ_OPTIONAL},
};

static const LzField EDGE[] = {
    {"op", lz_write_string, LZ_REQUIRED},
    {"dependent", lz_write_u64, LZ_REQUIRED},
    {"dependency", lz_write_u64, LZ_REQUIRED},
};

static bool write_operation(LzContext *context, uint32_t token)
{
    static const LzVariant variants[] = {
        {"cell_set", ID_AND_VALUE, LZ_COUNT(ID_AND_VALUE)},
        {"slot_value", ID_AND_VALUE, LZ_COUNT(ID_AND_VALUE)},
        {"invalidate", ID, LZ_COUNT(ID)},
        {"node_add", ADDED, LZ_COUNT(ADDED)},
        {"node_remove", ID, LZ_COUNT(ID)},
        {"edge_add", EDGE, LZ_COUNT(EDGE)},
        {"edge_remove", EDGE, LZ_COUNT(EDGE)},
    };
    return write_variant(context, token, "op", variants, LZ_COUNT(variants)) >= 0;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static bool write_replicated(LzContext *context, uint32_t token)
{
    static const LzField fields[] = {
        {"slot_id", lz_write_u64, LZ_REQUIRED},
        {"key", lz_write_key, LZ_NULL_WHEN_ABSENT},
        {"stamp", lz_write_stamp, LZ_REQUIRED},
        {"payload", write_value, LZ_REQUIRED},
    };
    return lz_write_struct(context, token, fields, LZ_COUNT(fields));
}

bool lz_write_seed_message(LzContext *context, LazilyFfiMessageKind *kind)
{
    static const LzField snapshot[] = {
        {"type", lz_write_string, LZ_REQUIRED},
        {"epoch", lz_write_u64, LZ_REQUIRED},
        {"nodes", write_node, LZ_REQUIRED_LIST},
        {"edges", lz_write_edge, LZ_REQUIRED_LIST},
        {"roots", lz_write_ids, LZ_REQUIRED},
    };
    static const LzField delta[] = {
        {"type", lz_write_string, LZ_REQUIRED},
        {"base_epoch", lz_write_u64, LZ_REQUIRED},
        {"epoch", lz_write_u64, LZ_REQUIRED},
        {"ops", write_operation, LZ_REQUIRED_LIST},
    };
    static const LzField crdt_sync[] = {
        {"type", lz_write_string, LZ_REQUIRED},
        {"frontier", lz_write_frontier, LZ_LEFT_OUT},
        {"ops", write_replicated, LZ_REQUIRED_LIST},
    };
    static const LzField resync_request[] = {
        {"type", lz_write_string, LZ_REQUIRED},
        {"from_epoch", lz_write_u64, LZ_REQUIRED},
    };
    static const LzField outbox_ack[] = {
        {"type", lz_write_string, LZ_REQUIRED},
        {"through_epoch", lz_write_u64, LZ_REQUIRED},
    };
    /* In the order of the kinds, which start at 1. */
    static const LzVariant variants[] = {
        {"snapshot", snapshot, LZ_COUNT(snapshot)},
        {"delta", delta, LZ_COUNT(delta)},
        {"crdt_sync", crdt_sync, LZ_COUNT(crdt_sync)},
        {"resync_request", resync_request, LZ_COUNT(resync_request)},
        {"outbox_ack", outbox_ack, LZ_COUNT(outbox_ack)},
    };
    int found = write_variant(context, 0, "type", variants, LZ_COUNT(variants));
    *kind = (LazilyFfiMessageKind)(found + 1);
    return found >= 0;
}
