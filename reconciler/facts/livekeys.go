package facts

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// LiveKeys names what a live read reads.
type LiveKeys struct {
	Pools                          []types.NamespacedName // read in full where their resourceVersion has changed
	Reservations, Pods, IPAMClaims []types.NamespacedName
}

// And returns the keys of both.
func (k LiveKeys) And(more LiveKeys) LiveKeys {
	return LiveKeys{
		append(k.Pools, more.Pools...), append(k.Reservations, more.Reservations...), append(k.Pods, more.Pods...),
		append(k.IPAMClaims, more.IPAMClaims...),
	}
}

// Unique returns the keys in order, each once.
func (k LiveKeys) Unique() LiveKeys {
	return LiveKeys{uniqueNames(k.Pools), uniqueNames(k.Reservations), uniqueNames(k.Pods), uniqueNames(k.IPAMClaims)}
}

func uniqueNames(names []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

// compareNames orders objects by namespace, then by name.
func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
