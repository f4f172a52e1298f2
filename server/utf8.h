/* SPDX-License-Identifier: BSD-3-Clause */
/* The one rule about strings on the wire (proto.md, "String values"): UTF-8 without NUL. */
#ifndef SERVER_UTF8_H
#define SERVER_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * n bytes are well-formed UTF-8 (RFC 3629: shortest forms, no surrogates, up to U+10FFFF) and
 * contain no NUL.
 */
bool utf8_valid(const void *bytes, size_t n);

#endif
