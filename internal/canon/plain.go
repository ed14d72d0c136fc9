package canon

// A plain text is one that stands as RFC 8785 writes it but for the order of
// members: compact, no escape in a string but those that it keeps, no number
// but short ones without an exponent. That is how nearly every JSON library
// writes nearly every body, so that one walk can do for them what takes
// jsontext a rewriting and a second walk.

// maxPlainDigits is how many digits a number may have that every writer of
// doubles writes as it is. Two decimals of so many are never one double, so
// the shortest that stands for a double is the only one of that length.
const maxPlainDigits = 15

// maxPlainZeros is how many zeros may follow the point of a number below one:
// past them RFC 8785 writes an exponent.
const maxPlainZeros = 5

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
	}
	first := i
	if text[first] == '-' {
		first++
	}
	point := skipDigits(text, first)
	switch {
	case point == first, text[first] == '0' && point > first+1:
		return i
	case point == len(text) || text[point] != '.':
		if point-first > maxPlainDigits || text[first] == '0' && first > i {
			return i
		}
		return point
	}
	end := skipDigits(text, point+1)
	if end == point+1 || text[end-1] == '0' || end-first-1 > maxPlainDigits {
		return i
	}
	if text[first] == '0' {
		zeros := point + 1
		for text[zeros] == '0' {
			zeros++ // the last digit is none
		}
		if zeros-point-1 > maxPlainZeros {
			return i
		}
	}
	return end
}

func skipDigits(text []byte, i int) int {
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return i
}

// isPlainEscape reports whether RFC 8785 writes the character after the
// backslash so. Any other stands for one that it writes as it is, or in
// another way.
func isPlainEscape(c byte) bool {
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}
