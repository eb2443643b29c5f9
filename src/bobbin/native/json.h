/* A JSON text as a flat list of tokens.
 *
 * The text is read as RFC 8259 has it, strictly: UTF-8 without a mark at the start, no lone surrogates, nothing behind
 * the value. A container comes before what is in it; an object holds names and values in turn. `next` of a token is the
 * first one behind all that is in it, so siblings are found by going from `next` to `next`.
 *
 * An array of integers up to 255 is one token, because that is how published peers write bytes; a token for each would
 * take sixteen times the frame.
 */
#ifndef LAZILY_JSON_H
#define LAZILY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output.h"

/* No message is as deep, so what is deeper is none. */
enum { LZ_DEPTH_MAX = 16 };

typedef enum {
    LZ_OBJECT,
    LZ_ARRAY,
    /* An array of at least one integer from 0 to 255, and of nothing else. */
    LZ_SMALL_INTEGERS,
    LZ_STRING,
    LZ_INTEGER,
    /* A number with a point or an exponent. */
    LZ_FRACTION,
    LZ_TRUE,
    LZ_FALSE,
    LZ_NULL,
} LzKind;

typedef struct {
    /* Where it is in the text, with brackets, without quotation marks. */
    uint32_t start;
    uint32_t end;
    uint32_t next;
    uint16_t kind;
    /* A string without escapes, or an array without white space: what is in the text is its one spelling. */
    uint16_t is_plain;
} LzToken;

typedef struct {
    const uint8_t *text;
    uint32_t length;
    LzToken *tokens;
    uint32_t count;
    uint32_t room;
} LzDocument;

/* The text must stay as it is for as long as the document is used. */
LzResult lz_parse(LzDocument *document, const uint8_t *text, size_t length);
void lz_document_free(LzDocument *document);

/* Whether a token is a string with this content. */
bool lz_is_text(const LzDocument *document, uint32_t token, const char *text);

/* The next character of a string, from `*at`, as UTF-8; its length, or 0 at the end. The first `*at` is the start. */
size_t lz_character(const LzDocument *document, uint32_t token, uint32_t *at, uint8_t character[4]);

#endif
