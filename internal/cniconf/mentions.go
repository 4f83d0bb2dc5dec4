// Package cniconf finds mentions of a plugin in CNI configs, also in places that are not read. A plugin may run others
// by a config of its own.
package cniconf

import (
	"bytes"
	"regexp"
	"strconv"
)

// escape is an escape in a JSON string. A JSON text in a string has escapes of escapes.
var escape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|[^u])`)

// Mentions is how often JSON contains a word in lower case, in any case and with any escapes.
func Mentions(text []byte, word string) int {
	for bytes.IndexByte(text, '\\') >= 0 {
		plain := escape.ReplaceAllFunc(text, func(e []byte) []byte {
			if e[1] != 'u' {
				return e[1:]
			}
			code, _ := strconv.ParseUint(string(e[2:]), 16, 16)
			return []byte(string(rune(code)))
		})
		if len(plain) == len(text) {
			break
		}
		text = plain
	}
	return bytes.Count(bytes.ToLower(text), []byte(word))
}
