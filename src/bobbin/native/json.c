#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    LzDocument *document;
    const uint8_t *text;
    uint32_t at;
    uint32_t length;
    LzResult result;
} Reader;

enum { FIRST_ROOM = 64 };

static bool refuse(Reader *reader)
{
    if (reader->result == LZ_OK)
        reader->result = LZ_INVALID;
    return false;
}

/* A zero where the text ends; a zero in the text is never right, so the two need not be told apart. */
static uint8_t peek(const Reader *reader)
{
    return reader->at < reader->length ? reader->text[reader->at] : 0;
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static void skip_space(Reader *reader)
{
    while (reader->at < reader->length && is_space(reader->text[reader->at]))
        reader->at++;
}

static bool add_token(Reader *reader, LzKind kind, uint32_t start, uint32_t end, bool is_plain)
{
    LzDocument *document = reader->document;
    if (document->count == document->room) {
        uint32_t room = document->room ? document->room * 2 : FIRST_ROOM;
        LzToken *grown = realloc(document->tokens, room * sizeof(LzToken));
        if (grown == NULL) {
            reader->result = LZ_NO_MEMORY;
            return false;
        }
        document->tokens = grown;
        document->room = room;
    }
    LzToken *token = &document->tokens[document->count++];
    *token = (LzToken){start, end, document->count, (uint16_t)kind, is_plain};
    return true;
}

/* ---- strings ---------------------------------------------------------------------------------------------------- */

static int hexadecimal(uint8_t byte)
{
    if (is_digit(byte))
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* Four hexadecimal digits, or -1. */
static int32_t unit(const uint8_t *text, uint32_t at, uint32_t end)
{
    if (end - at < 4)
        return -1;
    int32_t found = 0;
    for (uint32_t i = at; i < at + 4; i++) {
        int digit = hexadecimal(text[i]);
        if (digit < 0)
            return -1;
        found = found * 16 + digit;
    }
    return found;
}

/* The code point of the escape that starts at `*at`, behind which `*at` is then; -1 where it is none. */
static int32_t escape(const uint8_t *text, uint32_t *at, uint32_t end)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (end - *at < 2)
        return -1;
    uint8_t letter = text[*at + 1];
    if (letter != 'u') {
        const char *found = letter ? strchr(letters, letter) : NULL;
        *at += 2;
        return found ? meanings[found - letters] : -1;
    }
    int32_t first = unit(text, *at + 2, end);
    if (first < 0)
        return -1;
    *at += 6;
    if (first < 0xD800 || first > 0xDFFF)
        return first;
    if (first > 0xDBFF || end - *at < 6 || text[*at] != '\\' || text[*at + 1] != 'u')
        return -1;
    int32_t second = unit(text, *at + 2, end);
    if (second < 0xDC00 || second > 0xDFFF)
        return -1;
    *at += 6;
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

/* The length of the character of UTF-8 at a place, or 0: the shortest form only, no surrogates, nothing past 10FFFF. */
static uint32_t utf8_length(const uint8_t *text, uint32_t left)
{
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    uint32_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || left < length)
        return 0;
    for (uint32_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] > 0x9F))
        return 0;
    if ((first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F))
        return 0;
    return length;
}

static bool read_string(Reader *reader)
{
    uint32_t start = ++reader->at;
    bool is_plain = true;
    while (reader->at < reader->length) {
        uint8_t byte = reader->text[reader->at];
        if (byte == '"') {
            reader->at++;
            return add_token(reader, LZ_STRING, start, reader->at - 1, is_plain);
        }
        if (byte < 0x20)
            return refuse(reader);
        if (byte == '\\') {
            is_plain = false;
            if (escape(reader->text, &reader->at, reader->length) < 0)
                return refuse(reader);
        } else {
            uint32_t length = utf8_length(reader->text + reader->at, reader->length - reader->at);
            if (length == 0)
                return refuse(reader);
            reader->at += length;
        }
    }
    return refuse(reader);
}

static size_t encode_utf8(int32_t point, uint8_t character[4])
{
    if (point < 0x80) {
        character[0] = (uint8_t)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        character[i] = (uint8_t)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    character[0] = (uint8_t)(marks[length] | point);
    return length;
}

size_t lz_character(const LzDocument *document, uint32_t token, uint32_t *at, uint8_t character[4])
{
    uint32_t end = document->tokens[token].end;
    if (*at >= end)
        return 0;
    if (document->text[*at] == '\\')
        return encode_utf8(escape(document->text, at, end), character);
    uint32_t length = utf8_length(document->text + *at, end - *at);
    memcpy(character, document->text + *at, length);
    *at += length;
    return length;
}

bool lz_is_text(const LzDocument *document, uint32_t index, const char *text)
{
    const LzToken *token = &document->tokens[index];
    if (token->kind != LZ_STRING)
        return false;
    size_t length = strlen(text);
    if (token->is_plain)
        return token->end - token->start == length && memcmp(document->text + token->start, text, length) == 0;
    uint32_t at = token->start;
    uint8_t character[4];
    size_t size;
    while ((size = lz_character(document, index, &at, character)) > 0) {
        if (size > length || memcmp(character, text, size) != 0)
            return false;
        text += size;
        length -= size;
    }
    return length == 0;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static bool skip_digits(Reader *reader)
{
    if (!is_digit(peek(reader)))
        return refuse(reader);
    while (is_digit(peek(reader)))
        reader->at++;
    return true;
}

static bool read_number(Reader *reader)
{
    uint32_t start = reader->at;
    LzKind kind = LZ_INTEGER;
    if (peek(reader) == '-')
        reader->at++;
    if (peek(reader) == '0')
        reader->at++;
    else if (!skip_digits(reader))
        return false;
    if (peek(reader) == '.') {
        kind = LZ_FRACTION;
        reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        kind = LZ_FRACTION;
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    return add_token(reader, kind, start, reader->at, true);
}

/* The whole of an array that holds nothing but integers up to 255, as one token; false, and no step, for any other. */
static bool read_small_integers(Reader *reader)
{
    Reader ahead = *reader;
    bool is_plain = true;
    do {
        uint32_t before = ++ahead.at;
        skip_space(&ahead);
        uint32_t start = ahead.at;
        unsigned value = 0;
        while (is_digit(peek(&ahead)) && ahead.at - start < 3)
            value = value * 10 + (unsigned)(ahead.text[ahead.at++] - '0');
        uint32_t end = ahead.at;
        if (end == start || value > 255 || (ahead.text[start] == '0' && end - start > 1))
            return false;
        skip_space(&ahead);
        is_plain = is_plain && start == before && ahead.at == end;
    } while (peek(&ahead) == ',');
    if (peek(&ahead) != ']')
        return false;
    uint32_t start = reader->at;
    reader->at = ahead.at + 1;
    return add_token(reader, LZ_SMALL_INTEGERS, start, reader->at, is_plain);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool read_word(Reader *reader, const char *word, LzKind kind)
{
    size_t length = strlen(word);
    if (reader->length - reader->at < length || memcmp(reader->text + reader->at, word, length) != 0)
        return refuse(reader);
    reader->at += (uint32_t)length;
    return add_token(reader, kind, reader->at - (uint32_t)length, reader->at, true);
}

static bool read_name(Reader *reader)
{
    skip_space(reader);
    if (peek(reader) != '"')
        return refuse(reader);
    if (!read_string(reader))
        return false;
    skip_space(reader);
    if (peek(reader) != ':')
        return refuse(reader);
    reader->at++;
    return true;
}

/* Everything of a value that stands by itself, or the first bracket of a container. */
static bool read_start(Reader *reader)
{
    switch (peek(reader)) {
    case '{':
        reader->at++;
        return add_token(reader, LZ_OBJECT, reader->at - 1, reader->at, false);
    case '[':
        if (read_small_integers(reader))
            return true;
        if (reader->result != LZ_OK)
            return false;
        reader->at++;
        return add_token(reader, LZ_ARRAY, reader->at - 1, reader->at, false);
    case '"':
        return read_string(reader);
    case 't':
        return read_word(reader, "true", LZ_TRUE);
    case 'f':
        return read_word(reader, "false", LZ_FALSE);
    case 'n':
        return read_word(reader, "null", LZ_NULL);
    default:
        return read_number(reader);
    }
}

static bool read_document(Reader *reader)
{
    uint32_t open[LZ_DEPTH_MAX];
    uint32_t depth = 0;
    LzDocument *document = reader->document;
    for (;;) {
        skip_space(reader);
        uint32_t index = document->count;
        if (!read_start(reader))
            return false;
        uint16_t kind = document->tokens[index].kind;
        bool is_empty = false;
        if (kind == LZ_OBJECT || kind == LZ_ARRAY) {
            skip_space(reader);
            is_empty = peek(reader) == (kind == LZ_OBJECT ? '}' : ']');
            if (depth == LZ_DEPTH_MAX)
                return refuse(reader);
            open[depth++] = index;
            if (!is_empty) {
                if (kind == LZ_OBJECT && !read_name(reader))
                    return false;
                continue;
            }
        }
        /* A value is complete: close what it completes, up to a comma or the end. */
        for (;;) {
            skip_space(reader);
            if (depth == 0)
                return reader->at == reader->length || refuse(reader);
            LzToken *top = &document->tokens[open[depth - 1]];
            uint8_t byte = peek(reader);
            if (byte == (top->kind == LZ_OBJECT ? '}' : ']')) {
                reader->at++;
                top->end = reader->at;
                top->next = document->count;
                depth--;
                continue;
            }
            if (byte != ',')
                return refuse(reader);
            reader->at++;
            if (top->kind == LZ_OBJECT && !read_name(reader))
                return false;
            break;
        }
    }
}

LzResult lz_parse(LzDocument *document, const uint8_t *text, size_t length)
{
    *document = (LzDocument){.text = text, .length = (uint32_t)length};
    Reader reader = {document, text, 0, (uint32_t)length, LZ_OK};
    (void)read_document(&reader);
    return reader.result;
}

void lz_document_free(LzDocument *document)
{
    free(document->tokens);
    document->tokens = NULL;
}
