package canon

// A plain text is one that stands as RFC 8785 writes it but for the order of
// members: compact, no escape in a string, no number but short integers. That
// is how nearly every JSON library writes nearly every body, so that one walk
// can do for them what takes jsontext a rewriting and a second walk.

// maxPlainDigits is how long an integer is written as it is by every writer of
// doubles.
const maxPlainDigits = 15

// plainScalar returns the index after the literal or plain number at i, or i if
// there is none.
func plainScalar(text []byte, i int) int {
	switch rest := text[i:]; {
	case len(rest) == 0:
		return i
	case rest[0] == 't' && len(rest) >= 4 && string(rest[:4]) == "true",
		rest[0] == 'n' && len(rest) >= 4 && string(rest[:4]) == "null":
		return i + 4
	case rest[0] == 'f' && len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	case rest[0] == '0':
		return i + 1
	}
	first := i
	if text[first] == '-' {
		first++
	}
	end := first
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	if end == first || end > first+maxPlainDigits || text[first] == '0' {
		return i
	}
	return end
}
