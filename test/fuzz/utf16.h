/*-------------------------------------------------------------------------
 *
 * utf16.h
 *	  UTF-8 as others read it: another decoder than the lock client's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_UTF16_H
#define ZKLOCK_UTF16_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes UTF-8 by the table of the Unicode standard (3-7), which has all that is well-formed,
 * into UTF-16, with room for len units.  Returns how many there are, or -1.
 */
static inline int
utf16_decode(const uint8_t *text, size_t len, uint16_t *units)
{
	int			count = 0;

	for (size_t at = 0; at < len;)
	{
		uint8_t		lead = text[at++];
		int			more = lead < 0x80 ? 0 : lead < 0xC2 ? -1 : lead < 0xE0 ? 1 :
		lead < 0xF0 ? 2 : lead < 0xF5 ? 3 : -1;
		uint32_t	c;

		if (more < 0 || len - at < (size_t) more)
			return -1;
		c = more == 0 ? lead : lead & (0x3Fu >> more);
		for (int i = 0; i < more; i++, at++)
		{
			uint8_t		low = i > 0 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
			uint8_t		high = i == 0 && lead == 0xF4 ? 0x8F : 0xBF;

			if (text[at] < low || text[at] > high)
				return -1;
			c = c << 6 | (text[at] & 0x3F);
		}
		if (c >= 0x10000)
			units[count++] = (uint16_t) (0xD800 + ((c - 0x10000) >> 10));
		units[count++] = (uint16_t) (c < 0x10000 ? c : 0xDC00 + ((c - 0x10000) & 0x3FF));
	}
	return count;
}

#endif							/* ZKLOCK_UTF16_H */
