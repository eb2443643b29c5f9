/* The JSON that published peers speak: every alternative is an object with one key that names it. */
#include "message.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* {"Payload": […]} or {"SharedBlob": {…}}; the name of the first differs from place to place. */
static bool write_bytes_or_blob(LzContext *context, uint32_t token, const char *name_of_bytes)
{
    uint32_t name, value;
    if (!lz_only_member(context->document, token, &name, &value))
        return false;
    LzWrite write;
    if (lz_is_text(context->document, name, name_of_bytes))
        write = lz_write_byte_list;
    else if (lz_is_text(context->document, name, "SharedBlob"))
        write = lz_write_blob;
    else
        return false;
    lz_put_byte(context->output, '{');
    if (!lz_write_string(context, name))
        return false;
    lz_put_byte(context->output, ':');
    if (!write(context, value))
        return false;
    lz_put_byte(context->output, '}');
    return true;
}

static bool write_value(LzContext *context, uint32_t token)
{
    return write_bytes_or_blob(context, token, "Inline");
}

static bool write_state(LzContext *context, uint32_t token)
{
    if (lz_is_text(context->document, token, "Opaque"))
        return lz_write_string(context, token);
    return write_bytes_or_blob(context, token, "Payload");
}

static const LzField NODE[] = {
    {"node", lz_write_u64, LZ_REQUIRED},
    {"type_tag", lz_write_string, LZ_REQUIRED},
    {"state", write_state, LZ_REQUIRED},
    {"key", lz_write_key, LZ_OPTIONAL},
};

static bool write_node(LzContext *context, uint32_t token)
{
    return lz_write_struct(context, token, NODE, LZ_COUNT(NODE));
}

/* ---- alternatives ----------------------------------------------------------------------------------------------- */

/* The number of the variant that a token is, once it is written; -1 where it is none. */
static int write_variant(LzContext *context, uint32_t token, const LzVariant *variants, int count)
{
    uint32_t name, value;
    if (!lz_only_member(context->document, token, &name, &value))
        return -1;
    for (int i = 0; i < count; i++) {
        if (!lz_is_text(context->document, name, variants[i].name))
            continue;
        lz_put_text(context->output, "{\"");
        lz_put_text(context->output, variants[i].name);
        lz_put_text(context->output, "\":");
        if (!lz_write_struct(context, value, variants[i].fields, variants[i].count))
            return -1;
        lz_put_byte(context->output, '}');
        return i;
    }
    return -1;
}

static const LzField ID_AND_VALUE[] = {
    {"node", lz_write_u64, LZ_REQUIRED},
    {"payload", write_value, LZ_REQUIRED},
};

static const LzField ID[] = {
    {"node", lz_write_u64, LZ_REQUIRED},
};

static const LzField EDGE[] = {
    {"dependent", lz_write_u64, LZ_REQUIRED},
    {"dependency", lz_write_u64, LZ_REQUIRED},
};

static bool write_operation(LzContext *context, uint32_t token)
{
    static const LzVariant variants[] = {
        {"CellSet", ID_AND_VALUE, LZ_COUNT(ID_AND_VALUE)},
        {"SlotValue", ID_AND_VALUE, LZ_COUNT(ID_AND_VALUE)},
        {"Invalidate", ID, LZ_COUNT(ID)},
        {"NodeAdd", NODE, LZ_COUNT(NODE)},
        {"NodeRemove", ID, LZ_COUNT(ID)},
        {"EdgeAdd", EDGE, LZ_COUNT(EDGE)},
        {"EdgeRemove", EDGE, LZ_COUNT(EDGE)},
        {"QueuePush", ID_AND_VALUE, LZ_COUNT(ID_AND_VALUE)},
        {"QueuePop", ID, LZ_COUNT(ID)},
        {"QueueClose", ID, LZ_COUNT(ID)},
    };
    return write_variant(context, token, variants, LZ_COUNT(variants)) >= 0;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static bool write_replicated(LzContext *context, uint32_t token)
{
    static const LzField fields[] = {
        {"node", lz_write_u64, LZ_REQUIRED},
        {"key", lz_write_key, LZ_NULL_WHEN_ABSENT},
        {"stamp", lz_write_stamp, LZ_REQUIRED},
        {"state", write_value, LZ_REQUIRED},
    };
    return lz_write_struct(context, token, fields, LZ_COUNT(fields));
}

bool lz_write_published_message(LzContext *context, LazilyFfiMessageKind *kind)
{
    static const LzField snapshot[] = {
        {"epoch", lz_write_u64, LZ_REQUIRED},
        {"nodes", write_node, LZ_REQUIRED_LIST},
        {"edges", lz_write_edge, LZ_REQUIRED_LIST},
        {"roots", lz_write_ids, LZ_REQUIRED},
    };
    static const LzField delta[] = {
        {"base_epoch", lz_write_u64, LZ_REQUIRED},
        {"epoch", lz_write_u64, LZ_REQUIRED},
        {"ops", write_operation, LZ_REQUIRED_LIST},
    };
    static const LzField crdt_sync[] = {
        {"frontier", lz_write_frontier, LZ_LEFT_OUT},
        {"ops", write_replicated, LZ_REQUIRED_LIST},
    };
    static const LzField resync_request[] = {{"from_epoch", lz_write_u64, LZ_REQUIRED}};
    static const LzField outbox_ack[] = {{"through_epoch", lz_write_u64, LZ_REQUIRED}};
    /* In the order of the kinds, which start at 1. */
    static const LzVariant variants[] = {
        {"Snapshot", snapshot, LZ_COUNT(snapshot)},
        {"Delta", delta, LZ_COUNT(delta)},
        {"CrdtSync", crdt_sync, LZ_COUNT(crdt_sync)},
        {"ResyncRequest", resync_request, LZ_COUNT(resync_request)},
        {"OutboxAck", outbox_ack, LZ_COUNT(outbox_ack)},
    };
    int found = write_variant(context, 0, variants, LZ_COUNT(variants));
    *kind = (LazilyFfiMessageKind)(found + 1);
    return found >= 0;
}
