// Package lists makes lists of lists. None that it returns is nil: the documents of the commands have [] for an empty
// list, and not null.
package lists

// Filter returns the elements for which is returns true.
func Filter[T any](all []T, is func(T) bool) []T {
	found := []T{}
	for _, x := range all {
		if is(x) {
			found = append(found, x)
		}
	}
	return found
}

// Map returns what of returns for each element.
func Map[T, R any](all []T, of func(T) R) []R {
	found := make([]R, 0, len(all))
	for _, x := range all {
		found = append(found, of(x))
	}
	return found
}

// Clone returns a copy.
func Clone[T any](all []T) []T { return append([]T{}, all...) }
