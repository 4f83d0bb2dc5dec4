// Package cniconf finds mentions of a plugin in CNI configs, also in places that are not read. A plugin may run others
// by a config of its own.
package cniconf

import "strconv"

// Mentions is how often JSON contains a word in lower case, in any case and with any escapes. A JSON text in a string
// has escapes of escapes, so all backslashes are skipped. It allocates nothing: tenants write configs. The first letter
// of the word must occur in it once.
func Mentions(text []byte, word string) (n int) {
	matched, isEscaped := 0, false
	for i := 0; i < len(text); i++ {
		c := rune(text[i])
		if c == 'u' && isEscaped && i+4 < len(text) {
			if code, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 16); err == nil {
				c, i = rune(code), i+4
			}
		}
		if isEscaped = c == '\\'; isEscaped {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch c {
		case rune(word[matched]):
			if matched++; matched == len(word) {
				n, matched = n+1, 0
			}
		case rune(word[0]):
			matched = 1
		default:
			matched = 0
		}
	}
	return n
}
