#include "fields.h"

#include <string.h>

enum { KEY_BYTES_MAX = 1024, KEY_SEGMENTS_MAX = 32 };

static uint16_t kind_of(const LzContext *context, uint32_t token)
{
    return context->document->tokens[token].kind;
}

/* ---- objects and lists ------------------------------------------------------------------------------------------ */

uint32_t lz_member(const LzDocument *document, uint32_t object, const char *name)
{
    if (document->tokens[object].kind != LZ_OBJECT)
        return 0;
    uint32_t end = document->tokens[object].next;
    for (uint32_t at = object + 1; at < end; at = document->tokens[at + 1].next)
        if (lz_is_text(document, at, name))
            return at + 1;
    return 0;
}

bool lz_only_member(const LzDocument *document, uint32_t object, uint32_t *name, uint32_t *value)
{
    const LzToken *token = &document->tokens[object];
    if (token->kind != LZ_OBJECT || token->next == object + 1)
        return false;
    *name = object + 1;
    *value = object + 2;
    return document->tokens[*value].next == token->next;
}

static bool find_fields(LzContext *context, uint32_t object, const LzField *fields, size_t count, uint32_t *found)
{
    const LzDocument *document = context->document;
    memset(found, 0, count * sizeof *found);
    if (kind_of(context, object) != LZ_OBJECT)
        return false;
    uint32_t end = document->tokens[object].next;
    for (uint32_t at = object + 1; at < end; at = document->tokens[at + 1].next) {
        size_t field = 0;
        while (field < count && !lz_is_text(document, at, fields[field].name))
            field++;
        if (field == count || found[field] != 0)
            return false;
        found[field] = at + 1;
    }
    return true;
}

typedef enum { SAY_NOTHING, SAY_NULL, SAY_VALUE, REFUSE } Saying;

static Saying what_to_say(const LzContext *context, LzPresence presence, uint32_t value)
{
    bool is_absent = value == 0;
    bool is_null = !is_absent && kind_of(context, value) == LZ_NULL;
    switch (presence) {
    case LZ_OPTIONAL:
        return is_absent || is_null ? SAY_NOTHING : SAY_VALUE;
    case LZ_LEFT_OUT:
        return is_absent ? SAY_NOTHING : SAY_VALUE;
    case LZ_NULL_WHEN_ABSENT:
        return is_absent || is_null ? SAY_NULL : SAY_VALUE;
    case LZ_UNLESS_SHM:
        return is_absent || is_null || lz_is_text(context->document, value, "shm") ? SAY_NOTHING : SAY_VALUE;
    case LZ_REQUIRED:
    case LZ_REQUIRED_LIST:
    default:
        return is_absent ? REFUSE : SAY_VALUE;
    }
}

static bool write_field(LzContext *context, const LzField *field, uint32_t value)
{
    return field->presence == LZ_REQUIRED_LIST ? lz_write_list(context, value, field->write)
                                               : field->write(context, value);
}

bool lz_write_found(LzContext *context, uint32_t object, const LzField *fields, size_t count, uint32_t *found)
{
    if (!find_fields(context, object, fields, count, found))
        return false;
    char before = '{';
    for (size_t i = 0; i < count; i++) {
        Saying saying = what_to_say(context, fields[i].presence, found[i]);
        if (saying == REFUSE)
            return false;
        if (saying == SAY_NOTHING)
            continue;
        lz_put_byte(context->output, (uint8_t)before);
        lz_put_byte(context->output, '"');
        lz_put_text(context->output, fields[i].name);
        lz_put_text(context->output, "\":");
        if (saying == SAY_NULL)
            lz_put_text(context->output, "null");
        else if (!write_field(context, &fields[i], found[i]))
            return false;
        before = ',';
    }
    if (before == '{')
        lz_put_byte(context->output, '{');
    lz_put_byte(context->output, '}');
    return true;
}

bool lz_write_struct(LzContext *context, uint32_t object, const LzField *fields, size_t count)
{
    uint32_t found[LZ_FIELDS_MAX];
    return count <= LZ_FIELDS_MAX && lz_write_found(context, object, fields, count, found);
}

bool lz_write_list(LzContext *context, uint32_t array, LzWrite write)
{
    if (kind_of(context, array) != LZ_ARRAY)
        return false;
    const LzToken *tokens = context->document->tokens;
    lz_put_byte(context->output, '[');
    for (uint32_t at = array + 1; at < tokens[array].next; at = tokens[at].next) {
        if (at > array + 1)
            lz_put_byte(context->output, ',');
        if (!write(context, at))
            return false;
    }
    lz_put_byte(context->output, ']');
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* An integer has no zeros in front, so what is in range is its own spelling; the one exception is minus zero. */
static bool write_integer(LzContext *context, uint32_t index, const char *largest)
{
    const LzToken *token = &context->document->tokens[index];
    if (token->kind != LZ_INTEGER)
        return false;
    const uint8_t *digits = context->document->text + token->start;
    size_t length = token->end - token->start;
    if (length == 2 && digits[0] == '-' && digits[1] == '0') {
        lz_put_byte(context->output, '0');
        return true;
    }
    size_t longest = strlen(largest);
    if (digits[0] == '-' || length > longest || (length == longest && memcmp(digits, largest, length) > 0))
        return false;
    lz_put(context->output, digits, length);
    return true;
}

bool lz_write_u64(LzContext *context, uint32_t token)
{
    return write_integer(context, token, "18446744073709551615");
}

static bool write_byte(LzContext *context, uint32_t token)
{
    return write_integer(context, token, "255");
}

/* An array of integers up to 255, which the reader has checked: only white space may have to go. */
static void write_small_integers(LzContext *context, uint32_t index)
{
    const LzToken *token = &context->document->tokens[index];
    const uint8_t *text = context->document->text;
    if (token->is_plain) {
        lz_put(context->output, text + token->start, token->end - token->start);
        return;
    }
    for (uint32_t at = token->start; at < token->end; at++)
        if (text[at] > ' ')
            lz_put_byte(context->output, text[at]);
}

static bool write_integers(LzContext *context, uint32_t array, LzWrite write)
{
    if (kind_of(context, array) != LZ_SMALL_INTEGERS)
        return lz_write_list(context, array, write);
    write_small_integers(context, array);
    return true;
}

bool lz_write_ids(LzContext *context, uint32_t array)
{
    return write_integers(context, array, lz_write_u64);
}

bool lz_write_byte_list(LzContext *context, uint32_t array)
{
    return write_integers(context, array, write_byte);
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static void write_character(LzOutput *output, const uint8_t *character, size_t size)
{
    static const char controls[] = "\b\f\n\r\t";
    static const char letters[] = "bfnrt";
    static const char digits[] = "0123456789abcdef";
    uint8_t byte = character[0];
    if (byte == '"' || byte == '\\') {
        lz_put_byte(output, '\\');
        lz_put_byte(output, byte);
    } else if (byte >= 0x20) {
        lz_put(output, character, size);
    } else {
        const char *found = byte ? strchr(controls, byte) : NULL;
        lz_put_byte(output, '\\');
        if (found != NULL) {
            lz_put_byte(output, (uint8_t)letters[found - controls]);
        } else {
            lz_put_text(output, "u00");
            lz_put_byte(output, (uint8_t)digits[byte >> 4]);
            lz_put_byte(output, (uint8_t)digits[byte & 15]);
        }
    }
}

bool lz_write_string(LzContext *context, uint32_t index)
{
    const LzToken *token = &context->document->tokens[index];
    if (token->kind != LZ_STRING)
        return false;
    lz_put_byte(context->output, '"');
    if (token->is_plain) {
        lz_put(context->output, context->document->text + token->start, token->end - token->start);
    } else {
        uint32_t at = token->start;
        uint8_t character[4];
        size_t size;
        while ((size = lz_character(context->document, index, &at, character)) > 0)
            write_character(context->output, character, size);
    }
    lz_put_byte(context->output, '"');
    return true;
}

bool lz_write_key(LzContext *context, uint32_t index)
{
    if (kind_of(context, index) != LZ_STRING)
        return false;
    size_t bytes = 0;
    size_t segments = 1;
    bool is_segment_empty = true;
    uint32_t at = context->document->tokens[index].start;
    uint8_t character[4];
    size_t size;
    while ((size = lz_character(context->document, index, &at, character)) > 0) {
        bytes += size;
        bool is_slash = character[0] == '/';
        if (bytes > KEY_BYTES_MAX || (is_slash && (is_segment_empty || ++segments > KEY_SEGMENTS_MAX)))
            return false;
        is_segment_empty = is_slash;
    }
    return !is_segment_empty && lz_write_string(context, index);
}

static const char SYMBOLS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The six bits of a symbol, or -1. */
static int bits_of(uint8_t symbol)
{
    if (symbol >= 'A' && symbol <= 'Z')
        return symbol - 'A';
    if (symbol >= 'a' && symbol <= 'z')
        return symbol - 'a' + 26;
    if (symbol >= '0' && symbol <= '9')
        return symbol - '0' + 52;
    return symbol == '+' ? 62 : symbol == '/' ? 63 : -1;
}

bool lz_write_base64(LzContext *context, uint32_t index)
{
    if (kind_of(context, index) != LZ_STRING)
        return false;
    uint32_t at = context->document->tokens[index].start;
    uint8_t character[4];
    uint8_t group[4];
    size_t filled = 0;
    size_t padding = 0;
    lz_put_byte(context->output, '"');
    while (lz_character(context->document, index, &at, character) > 0) {
        uint8_t symbol = character[0];
        int bits = bits_of(symbol);
        if (bits < 0 && (symbol != '=' || filled < 2))
            return false;
        if (bits >= 0 && padding > 0)
            return false;
        padding += bits < 0;
        group[filled++] = symbol;
        if (filled == 4) {
            /* Bits of the last symbol that stand for nothing are zero in the one spelling. */
            if (padding > 0) {
                size_t last = 3 - padding;
                group[last] = (uint8_t)SYMBOLS[bits_of(group[last]) & (padding == 2 ? 0x30 : 0x3C)];
            }
            lz_put(context->output, group, 4);
            filled = 0;
            if (padding > 0 && at < context->document->tokens[index].end)
                return false;
        }
    }
    lz_put_byte(context->output, '"');
    return filled == 0;
}

/* ---- what both forms have --------------------------------------------------------------------------------------- */

static bool write_backend(LzContext *context, uint32_t token)
{
    const LzDocument *document = context->document;
    return (lz_is_text(document, token, "arrow") || lz_is_text(document, token, "in_process"))
        && lz_write_string(context, token);
}

bool lz_write_blob(LzContext *context, uint32_t token)
{
    static const LzField fields[] = {
        {"offset", lz_write_u64, LZ_REQUIRED},     {"len", lz_write_u64, LZ_REQUIRED},
        {"generation", lz_write_u64, LZ_REQUIRED}, {"epoch", lz_write_u64, LZ_REQUIRED},
        {"checksum", lz_write_u64, LZ_REQUIRED},   {"backend", write_backend, LZ_UNLESS_SHM},
    };
    return lz_write_struct(context, token, fields, LZ_COUNT(fields));
}

bool lz_write_edge(LzContext *context, uint32_t token)
{
    static const LzField fields[] = {
        {"dependent", lz_write_u64, LZ_REQUIRED},
        {"dependency", lz_write_u64, LZ_REQUIRED},
    };
    return lz_write_struct(context, token, fields, LZ_COUNT(fields));
}

bool lz_write_stamp(LzContext *context, uint32_t token)
{
    static const LzField fields[] = {
        {"wall_time", lz_write_u64, LZ_REQUIRED},
        {"logical", lz_write_u64, LZ_REQUIRED},
        {"peer", lz_write_u64, LZ_REQUIRED},
    };
    return lz_write_struct(context, token, fields, LZ_COUNT(fields));
}

static bool write_seen(LzContext *context, uint32_t token)
{
    const LzToken *tokens = context->document->tokens;
    uint32_t peer = token + 1;
    uint32_t stamp = token + 2;
    if (tokens[token].kind != LZ_ARRAY || tokens[token].next <= stamp || tokens[stamp].next != tokens[token].next)
        return false;
    lz_put_byte(context->output, '[');
    if (!lz_write_u64(context, peer))
        return false;
    lz_put_byte(context->output, ',');
    if (!lz_write_stamp(context, stamp))
        return false;
    lz_put_byte(context->output, ']');
    return true;
}

bool lz_write_frontier(LzContext *context, uint32_t token)
{
    return lz_write_list(context, token, write_seen);
}
