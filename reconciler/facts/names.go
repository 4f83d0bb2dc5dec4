package facts

import (
	"fmt"
	"strings"
)

// NamesShown is how many names a sentence has.
const NamesShown = 10

// AtMost lists the first n names and the number of the others.
func AtMost(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
